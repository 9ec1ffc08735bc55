"""What each operation takes and answers with, in words, shapes and examples: one file for each tag.
`openapi` puts them together with the table of operations."""

from __future__ import annotations

from oncue.api.description import bulk, jobs, queues, tasks, upkeep, work
from oncue.api.description.about import About

ABOUT: dict[tuple[str, str], About] = {
    **jobs.ABOUT,
    **bulk.ABOUT,
    **work.ABOUT,
    **queues.ABOUT,
    **tasks.ABOUT,
    **upkeep.ABOUT,
}
"""By method and path."""
