"""Real workers: they hand over what is due, and run it as always."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from celery import chain, chord, group
from celery.contrib.testing.worker import start_worker

from oncue import Scheduler
from oncue.clock import SystemClock
from tests.celery.conftest import OpenShop
from tests.celery.shop import PATIENCE, pollers
from tests.servers import redis_url
from tests.stores.postgres import own_url

# Of Celery, when it calls the client of Redis.
pytestmark = pytest.mark.filterwarnings("ignore:Call to deprecated:DeprecationWarning")
PROGRAM = """
import os
from celery import Celery
from oncue import Scheduler
from oncue.integrations.celery import install

app = Celery("shop", broker=os.environ["BROKER"], backend=os.environ["BROKER"])
app.conf.update(
    task_default_queue="tasks",
    broker_transport_options={"global_keyprefix": os.environ["PREFIX"]},
    result_backend_transport_options={"global_keyprefix": os.environ["PREFIX"]},
)
install(app, Scheduler(os.environ["STORE"]), threshold=0, poll_seconds=0.1)

@app.task(bind=True)
def steps(self):
    if self.request.retries < 1:
        raise self.retry(countdown=0.2)
    return os.getpid()
"""


def test_canvases_and_retries_run_when_they_are_due(broker: str, open_shop: OpenShop) -> None:
    """With Redis, the store is PostgreSQL; with RabbitMQ, it is memory."""
    store = own_url() if broker.startswith("redis:") else "memory:"
    shop = open_shop(broker, backend=redis_url(), clock=SystemClock(), store=store)
    shop.install(threshold=0, poll_seconds=0.05)
    others = pollers()

    @shop.app.task(bind=True, name="shop.again", shared=False)  # type: ignore[untyped-decorator]
    def again(self: Any) -> int:
        if self.request.retries < 2:
            raise self.retry(countdown=0.1)
        return int(self.request.retries)

    options: dict[str, Any] = {"perform_ping_check": False, "shutdown_timeout": PATIENCE}
    with start_worker(shop.app, **options):
        assert len(pollers() - others) == 1
        results = [
            group(shop.add.s(1), shop.add.s(2)).apply_async(countdown=0.3),
            chain(shop.add.s(1), shop.add.s(2)).apply_async(countdown=0.3),
            chord([shop.add.s(1), shop.add.s(2)], shop.app.tasks["shop.total"].s()).apply_async(
                countdown=0.3
            ),
            again.apply_async(countdown=0.3),
        ]
        values = [one.get(timeout=PATIENCE, disable_sync_subtasks=False) for one in results]
    assert values == [[1, 2], 3, 3, 2]
    assert pollers() <= others
    with start_worker(shop.app, **options):
        assert len(pollers() - others) == 1
        assert shop.add.apply_async([1], countdown=0.1).get(timeout=PATIENCE) == 1
    assert pollers() <= others


def test_the_main_process_of_a_worker_polls_for_its_children(tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(PROGRAM)
    settings = {
        "BROKER": redis_url(),
        "PREFIX": f"{tmp_path}",
        "STORE": f"sqlite:///{tmp_path / 'jobs.db'}",
    }
    env = {**os.environ, **settings, "PYTHONWARNINGS": "ignore"}
    command = [sys.executable, "-m", "celery", "-A", "shop", "worker", "-P", "prefork", "-c", "2"]
    worker = subprocess.Popen(
        [*command, "--without-gossip", "--without-mingle", "-l", "WARNING"],
        cwd=tmp_path,
        env=env,
    )
    try:
        send = "import shop; print(shop.steps.apply_async(countdown=0.2).get(timeout=60))"
        done = subprocess.run(
            [sys.executable, "-c", send],
            cwd=tmp_path,
            env=env,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        assert int(done.stdout) != worker.pid
    finally:
        worker.send_signal(signal.SIGTERM)
        assert worker.wait(PATIENCE) == 0
    cue = Scheduler(settings["STORE"])
    assert len(list(cue.jobs(queue="celery"))) == 2
    cue.close()
