"""The short ways to a job's JSON say what the long way says."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec import Struct

from oncue.testing import HandDriven
from oncue.usecases import intake
from oncue.wire.claims import ClaimedJob
from oncue.wire.converting import written
from oncue.wire.jobs import Job

EVERYTHING: dict[str, Any] = {
    "payload": {"to": "ada"},
    "queue": "mail",
    "delay": 5,
    "expires_at": "2060-01-01T00:00:00.250Z",
    "owner": "olga",
    "priority": 3,
    "key": "k",
    "max_attempts": 4,
    "timeout_seconds": 2.5,
}


def as_json(shape: Struct) -> Any:
    return msgspec.json.decode(msgspec.json.encode(shape))


@pytest.fixture(params=["memory:", "sqlite:///{folder}/jobs.db"])
def cue(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[HandDriven]:
    with HandDriven(request.param.format(folder=tmp_path)) as cue:
        yield cue


def test_a_job_that_was_just_stored_looks_as_the_store_has_it(cue: HandDriven) -> None:
    new = intake.new_job(EVERYTHING, cue.clock.now())
    cue.store.insert([new], cue.clock.now())
    assert as_json(Job.of_new(new)) == as_json(written(Job, cue.job(new.id)))


def test_a_job_that_was_just_claimed_looks_as_the_store_has_it(cue: HandDriven) -> None:
    cue.schedule(**EVERYTHING)
    cue.clock.advance(6)
    [first] = cue.claim("mail", "ada")
    cue.heartbeat(first.id, cue.token(first), message="half", percent=50)
    cue.fail(first.id, cue.token(first), "broken", retry_after=1)
    cue.clock.advance(2)
    [claim] = cue.claim("mail", "ada")
    told = as_json(ClaimedJob.of(claim, "proof", None))
    expected = as_json(written(Job, cue.job(claim.id)))
    assert {name: told[name] for name in expected} == expected
    assert (told["error"], told["percent"], told["token"]) == ("broken", 50, "proof")


@pytest.mark.parametrize(("own", "expected"), [(None, 900), (600, 600)])
def test_a_claimed_job_tells_how_long_the_attempt_may_take(
    cue: HandDriven, own: float | None, expected: float
) -> None:
    cue.schedule(queue="mail", timeout_seconds=own)
    [claim] = cue.claim("mail", "ada")
    told = as_json(ClaimedJob.of(claim, "proof", 900))
    assert (told["timeout_seconds"], told["attempt_timeout_seconds"]) == (own, expected)


def test_a_claimed_occurrence_names_its_schedule(cue: HandDriven) -> None:
    cue.every(60, name="often", queue="mail", owner="olga")
    cue.engine.step_all()
    cue.clock.advance(60)
    cue.engine.step_all()
    [claim] = cue.claim("mail", "ada")
    told = as_json(ClaimedJob.of(claim, "proof", None))
    expected = as_json(written(Job, cue.job(claim.id)))
    assert told["schedule"] == "often"
    assert {name: told[name] for name in expected} == expected


def test_a_claimed_job_that_a_rule_fired_looks_as_the_store_has_it(cue: HandDriven) -> None:
    cue.put_rule("r", [{"type": "TABLE", "resourceId": "T", "lifeDuration": 0}], queue="mail")
    at = "2021-01-01T11:59:59.000001Z"
    cue.publish({"eventType": "TABLE", "eventTimestamp": at, "eventResourceId": "T"})
    [claim] = cue.claim("mail", "ada")
    told = as_json(ClaimedJob.of(claim, "proof", None))
    expected = as_json(written(Job, cue.job(claim.id)))
    assert {name: told[name] for name in expected} == expected
    assert (told["rule"], told["instant"]) == ("r", at)
