"""Bulk verbs of `oncue.Client`: the same as those of a `Scheduler`, part by part."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from oncue import Client, InvalidInput, Scheduler, State

FAR = datetime(2050, 2, 28, 8, 30, tzinfo=UTC)


def add(cue: Scheduler, number: int, queue: str) -> list[str]:
    return cue.schedule_many({"queue": queue, "at": FAR} for _ in range(number)).ids


def test_a_dry_run_tells_what_a_scheduler_tells(client: Client, cue: Scheduler) -> None:
    add(cue, 25, "dry")
    told = client.cancel_all(queue="dry", dry_run=True)
    assert (told.matched, told.changed, len(told.sample)) == (25, 0, 20)
    assert told == cue.cancel_all(queue="dry", dry_run=True)


def test_every_verb_reaches_the_jobs(client: Client, cue: Scheduler) -> None:
    [job_id] = add(cue, 1, "verbs")
    assert client.reprioritise_all(queue="verbs", priority=6).changed == 1
    assert client.move_all(queue="verbs", to="verbs-2").changed == 1
    assert client.cancel_all(queue="verbs-2").changed == 1
    assert client.retry_all(queue="verbs-2", state=State.CANCELLED).changed == 1
    cue.reschedule(job_id, at=FAR)
    assert client.run_all(queue="verbs-2", due_after=FAR - timedelta(1)).changed == 1
    [claimed] = cue.claim("verbs-2", "ada")
    assert (claimed.id, claimed.priority) == (job_id, 6)
    assert client.cancel_all(queue="verbs-2", running=True).changed == 1
    assert cue.job(job_id).cancel_requested


def test_it_goes_no_further_than_its_limit_and_goes_on_from_there(
    client: Client, cue: Scheduler
) -> None:
    add(cue, 7, "limited")
    first = client.cancel_all(queue="limited", limit=3)
    assert (first.matched, first.changed) == (3, 3)
    rest = client.cancel_all(queue="limited", cursor=first.next_cursor)
    assert (rest.changed, rest.next_cursor) == (4, None)


def test_progress_is_told_of_every_part(client: Client, cue: Scheduler) -> None:
    add(cue, 600, "told")
    told: list[int] = []
    outcome = client.cancel_all(queue="told", progress=lambda so_far: told.append(so_far.changed))
    assert outcome.changed == told[-1] == 600
    assert told == sorted(told)


def test_a_cursor_of_a_scheduler_is_one_of_a_client(client: Client, cue: Scheduler) -> None:
    add(cue, 4, "shared")
    first = cue.cancel_all(queue="shared", limit=1)
    assert client.cancel_all(queue="shared", cursor=first.next_cursor).changed == 3


@pytest.mark.parametrize(
    ("verb", "options"),
    [
        ("cancel_all", {}),
        ("cancel_all", {"state": "failed"}),
        ("cancel_all", {"queue": "a b"}),
        ("cancel_all", {"queue": "q", "cursor": "?"}),
        ("move_all", {"queue": "q", "to": "a b"}),
        ("reprioritise_all", {"queue": "q", "priority": "high"}),
    ],
)
def test_the_same_is_refused_with_the_same_words(
    client: Client, cue: Scheduler, verb: str, options: dict[str, Any]
) -> None:
    refusals = []
    for one in (client, cue):
        with pytest.raises(InvalidInput) as refused:
            getattr(one, verb)(**options)
        refusals.append((refused.value.pointer, refused.value.detail))
    assert refusals[0] == refusals[1]


def test_everything_has_to_be_said(client: Client) -> None:
    assert client.retry_all(everything=True, dry_run=True, state="failed").matched == 0
