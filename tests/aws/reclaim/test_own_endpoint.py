"""`oncue.aws.reclaim` against oncue's own `/agenda-progress`: it is no way around the fence."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from oncue import Scheduler, State
from oncue.core.access import Scope
from oncue.core.agenda import TIMED_OUT
from oncue.core.job import Claimed
from oncue.usecases.tokens import Access
from tests.aws.reclaim.conftest import OtherSystem
from tests.aws.reclaim.servers import Told
from tests.http.server import Server, running_server


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    with running_server(tmp_path, "--no-engine") as running:
        yield running


@pytest.fixture
def cue(server: Server) -> Iterator[Scheduler]:
    with Scheduler(server.store) as cue:
        yield cue


@pytest.fixture
def jobs(other: OtherSystem, cue: Scheduler, server: Server) -> dict[str, Claimed]:
    """Two jobs in the hands of a worker, that are rows of the other table; the identity server
    gives out a token of oncue."""
    _, token = Access(cue.store, cue.clock).create("reclaimer", frozenset({Scope.ADMIN}))
    other.identity.answers_with = Told(200, json.dumps({"token": token}).encode())
    cue.schedule(queue="work", id="last", max_attempts=1)
    cue.schedule(queue="work", id="first")
    claims = {one.id: one for one in cue.claim("work", "ada", limit=2, lease_seconds=86_400)}
    for claim in claims.values():
        cue.start(claim.id, cue.token(claim))
    for name in claims:
        other.add(name)
    return claims


def reclaimed(other: OtherSystem, server: Server, **parameters: Any) -> Any:
    """The age is tiny: the jobs were claimed just now."""
    url = f"{server.url}/agenda-progress"
    given = {"reclaimAgeMinutes": 0.00001, "agendaProgressEndpointURL": url, **parameters}
    return other.reclaimed(**given)


def messages(cue: Scheduler, job_id: str) -> list[str]:
    return [one.detail for one in cue.history(job_id).diagnostics]


def test_stuck_jobs_are_failed_with_the_event(
    other: OtherSystem, server: Server, cue: Scheduler, jobs: dict[str, Claimed]
) -> None:
    report = reclaimed(other, server)
    assert (report["failed"], report["errors"], report["lostRaces"]) == (2, 0, 0)
    for name, claim in jobs.items():
        job = cue.job(name)
        assert job.state is State.FAILED
        assert TIMED_OUT in messages(cue, name)
        [event] = [one for one in cue.history(name).diagnostics if one.detail == TIMED_OUT]
        assert event.code == "timeout_executing"
        assert event.facts["decision"] == "fail"
        with pytest.raises(Exception, match="no longer belongs to this claim"):
            cue.complete(claim.id, cue.token(claim), "late")


def test_in_the_mode_retry_the_server_counts_the_attempts(
    other: OtherSystem, server: Server, cue: Scheduler, jobs: dict[str, Claimed]
) -> None:
    report = reclaimed(other, server, mode="retry")
    assert (report["retried"], report["failed"], report["errors"]) == (1, 1, 0)
    assert (cue.job("first").state, cue.job("last").state) == (State.SCHEDULED, State.FAILED)
    [again] = cue.claim("work", "bob", lease_seconds=60)
    assert (again.id, again.attempt) == ("first", 2)
    once_more = reclaimed(other, server, mode="retry", reclaimAgeMinutes=30)
    assert (once_more["reclaimed"], once_more["errors"]) == (0, 0)
    assert once_more["lostRaces"] == 2  # the rows are old, the jobs have moved on


def test_a_job_that_finished_since_the_scan_is_left_alone(
    other: OtherSystem, server: Server, cue: Scheduler, jobs: dict[str, Claimed]
) -> None:
    claim = jobs["first"]
    cue.complete("first", cue.token(claim), "just in time")
    report = reclaimed(other, server)
    assert (report["failed"], report["lostRaces"]) == (1, 1)
    assert (cue.job("first").state, cue.job("first").result) == (State.SUCCEEDED, "just in time")
