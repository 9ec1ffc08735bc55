"""Long polls that find nothing take no write lock, which all processes share."""

from __future__ import annotations

import asyncio
from contextlib import closing
from pathlib import Path

import pytest

from oncue.aio import AsyncScheduler, ClaimRequest
from oncue.api.waiting import Waiting
from oncue.core.queue import Queue
from oncue.core.sharing import Taker
from oncue.scheduler import Scheduler
from oncue.stores.sqlite.connection import connect
from oncue.usecases.queues import put_queue


async def never() -> None:
    await asyncio.Event().wait()


async def polled(cue: Scheduler, *queues: str) -> list[str]:
    """What long polls on these queues got, once they have looked."""
    waiting = Waiting(AsyncScheduler(cue))
    polls = [waiting.claim(ClaimRequest((queue,), Taker("w", 1)), 0.3, never) for queue in queues]
    taken = await asyncio.gather(*polls)
    waiting.close()
    await waiting.idle()
    return [job.id for items in taken for job in items]


def test_long_polls_on_queues_that_give_nothing_take_no_lock(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "jobs.db"
    with closing(Scheduler(f"sqlite:///{path}")) as cue, closing(connect(path)) as holder:
        put_queue(cue.store, Queue("full", concurrency=1))
        first, _ = (cue.schedule(queue="full").id for _ in range(2))
        assert asyncio.run(polled(cue, "full", "empty")) == [first]
        assert cue.claim(["full"], "w") == []
        cue.store.db.writer.connection.set_busy_timeout(0)  # type: ignore[attr-defined]
        holder.execute("BEGIN IMMEDIATE")
        assert asyncio.run(polled(cue, "full", "empty")) == []
        holder.execute("ROLLBACK")
        assert caplog.text == ""
