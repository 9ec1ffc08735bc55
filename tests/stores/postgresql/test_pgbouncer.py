"""Behind pgbouncer, which gives each transaction another connection. Some of the contract suite
runs there as well (tests/stores/postgres.py)."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import closing
from uuid import uuid4

import psycopg
import pytest

from oncue import Scheduler, StoreUnusable
from oncue.cli import postgresql_findings
from oncue.core.lifecycle import State
from oncue.stores.postgresql.address import PgAddress
from oncue.stores.postgresql.database import PgDatabase
from oncue.stores.postgresql.store import PgStore
from oncue.worker.job import HandledJob
from oncue.worker.worker import Worker
from tests.contract.desk import together
from tests.servers.pgbouncer import APART, pgbouncer_url
from tests.stores.postgresql.faults import SOON


@pytest.fixture
def url() -> str:
    return f"{pgbouncer_url()}?schema=t{uuid4().hex}"


@pytest.fixture
def cue(url: str) -> Iterator[Scheduler]:
    with Scheduler(url) as cue:
        yield cue


def test_it_is_recognised(cue: Scheduler, url: str) -> None:
    assert cue.store.describe().details["listens"] is False
    with closing(PgDatabase(PgAddress.read(url.replace("?", "?listen=yes&")))) as sure:
        sure.once(lambda tx: tx.execute("SELECT 1"))
        assert sure.listens is True


def test_who_insists_on_listening_is_told_to_leave_it(url: str) -> None:
    with (
        pytest.raises(StoreUnusable, match="the URL says listen=yes. Write listen=no, or leave it"),
        Scheduler(url.replace("/postgres?", f"/{APART}?listen=yes&")) as sure,
    ):
        together(10, lambda _: [sure.schedule(n, queue="mail") for n in range(100)])


def test_the_doctor_says_how_soon_jobs_of_other_processes_are_noticed(cue: Scheduler) -> None:
    assert isinstance(cue.store, PgStore)
    [found] = postgresql_findings._notices(cue.store)
    assert found.text.startswith("off, by listen=no or because a pooler")
    assert found.text.endswith("jobs of other processes are noticed within 250 ms.")


def test_a_job_of_another_process_is_found_and_done(cue: Scheduler, url: str) -> None:
    done = threading.Event()

    @cue.handler("mail")
    def send(job: HandledJob) -> None:
        job.progress(50)
        done.set()

    worker = Worker(cue)
    thread = threading.Thread(target=worker.run)
    thread.start()
    try:
        with Scheduler(url) as other:
            job = other.schedule({"to": "ada"}, queue="mail")
            assert done.wait(SOON)
    finally:
        worker.stop()
        thread.join(SOON)
    assert cue.job(job.id).state is State.SUCCEEDED


def test_many_threads_work_at_the_same_time(cue: Scheduler) -> None:
    """Each statement may meet any connection of the server."""
    for n in range(10):
        cue.schedule_many({"queue": f"q{n}"} for _ in range(40))

    def work(number: int) -> int:
        done = 0
        while claims := cue.claim([f"q{number}"], f"w{number}", limit=7):
            for one in claims:
                cue.heartbeat(one.id, cue.token(one))
                cue.complete(one.id, cue.token(one))
            done += len(claims)
        return done

    assert together(10, work) == [40] * 10


def test_a_job_is_stored_in_a_transaction_of_its_user(cue: Scheduler, url: str) -> None:
    cue.schedule(queue="mail")  # makes the tables
    with psycopg.connect(url.partition("?")[0], prepare_threshold=None) as connection:
        kept = cue.schedule(1, queue="mail", connection=connection)
    with psycopg.connect(url.partition("?")[0], prepare_threshold=None) as connection:
        dropped = cue.schedule(2, queue="mail", connection=connection)
        connection.rollback()
    found = {job.id for job in cue.jobs(queue="mail")}
    assert kept.id in found
    assert dropped.id not in found


def test_a_handler_completes_its_job_in_a_transaction(cue: Scheduler) -> None:
    @cue.handler("mail")
    def send(job: HandledJob) -> None:
        with job.transaction() as connection:
            connection.execute("SELECT 1")

    jobs = [cue.schedule(n, queue="mail") for n in range(20)]
    cue.work(until_empty=True)
    assert {cue.job(job.id).state for job in jobs} == {State.SUCCEEDED}
