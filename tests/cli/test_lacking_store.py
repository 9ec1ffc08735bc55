"""Everything above a store that can neither count nor list everything: Python, HTTP, the terminal.
What is not known is left out; only what cannot be answered at all is refused, by name."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from click.testing import CliRunner, Result

from oncue import stores
from oncue.api.inline import InlineService, whole_request
from oncue.api.request import HttpAnswer
from oncue.api.routes import ROUTES
from oncue.cli.app import cli
from oncue.cli.failures import exit_code
from oncue.client.errors import error_of
from oncue.clock import FakeClock
from oncue.core.errors import NotSupported
from oncue.core.lifecycle import State
from oncue.core.queue import QueueStats
from oncue.engine.node import Node
from oncue.engine.pruner import Pruner
from oncue.ports.store import Store
from oncue.scheduler import Scheduler
from oncue.stores.memory import MemoryStore
from oncue.telemetry.prometheus import render
from oncue.transfer.dump import Dump
from oncue.wire.problems import Problem
from tests.stores.lacking import lacking


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def store(clock: FakeClock) -> Store:
    return lacking(MemoryStore(clock))


@pytest.fixture
def cue(store: Store, clock: FakeClock) -> Iterator[Scheduler]:
    """A queue with one due job, and an event."""
    with Scheduler(store, clock=clock) as cue:
        cue.set_queue("mail", max_attempts=5)
        cue.schedule(queue="mail", id="due", key="k")
        cue.publish(
            {
                "eventType": "FILE",
                "eventResourceId": "/in/a",
                "eventTimestamp": "2021-01-01T12:00:00Z",
            }
        )
        clock.advance(120)
        yield cue


# -- Python ----------------------------------------------------------------------------------------


def test_a_queue_has_settings_and_no_numbers(cue: Scheduler) -> None:
    [(queue, stats)] = cue.queues_with_stats()
    assert (queue.name, queue.max_attempts) == ("mail", 5)
    assert stats == QueueStats({}, None)


def test_a_due_job_is_explained_without_those_it_waits_with(cue: Scheduler) -> None:
    told = cue.explain("due")
    assert told.reason == "waiting"
    assert (told.facts["due"], told.facts["due_longer"], told.facts["taken"]) == (None, None, None)


def test_the_pruner_prunes_and_goes_on(cue: Scheduler, store: Store, clock: FakeClock) -> None:
    cue.cancel("due")
    clock.advance(8 * 86_400)
    Pruner(Node.of(store, clock)).step()
    assert list(cue.jobs(queue="mail")) == []


def test_a_dump_has_everything(cue: Scheduler, store: Store) -> None:
    out = io.BytesIO()
    counts = Dump(store, out).write()
    assert (counts.jobs, counts.queues, counts.events) == (1, 1, 1)


def test_metrics_leave_out_what_is_not_known(cue: Scheduler) -> None:
    text = render(cue).decode()
    assert "oncue_store_up 1.0" in text
    for series in ("oncue_jobs{", "oncue_oldest_due_seconds{", "oncue_pruned_rows_total "):
        assert f"\n{series}" not in text
    assert "oncue_jobs_created_total 1.0" in text


@pytest.mark.parametrize("lack", ["all-jobs", "all-events", "counts"])
def test_what_cannot_be_answered_is_refused_by_name(cue: Scheduler, lack: str) -> None:
    calls: dict[str, list[Callable[[], object]]] = {
        "all-jobs": [lambda: list(cue.jobs()), lambda: cue.cancel_all(everything=True)],
        "all-events": [lambda: list(cue.events())],
        "counts": [lambda: cue.due_counts("mail", 0, 10, 1)],
    }
    for call in calls[lack]:
        with pytest.raises(NotSupported) as caught:
            call()
        assert caught.value.lack == lack


# -- HTTP ------------------------------------------------------------------------------------------


def ask(cue: Scheduler, place: str) -> HttpAnswer:
    path, _, query = place.partition("?")
    return InlineService(cue, ROUTES).answer(whole_request("GET", path, query.encode(), {}, b""))


@pytest.mark.parametrize("place", ["/queues", "/queues/mail"])
def test_http_tells_of_queues_with_null_for_what_is_not_known(cue: Scheduler, place: str) -> None:
    body = json.loads(ask(cue, place).body)
    [queue] = body.get("items", [body])
    assert queue["max_attempts"] == 5
    assert queue["counts"] == {state.value: None for state in State}
    assert queue["oldest_due_at"] is None


@pytest.mark.parametrize(
    "place",
    ["/readyz", "/metrics", "/jobs?queue=mail", "/jobs/due", "/jobs/due/explain", "/rules"],
)
def test_http_answers_what_needs_none_of_it(cue: Scheduler, place: str) -> None:
    assert ask(cue, place).status == 200


@pytest.mark.parametrize(
    ("place", "lack"),
    [
        ("/jobs", "all-jobs"),
        ("/jobs?state=scheduled", "all-jobs"),
        ("/events", "all-events"),
        ("/queues/mail/due-counts", "counts"),
    ],
)
def test_http_refuses_what_cannot_be_answered(cue: Scheduler, place: str, lack: str) -> None:
    answer = ask(cue, place)
    told = json.loads(answer.body)
    assert (answer.status, told["type"]) == (501, "/problems/not-supported")
    assert f"it lacks '{lack}'" in told["detail"]
    problem = Problem(type=told["type"], status=501, detail=told["detail"])
    assert isinstance(error_of(problem), NotSupported), "a client raises what a scheduler does"


# -- the terminal ----------------------------------------------------------------------------------


@pytest.fixture
def run(cue: Scheduler, store: Store, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Commands on this store."""
    monkeypatch.setattr(stores, "open_store", lambda url, clock: store)

    def run(*arguments: str) -> Result:
        return CliRunner().invoke(cli, ["--store", "memory:", *arguments])

    return run


def test_the_terminal_shows_queues_with_dashes(run: Any) -> None:
    ended = run("queues", "list")
    assert ended.exit_code == 0
    assert "mail" in ended.output
    assert "–" in ended.output
    why = "–: not known, because this store cannot count its jobs."
    assert why in ended.output
    assert why in run("queues", "show", "mail").output
    assert why not in run("queues", "list", "--json").output


def test_top_says_that_it_cannot_count(run: Any) -> None:
    assert "this store cannot count its jobs" in run("top").output
    assert json.loads(run("top", "--json").stdout)["queues"][0]["load"] == []


def test_forecast_says_that_it_cannot_know(run: Any) -> None:
    told = run("forecast", "--rate", "100")
    assert told.exit_code == 0
    assert "Jobs that are stored are left out." in told.output
    assert "it lacks 'counts'" in told.output
    assert "late" not in told.output
    assert json.loads(run("forecast", "--rate", "100", "--json").stdout)["overdue"] is None


def test_forecast_tells_of_schedules_all_the_same(cue: Scheduler, run: Any) -> None:
    cue.put_schedule("nightly", cron="0 2 * * *")
    told = json.loads(run("forecast", "--rate", "100", "--json").stdout)
    assert (told["occurrences"], sum(step["due"] for step in told["steps"])) == (1, 1)


def test_doctor_says_what_is_not_known_and_finds_no_error_in_it(run: Any) -> None:
    ended = run("doctor")
    assert ended.exit_code == 0
    assert "lateness: not known." in ended.output
    assert "0 errors" in ended.output


def test_the_terminal_refuses_what_cannot_be_answered(run: Any) -> None:
    for arguments, lack in (
        (("jobs", "list"), "all-jobs"),
        (("jobs", "cancel", "--all", "--yes"), "all-jobs"),
        (("events", "list"), "all-events"),
    ):
        refusal = run(*arguments).exception
        assert isinstance(refusal, NotSupported)
        assert (refusal.lack, exit_code(refusal)) == (lack, 5)
    assert run("jobs", "list", "--queue", "mail").exit_code == 0


def test_the_terminal_deletes_a_queue_without_saying_how_many_jobs_it_had(run: Any) -> None:
    assert run("jobs", "cancel", "due").exit_code == 0
    told = run("queues", "delete", "mail", "--yes").output
    assert "Deleted queue mail with its finished jobs." in told
