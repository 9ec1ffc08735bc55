"""Workers whose jobs are at a server: in this process by `Client.work`, and in others by the
program, killed and stopped for real."""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from oncue import (
    ClaimLost,
    Client,
    HandledJob,
    InvalidInput,
    NonRetryable,
    ServerUnavailable,
    State,
)
from oncue.client.claim_source import RemoteClaimSource
from oncue.clock import SystemClock
from oncue.engine.alarm import Alarm
from oncue.worker.source import Beat, ClaimEnd
from oncue.worker.worker import Worker
from tests.http.meddler import HOLD, LOSE, Said, meddling
from tests.http.patience import until
from tests.http.server import Server, running_server
from tests.http.workers import Crew, crew_in

SOON = 30.0  # only reached if something is broken
# What a worker says that finds its claim gone: by its own clock, by a heartbeat, or by its result.
NOTICED = ("no heartbeat was confirmed", "the claim was lost", "the result came too late")


@pytest.fixture
def crew(tmp_path: Path) -> Iterator[Crew]:
    with crew_in(tmp_path) as crew:
        yield crew


def state_is(client: Client, job_id: str, state: State) -> Callable[[], bool]:
    return lambda: client.job(job_id).state is state


# -- handlers ----------------------------------------------------------------------------------


def test_a_handler_is_given_the_job_and_its_answer_is_the_result(client: Client) -> None:
    seen: list[HandledJob] = []

    @client.handler("r-given")
    def handle(job: HandledJob) -> dict[str, Any]:
        seen.append(job)
        return {"twice": job.payload["n"] * 2}

    job = client.schedule({"n": 21}, queue="r-given", owner="o", key="k", priority=4)
    client.work(until_empty=True, name="wanda")
    [handled] = seen
    assert (handled.id, handled.queue, handled.attempt) == (job.id, "r-given", 1)
    assert (handled.owner, handled.key, handled.priority) == ("o", "k", 4)
    assert handled.due_at == job.due_at
    assert handled.lateness_seconds >= 0
    assert client.job(job.id).result == {"twice": 42}
    [attempt] = client.history(job.id).attempts
    assert (attempt.worker, attempt.outcome) == ("wanda", "succeeded")


def test_a_worker_knows_how_long_an_attempt_may_take(client: Client) -> None:
    client.set_queue("r-timed", timeout_seconds=900)
    seen: dict[str, float | None] = {}
    for queue in ("r-timed", "r-untimed"):
        client.handler(queue)(lambda job: seen.update({job.id: job.timeout_seconds}))
        for number, timeout in enumerate((None, 600, None)):
            client.schedule(queue=queue, id=f"{queue}-{number}", timeout_seconds=timeout)
    client.work(until_empty=True)
    assert [seen[f"r-timed-{n}"] for n in range(3)] == [900, 600, 900]
    assert [seen[f"r-untimed-{n}"] for n in range(3)] == [None, 600, None]


def test_many_jobs_of_several_queues_are_done_once_each(client: Client) -> None:
    done: list[tuple[str, int]] = []
    for queue in ("r-many-a", "r-many-b"):
        client.handler(queue)(lambda job: done.append((job.queue, job.payload)))
        client.schedule_many(({"payload": n} for n in range(1500)), queue=queue)
    client.work(until_empty=True, concurrency=2)
    assert sorted(done) == [(q, n) for q in ("r-many-a", "r-many-b") for n in range(1500)]
    assert {job.attempt for job in client.jobs(queue="r-many-a")} == {1}


def test_a_batch_handler_is_given_a_list(client: Client) -> None:
    sizes: list[int] = []

    @client.handler("r-batch", batch=3)
    def handle(jobs: list[HandledJob]) -> list[int]:
        sizes.append(len(jobs))
        return [job.payload for job in jobs]

    ids = client.schedule_many(({"payload": n} for n in range(7)), queue="r-batch").ids
    client.work(until_empty=True)
    assert sum(sizes) == 7
    assert max(sizes) <= 3
    assert [client.job(one).result for one in ids] == list(range(7))


def test_an_asynchronous_handler_is_awaited(client: Client) -> None:
    @client.handler("r-async")
    async def handle(job: HandledJob) -> int:
        await asyncio.sleep(0)
        return int(job.payload) + 1

    job = client.schedule(1, queue="r-async")
    client.work(until_empty=True)
    assert client.job(job.id).result == 2


def test_the_server_decides_whether_a_failure_is_tried_again(client: Client) -> None:
    client.set_queue("r-fail", max_attempts=3, retry={"initial_seconds": 0.01})

    @client.handler("r-fail", fatal=[KeyError])
    def handle(job: HandledJob) -> None:
        raise {"pass": ValueError, "never": NonRetryable, "fatal": KeyError}[job.payload]("boom")

    ids = client.schedule_many(({"payload": p} for p in ("pass", "never", "fatal")), queue="r-fail")
    client.work(until_empty=True)
    jobs = [client.job(one) for one in ids.ids]
    assert [(job.state, job.attempt) for job in jobs] == [
        (State.FAILED, 3),
        (State.FAILED, 1),
        (State.FAILED, 1),
    ]
    assert jobs[0].error == "ValueError: boom"


def test_a_result_that_cannot_be_stored_fails_and_the_work_is_not_repeated(client: Client) -> None:
    client.handler("r-large")(lambda job: "x" * 300_000)
    job = client.schedule(queue="r-large")
    client.work(until_empty=True)
    ended = client.job(job.id)
    assert (ended.state, ended.attempt) == (State.FAILED, 1)


def test_large_results_are_sent_in_several_requests(client: Client) -> None:
    client.handler("r-wide", batch=10)(lambda jobs: ["x" * 250_000] * len(jobs))
    ids = client.schedule_many(({} for _ in range(10)), queue="r-wide").ids
    client.work(until_empty=True)
    assert {len(client.job(one).result) for one in ids} == {250_000}


def test_so_are_long_errors_as_large_as_they_are_written(client: Client) -> None:
    client.set_queue("r-woe", max_attempts=1)
    client.schedule_many(({} for _ in range(200)), queue="r-woe")

    @client.handler("r-woe", batch=200)
    def fail(jobs: list[HandledJob]) -> None:
        raise ValueError("\x01" * 2000)  # six bytes each, in JSON

    assert Worker(client).step()
    assert client.stats("r-woe").counts[State.FAILED] == 200


def test_a_step_that_succeeded_is_not_run_again(client: Client) -> None:
    client.set_queue("r-step", retry={"initial_seconds": 0.01})
    ran: list[str] = []

    @client.handler("r-step")
    def handle(job: HandledJob) -> Any:
        first = job.step("first", lambda: ran.append("first"))
        job.progress(40, "half-way", step="second")
        if job.attempt == 1:
            raise ConnectionError("not now")
        known = job.operation("second")
        assert known is not None
        assert (known.percent, known.message) == (40, "half-way")
        return job.step("second", lambda: [first, {"n": 2}])

    job = client.schedule(queue="r-step")
    client.work(until_empty=True)
    assert ran == ["first"]
    assert client.job(job.id).result == [None, {"n": 2}]


def test_the_log_of_a_failure_names_a_command_that_asks_the_server(
    client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    @client.handler("r-raising")
    def handle(job: HandledJob) -> None:
        raise ValueError(job.payload)

    job = client.schedule("what it says", queue="r-raising", max_attempts=1)
    client.work(until_empty=True)
    url = client.connection.address.url
    assert f"raised ValueError; its text: oncue --url {url} jobs show {job.id}\n" in caplog.text
    assert "what it says" not in caplog.text


def test_progress_is_shown_with_the_job(client: Client) -> None:
    shown: list[tuple[State, float | None, str | None]] = []

    @client.handler("r-progress")
    def handle(job: HandledJob) -> None:
        job.progress(25, "a quarter")
        now = client.job(job.id)
        shown.append((now.state, now.percent, now.message))

    client.schedule(queue="r-progress")
    client.work(until_empty=True)
    assert shown == [(State.EXECUTING, 25, "a quarter")]


@pytest.mark.parametrize("way", ["progress", "heartbeat"])
def test_a_handler_that_was_asked_to_end_stops(client: Client, way: str) -> None:
    """Learnt by its own report, or by the heartbeats that the worker sends."""
    queue = f"r-cancel-{way}"

    @client.handler(queue)
    def handle(job: HandledJob) -> None:
        client.cancel(job.id, running=True)
        if way == "progress":
            job.progress(10)
        else:
            until(lambda: job.cancel_requested)
        job.check()

    job = client.schedule(queue=queue)
    client.work(until_empty=True)
    ended = client.job(job.id)
    assert ended.state is State.CANCELLED
    assert ended.error == "The handler stopped because a cancel was requested."


def test_a_claim_that_was_taken_away_is_noticed_and_its_result_not_used(client: Client) -> None:
    client.set_queue("r-lost", lease_seconds=60)
    lost: list[str] = []

    @client.handler("r-lost")
    def handle(job: HandledJob) -> str:
        if job.attempt == 1 and not lost:
            token = job.claim.token  # type: ignore[attr-defined]
            client.fail(job.id, token, "somebody else says so", retry_after=0.01)
            with pytest.raises(ClaimLost) as caught:
                job.progress(5)
            lost.append(str(caught.value))
        return f"of attempt {job.attempt}"

    job = client.schedule(queue="r-lost")
    client.work(until_empty=True)
    assert client.job(job.id).result == "of attempt 2"
    [text] = lost
    assert text.startswith(f"job {job.id}: the claim was lost (failed). ")


def test_a_cancel_is_learnt_by_a_heartbeat_long_before_a_third_of_the_lease(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(RemoteClaimSource, "beat_seconds", 0.1)
    client.set_queue("r-cancelled", lease_seconds=3600)
    told: list[str] = []

    def is_told(job: HandledJob) -> bool:
        try:
            job.check()
        except ClaimLost as stop:
            told.append(str(stop))
        return bool(told)

    @client.handler("r-cancelled")
    def handle(job: HandledJob) -> None:
        until(lambda: client.job(job.id).state is State.EXECUTING)
        client.cancel(job.id, running=True)
        until(lambda: is_told(job))
        job.check()

    job = client.schedule(queue="r-cancelled")
    client.work(until_empty=True)
    assert client.job(job.id).state is State.CANCELLED
    assert "a cancel was requested" in told[0]


def test_reclaimed_work_is_taken_one_at_a_time(client: Client) -> None:
    """What may have killed a worker does not take others down with it."""
    client.set_queue("r-poison", lease_seconds=0.2)
    ids = client.schedule_many(({"payload": n} for n in range(3)), queue="r-poison").ids
    assert len(client.claim("r-poison", "dead", limit=3)) == 3
    until(lambda: all(client.job(one).state is State.SCHEDULED for one in ids))
    client.set_queue("r-poison", lease_seconds=60)
    client.schedule_many(({"payload": n} for n in range(3, 6)), queue="r-poison")
    batches: list[list[int]] = []
    client.handler("r-poison", batch=10)(lambda jobs: batches.append([j.payload for j in jobs]))
    worker = Worker(client)
    while worker.step():
        assert len(batches[-1]) == 1 or not set(batches[-1]) & {0, 1, 2}
    assert [n for batch in batches for n in batch] == [0, 1, 2, 3, 4, 5]
    assert {client.job(one).attempt for one in ids} == {2}


class SleepyClock(SystemClock):
    """Between two looks at it, half a minute passes."""

    def __init__(self) -> None:
        super().__init__()
        self._slept = 0.0

    def monotonic(self) -> float:
        self._slept += 30.0
        return super().monotonic() + self._slept


def test_of_claims_whose_answer_came_late_one_is_begun_and_the_others_go_back(
    server: Server,
) -> None:
    """To renew a lease says that the job has started, which is not true of all of them."""
    with Client(server.url, clock=SleepyClock()) as client:
        ids = client.schedule_many(({} for _ in range(3)), queue="r-late").ids
        claimed = client.claim_source("w").claim("r-late", 3, client.clock.now())
        assert claimed is not None
        jobs = [client.job(str(one)) for one in ids]
        assert [claim.id for claim in claimed.claims] == ids[:1]
        assert [(job.state, job.attempt) for job in jobs] == [
            (State.EXECUTING, 1),
            (State.SCHEDULED, 0),
            (State.SCHEDULED, 0),
        ]


def test_what_was_waited_for_is_begun_before_anything_else_is_claimed(client: Client) -> None:
    """Nobody speaks for it before it is in hand, so it must not wait for another's end."""
    for name in ("r-first", "r-second"):
        client.handler(name)(lambda job: None)
    place, told = client.claim_source("w"), list[str | None]()
    leave = place.watch(lambda queue, due_at: told.append(queue))
    client.schedule(queue="r-second")
    place.rest(Alarm(client.clock), SOON)
    client.schedule(queue="r-first")
    assert place.claim("r-first", 1, client.clock.now()) is None
    assert told == ["r-second", "r-first"], "it is to be looked at again"
    for name in ("r-second", "r-first"):
        claimed = place.claim(name, 1, client.clock.now())
        assert claimed is not None
        assert claimed.queue.name == name
    leave()


def test_a_report_that_is_not_taken_keeps_no_other_from_being_taken(
    client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    client.schedule_many(({} for _ in range(2)), queue="r-forged")
    first, second = client.claim("r-forged", "w", limit=2)
    first.token = second.token
    place, queue = client.claim_source("w"), client.queue("r-forged")
    place.settle(queue, [ClaimEnd(one, "complete", b"1") for one in (first, second)])
    states = [client.job(one.id).state for one in (first, second)]
    assert states == [State.DISPATCHED, State.SUCCEEDED]
    assert f"job {first.id}: the result came too late (unknown)" in caplog.text
    assert second.token not in caplog.text


def test_a_worker_of_very_many_queues_looks_at_all_of_them(client: Client) -> None:
    done = threading.Event()
    for n in range(150):
        client.handler(f"r-q{n}", batch=100_000)(lambda jobs: done.set())
    worker = Worker(client)
    thread = threading.Thread(target=worker.run, daemon=True)
    thread.start()
    for n in (0, 149, 75):
        done.clear()
        client.schedule(queue=f"r-q{n}")
        assert done.wait(SOON)
    worker.stop()
    thread.join(SOON)
    assert not thread.is_alive()


def test_a_client_without_handlers_has_nothing_to_do(client: Client) -> None:
    with pytest.raises(InvalidInput, match="no handler is registered"):
        client.work()


# -- ending ------------------------------------------------------------------------------------


def test_a_worker_that_waits_is_woken_by_a_new_job_and_ends_when_it_is_told(
    client: Client,
) -> None:
    done = threading.Event()
    client.handler("r-wake")(lambda job: done.set())
    worker = Worker(client)
    thread = threading.Thread(target=worker.run, daemon=True)
    thread.start()
    for _ in range(2):
        done.clear()
        client.schedule(queue="r-wake")
        assert done.wait(SOON)
    worker.stop()
    thread.join(SOON)
    assert not thread.is_alive()


def test_a_worker_that_has_ended_claims_nothing_more(client: Client) -> None:
    """What falls due after it left is there for others at once, not when a lease has ended."""
    begun = threading.Event()
    client.handler("r-ended")(lambda job: begun.set())
    for _ in range(5):
        begun.clear()
        worker = Worker(client)
        thread = threading.Thread(target=worker.run, daemon=True)
        thread.start()
        client.schedule(queue="r-ended")
        assert begun.wait(SOON)  # and soon it waits for the next one
        worker.stop()
        thread.join(SOON)
        job = client.schedule(queue="r-ended", delay=0.1)
        [claimed] = client.claim("r-ended", "somebody else", wait_seconds=SOON)
        assert (claimed.id, claimed.attempt) == (job.id, 1)
        client.complete(job.id, claimed.token)


def test_stop_lets_the_running_job_finish_and_hands_back_the_rest(client: Client) -> None:
    worker: list[Worker] = []

    @client.handler("r-stop")
    def handle(job: HandledJob) -> str:
        if job.payload == "stop":
            worker[0].stop()
        return "finished"

    client.schedule_many(({"payload": n} for n in range(21)), queue="r-stop")
    worker.append(Worker(client))
    while worker[0].step():
        continue
    payloads = ("stop", 1, 2, 3)
    ids = client.schedule_many(({"payload": p} for p in payloads), queue="r-stop").ids
    worker[0].run()
    jobs = [client.job(one) for one in ids]
    assert jobs[0].result == "finished"
    assert {(job.state, job.attempt) for job in jobs[1:]} == {(State.SCHEDULED, 0)}


# -- trouble -----------------------------------------------------------------------------------


def test_answers_that_are_lost_lose_no_results(server: Server) -> None:
    """Settlements are repeated; nothing is done twice, and no refusal is recorded."""
    with meddling(server.url) as proxy, Client(proxy.url) as client:
        runs: list[str] = []

        @client.handler("r-lossy")
        def handle(job: HandledJob) -> str:
            runs.append(job.id)
            proxy.plan.extend([LOSE, Said(502), LOSE])
            return job.step("s", lambda: "done")

        ids = client.schedule_many(({} for _ in range(3)), queue="r-lossy").ids
        worker = Worker(client)
        while len(runs) < 3:
            worker.step()
        assert runs == ids
        proxy.plan.clear()
        assert {client.job(one).result for one in ids} == {"done"}
        assert [client.history(one).diagnostics for one in ids] == [()] * 3


def test_a_worker_stops_by_itself_when_the_server_is_silent_for_two_thirds_of_a_lease(
    server: Server,
) -> None:
    with meddling(server.url) as proxy, Client(proxy.url) as client:
        client.set_queue("r-silent", lease_seconds=1.5)
        gave_up: list[bool] = []

        @client.handler("r-silent")
        def handle(job: HandledJob) -> str:
            if not gave_up:
                proxy.always = Said(503)
                until(lambda: job.lost)
                gave_up.append(job.lost)
                until(lambda: server.get(f"/jobs/{job.id}").json["state"] == "scheduled")
                # The next attempt has time, so that no busy machine loses it.
                server.put("/queues/r-silent", {"lease_seconds": 60})
                proxy.always = None
            return f"of attempt {job.attempt}"

        job = client.schedule(queue="r-silent")
        client.work(until_empty=True)
        assert gave_up == [True]
        assert client.job(job.id).result == "of attempt 2"


def test_a_silent_server_does_not_keep_whoever_watches_over_the_leases(server: Server) -> None:
    with meddling(server.url) as proxy, Client(proxy.url) as client:
        client.set_queue("r-held", lease_seconds=2)
        client.schedule(queue="r-held")
        place, queue = client.claim_source("w"), client.queue("r-held")
        claimed = place.claim("r-held", 1, client.clock.now())
        assert claimed is not None
        ends = [ClaimEnd(one, "release") for one in claimed.claims]
        proxy.always = HOLD
        proxy.seen.clear()
        patient = threading.Thread(target=place.settle, args=[queue, ends], daemon=True)
        patient.start()
        until(lambda: len(proxy.seen) == 1)
        with pytest.raises(ServerUnavailable):
            place.settle(queue, ends, brief=True)
        with pytest.raises(ServerUnavailable):
            place.touch([Beat(one, 60.0) for one in claimed.claims])
        assert patient.is_alive(), "it was asked first, and would wait longer"
        proxy.let_go.set()
        patient.join(SOON)


def test_a_server_that_restarts_finds_its_workers_still_at_it(crew: Crew, tmp_path: Path) -> None:
    folder = tmp_path / "server"
    folder.mkdir()
    with running_server(folder) as first:
        port = first.url.rpartition(":")[2]
        with Client(first.url) as client:
            held = client.schedule(f"hold {crew.folder / 'go'}", queue="work")
            crew.worker(first.url, "ada")
            until(lambda: crew.begun("job", held.id))
        first.kill()
        (crew.folder / "go").touch()  # it finishes while nobody is there to be told
    with running_server(folder, "--port", port) as second, Client(second.url) as client:
        until(state_is(client, held.id, State.SUCCEEDED))
        assert (client.job(held.id).result, client.job(held.id).attempt) == ("ada", 1)
        after = client.schedule(queue="work")
        until(state_is(client, after.id, State.SUCCEEDED))


def test_a_job_whose_worker_was_killed_goes_to_another_and_skips_its_finished_steps(
    server: Server, client: Client, crew: Crew
) -> None:
    client.set_queue("work", lease_seconds=3)  # a heartbeat may be late by two
    job = client.schedule(f"steps {crew.folder / 'go'}", queue="work")
    first = crew.worker(server.url, "ada")
    until(lambda: crew.begun("first", job.id))
    until(lambda: [o.state for o in client.history(job.id).operations] == ["succeeded"])
    first.signal(signal.SIGKILL)
    (crew.folder / "go").touch()
    crew.worker(server.url, "bob")
    until(state_is(client, job.id, State.SUCCEEDED))
    assert (client.job(job.id).result, client.job(job.id).attempt) == (["one", "two"], 2)
    assert len(crew.begun("first", job.id)) == 1
    outcomes = [(one.worker, one.outcome) for one in client.history(job.id).attempts]
    assert outcomes == [("ada", "reclaimed"), ("bob", "succeeded")]


def test_a_worker_that_was_asleep_beyond_its_lease_cannot_write_any_more(
    server: Server, client: Client, crew: Crew
) -> None:
    client.set_queue("work", lease_seconds=1)
    job = client.schedule("stop", queue="work")
    first = crew.worker(server.url, "ada")
    until(lambda: crew.begun("job", job.id))
    crew.worker(server.url, "bob")
    until(state_is(client, job.id, State.SUCCEEDED))
    assert client.job(job.id).result == "bob"
    first.signal(signal.SIGCONT)
    until(lambda: any(words in first.said for words in NOTICED))
    done = client.job(job.id)
    assert (done.state, done.result, done.attempt) == (State.SUCCEEDED, "bob", 2)


def test_sigterm_ends_a_worker_in_good_order(server: Server, client: Client, crew: Crew) -> None:
    client.set_queue("work", lease_seconds=60)
    job = client.schedule(f"hold {crew.folder / 'go'}", queue="work")
    worker = crew.worker(server.url, "ada")
    until(lambda: crew.begun("job", job.id))
    worker.signal(signal.SIGTERM)
    (crew.folder / "go").touch()
    assert worker.wait() == 0, worker.said
    assert client.job(job.id).result == "ada"
    assert "Stopped." in worker.said


def test_until_empty_works_from_the_command_line_too(
    server: Server, client: Client, crew: Crew
) -> None:
    ids = client.schedule_many(({} for _ in range(20)), queue="work").ids
    worker = crew.worker(server.url, "ada", "--until-empty")
    assert worker.wait() == 0, worker.said
    assert {client.job(one).result for one in ids} == {"ada"}
    assert f"queues work; server {server.url}." in worker.said


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (("--url", "nonsense"), "--url: is not the address of a server"),
        (("--token", "t"), "--token goes with --url"),
        (("--url", "http://127.0.0.1:9", "--no-engine"), "the server runs the loops"),
    ],
)
def test_options_that_make_no_sense_together_are_refused(
    crew: Crew, options: tuple[str, ...], text: str
) -> None:
    import subprocess
    import sys

    command = [sys.executable, "-m", "oncue.cli", "worker", "tasks:cue", *options]
    run = subprocess.run(command, cwd=crew.folder, capture_output=True, text=True)
    assert run.returncode == 2
    assert text in run.stderr
