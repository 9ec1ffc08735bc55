"""A scheduler is given something that is no store: what it says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from oncue import InvalidInput, Scheduler
from oncue.aio import AsyncScheduler
from oncue.stores.memory import MemoryStore


@pytest.mark.parametrize(
    ("given", "kind"),
    [
        (None, "NoneType"),
        (b"sqlite:///jobs.db", "bytes"),
        (Path("jobs.db"), "PosixPath"),
        (MemoryStore, "MemoryStore"),
        (Scheduler("memory:"), "Scheduler"),
    ],
)
def test_what_is_no_url_and_no_store_is_refused(given: Any, kind: str) -> None:
    with pytest.raises(InvalidInput, match=f"^/store: must be a URL in text.* of type {kind}\\.$"):
        Scheduler(given)


@pytest.mark.parametrize("given", ["postgresql://ada:secret@db/jobs", None, MemoryStore()])
def test_an_asynchronous_scheduler_is_made_of_a_scheduler(given: Any) -> None:
    with pytest.raises(InvalidInput, match=r"AsyncScheduler\(Scheduler\(") as refused:
        AsyncScheduler(given)
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize(
    ("url", "hint"),
    [
        ("postgrseql://ada:secret@db/jobs", "Did you mean 'postgresql'?"),
        ("postgresql+psycopg://ada:secret@db/jobs", "Did you mean 'postgresql'?"),
        ("POSTGRESQL://ada:secret@db/jobs", "Did you mean 'postgresql'?"),
        ("sqllite:///jobs.db", "Did you mean 'sqlite'?"),
        ("host=db password=secret dbname=jobs", "write it as postgresql://USER@HOST/DATABASE"),
        ("service=mine", "postgresql:///DATABASE?service=NAME"),
        ("papyrus:x", "and memory:."),
    ],
)
def test_a_url_that_is_nearly_right_is_refused_with_the_right_one(url: str, hint: str) -> None:
    with pytest.raises(InvalidInput, match="^/store: ") as refused:
        Scheduler(url)
    assert hint in str(refused.value)
    assert "secret" not in str(refused.value)
