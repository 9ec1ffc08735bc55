"""Effects in the database of the store happen exactly once, whatever happens to the workers."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

from oncue import Scheduler
from oncue.core.lifecycle import State
from tests.chaos.effects import QUEUE, EffectRun, effects, make_table, set_queue, start_worker
from tests.servers.postgres import PostgresServer

PATIENCE_SECONDS = 60.0


def test_every_effect_happens_once_although_workers_are_killed_and_stopped(
    tmp_path: Path, server: PostgresServer
) -> None:
    card = EffectRun(tmp_path, server, jobs=300, kills=8, seconds=240).run()
    assert card.green, card
    assert card.interrupted > 0, f"nothing was proved: {card}"


def test_a_worker_that_completes_its_jobs_afterwards_is_found_out(
    tmp_path: Path, server: PostgresServer
) -> None:
    run = EffectRun(tmp_path, server, jobs=600, kills=6, seconds=240, habit="careless")
    card = run.run()
    assert card.repeated > 0, card


def test_the_transaction_of_a_zombie_is_refused(tmp_path: Path, server: PostgresServer) -> None:
    """It is stopped in the middle of it, and goes on when another worker has done the job."""
    make_table(server.url)
    workers = []
    with Scheduler(server.url) as cue:
        set_queue(cue)
        try:
            workers.append(start_worker(tmp_path, server.url, "zombie"))
            job = cue.schedule("wait", queue=QUEUE)
            _await((tmp_path / "inside").exists)
            workers[0].send_signal(signal.SIGSTOP)
            os.waitpid(workers[0].pid, os.WUNTRACED)
            (tmp_path / "go").touch()
            workers.append(start_worker(tmp_path, server.url, "other"))
            _await(lambda: cue.job(job.id).state is State.SUCCEEDED)
            workers[0].send_signal(signal.SIGCONT)
            _await((tmp_path / "zombie.refused").exists)
        finally:
            for worker in workers:
                worker.send_signal(signal.SIGCONT)
                worker.kill()
                worker.wait()
        found = cue.job(job.id)
        assert [one.worker for one in cue.history(job.id).attempts] == ["zombie", "other"]
    assert (found.state, found.attempt) == (State.SUCCEEDED, 2)
    assert effects(server.url) == {job.id: 1}


def _await(condition: Callable[[], bool]) -> None:
    ends = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        assert time.monotonic() < ends
        time.sleep(0.02)
