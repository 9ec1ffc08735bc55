"""What a `Client` answers is what a `Scheduler` of the same store answers, and the command line
prints what the server answers."""

from __future__ import annotations

import json
from typing import Any

import pytest

from oncue import Client, Job, NotFound, Scheduler
from oncue.core.job import JobFilter
from tests.cli.terminal import run
from tests.http.server import Server


def as_told(job: Job) -> Job:
    """Without the fields that the HTTP interface does not have."""
    return job._replace(epoch=0, not_before=None, refusals=0)


def lived_through(cue: Scheduler, queue: str) -> Job:
    """A job that failed once, has finished steps, and is taken again."""
    cue.set_queue(queue, retry={"initial_seconds": 0.0})
    job = cue.schedule({"to": "ada"}, queue=queue, owner="olga", key="k", max_attempts=4)
    [claimed] = cue.claim(queue, "first")
    token = cue.token(claimed)
    cue.operation(job.id, token, "nothing", "succeeded", result=None, percent=100)
    cue.operation(job.id, token, "half", "executing", percent=50, message="half-way")
    cue.fail(job.id, token, "broken")
    [claimed] = cue.claim(queue, "second")
    cue.heartbeat(job.id, cue.token(claimed), message="again", percent=12.5)
    return cue.job(job.id)


def test_a_job_and_what_happened_to_it(client: Client, cue: Scheduler) -> None:
    job = lived_through(cue, "p-job")
    assert client.job(job.id) == as_told(job)
    assert client.history(job.id) == cue.history(job.id)
    assert [attempt.epoch for attempt in client.history(job.id).attempts] == [1, 2]


VERBS = ["job", "history", "explain", "reschedule", "cancel", "run", "retry", "complete_by_hand"]


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("job_id", ["no-such-job", "", "\ud800", "a/b", 5])
def test_a_job_that_does_not_exist(client: Client, cue: Scheduler, verb: str, job_id: Any) -> None:
    told = []
    for one in (cue, client):
        with pytest.raises(NotFound) as refused:
            getattr(one, verb)(job_id)
        told.append(str(refused.value))
    assert told[0] == told[1]


def test_an_error_that_not_every_store_can_keep(client: Client, cue: Scheduler) -> None:
    errors = []
    for one in (cue, client):
        job = one.schedule(queue="p-error")
        [claimed] = one.claim("p-error", "w")
        one.fail(job.id, one.token(claimed), "no file caf\udce9\0", retry_after=3600)
        errors.append(cue.job(job.id).error)
    assert errors == ["no file caf\\udce9\\0"] * 2


def test_a_page_of_jobs(client: Client, cue: Scheduler) -> None:
    lived_through(cue, "p-page")
    wanted = JobFilter(queue="p-page")
    here = cue.page(wanted, None, 10).items
    assert client.page(wanted, None, 10).items == [as_told(job) for job in here]
    assert list(client.jobs(queue="p-page")) == [as_told(job) for job in here]


def test_why_a_job_is_where_it_is(client: Client, cue: Scheduler) -> None:
    job = cue.schedule(queue="p-why")
    cue.pause("p-why")
    here, there = cue.explain(job.id), client.explain(job.id)
    assert (there.reason, there.facts.keys()) == (here.reason, here.facts.keys())


def test_bulk_outcomes(client: Client, cue: Scheduler) -> None:
    for _ in range(3):
        cue.schedule(queue="p-bulk")
    here = cue.cancel_all(queue="p-bulk", dry_run=True)
    there = client.cancel_all(queue="p-bulk", dry_run=True)
    here.sample = [as_told(job) for job in here.sample]
    assert there == here


def test_a_claim_and_what_is_answered_to_its_reports(client: Client, cue: Scheduler) -> None:
    job = cue.schedule({"to": "ada"}, queue="p-claim", timeout_seconds=9)
    [claimed] = client.claim("p-claim", "ada", lease_seconds=30)
    stored = cue.job(job.id)
    assert stored.lease_until is not None
    assert claimed.lease_until == int(stored.lease_until.timestamp() * 1000 + 0.5)
    assert (claimed.payload, claimed.attempt_timeout_seconds) == (stored.payload_json, 9)
    token = claimed.token
    there = client.operation(job.id, token, "step", "succeeded", result=[1])
    assert (there,) == cue.history(job.id).operations
    assert client.heartbeat(job.id, token).cancel_requested is False


def test_who_starts_a_job_learns_that_it_should_stop(client: Client, cue: Scheduler) -> None:
    job = cue.schedule(queue="p-start")
    [claimed] = client.claim("p-start", "ada")
    begun = client.start(job.id, claimed.token)
    assert (begun.lease_until, begun.cancel_requested) == (claimed.lease_until, False)
    cue.cancel(job.id, running=True)
    assert client.start(job.id, claimed.token).cancel_requested
    assert client.start(job.id, claimed.token) == cue.start(job.id, claimed.token)


@pytest.mark.parametrize(
    "settings",
    [{}, {"sink": "log:"}, {"sink": "log:", "completion": "worker", "max_attempts": 5}],
    ids=str,
)
def test_a_queue(client: Client, cue: Scheduler, settings: dict[str, Any]) -> None:
    name = f"p-queue-{len(settings)}"
    assert client.set_queue(name, **settings) == cue.set_queue(name, **settings)
    cue.pause(name)
    cue.schedule(queue=name)
    assert client.queue(name) == cue.queue(name)
    assert {queue.name: queue for queue in client.queues()}[name] == cue.queue(name)
    # How many are put off is not part of the HTTP interface.
    assert client.stats(name) == cue.stats(name)._replace(put_off=None)


def test_how_late_jobs_began_is_told_by_the_process_that_handed_them_out(
    client: Client, cue: Scheduler
) -> None:
    client.schedule(queue="p-late")
    client.claim("p-late", "ada")
    lateness = client.stats("p-late").lateness
    assert lateness is not None
    assert lateness.count == 1
    assert cue.stats("p-late").lateness is None


@pytest.mark.parametrize("at", ["store", "server"])
def test_the_command_line_prints_what_the_server_answers(
    server: Server, cue: Scheduler, at: str
) -> None:
    job = lived_through(cue, f"p-cli-{at}")
    place = {"ONCUE_URL": server.url} if at == "server" else {"ONCUE_STORE": server.store}

    def printed(*arguments: str) -> Any:
        return json.loads(run(*arguments, "--json", cwd=server.folder, env=place).out)

    assert printed("jobs", "show", job.id) == server.get(f"/jobs/{job.id}").json
    assert (
        printed("jobs", "list", "--queue", job.queue) == server.get(f"/jobs?queue={job.queue}").json
    )
    assert printed("queues", "show", job.queue) == server.get(f"/queues/{job.queue}").json
    listed = {one["name"]: one for one in printed("queues", "list")["items"]}
    assert listed[job.queue] == server.get(f"/queues/{job.queue}").json
