"""What each operation takes and answers with, in words, shapes and examples: one file for each tag.
`openapi` puts them together with the table of operations."""

from __future__ import annotations

from oncue.api.description import (
    agenda,
    bulk,
    jobs,
    queues,
    rules,
    schedules,
    tasks,
    upkeep,
    work,
)
from oncue.api.description.about import About

ABOUT: dict[tuple[str, str], About] = {
    **jobs.ABOUT,
    **bulk.ABOUT,
    **work.ABOUT,
    **queues.ABOUT,
    **rules.ABOUT,
    **schedules.ABOUT,
    **tasks.ABOUT,
    **agenda.ABOUT,
    **upkeep.ABOUT,
}
"""By method and path."""
