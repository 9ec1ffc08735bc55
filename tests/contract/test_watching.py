"""Being told of new work, and submitting calls."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from oncue.core.moment import Moment, from_datetime
from oncue.ports.store import Store
from oncue.usecases.queues import set_paused
from tests.contract.changing import Amendment

from .desk import Desk
from .promises import Listening


def retry(desk: Desk) -> None:
    desk.retry(desk.retake("job"), due_at=desk.now + 5_000)


def release(desk: Desk) -> None:
    desk.release(desk.retake("job"))


def reclaim(desk: Desk) -> None:
    desk.retake("job")
    desk.reclaim(desk.lapse())


def amend(desk: Desk) -> None:
    desk.amend("job", Amendment(due_at=desk.now - 1))


def revive(desk: Desk) -> None:
    desk.cancel("job")
    desk.revive("job")


def replace(desk: Desk) -> None:
    desk.store.insert([desk.new("new", key="k", replace=True, due_in=-3)], desk.now)


def resume(desk: Desk) -> None:
    set_paused(desk.store, "q", True)
    set_paused(desk.store, "q", False)


@pytest.mark.parametrize("change", [retry, release, reclaim, amend, revive, replace, resume])
def test_everything_that_makes_work_wait_is_told(
    desk: Desk, change: Callable[[Desk], None]
) -> None:
    desk.add("job", key="k")
    listening = Listening(desk.store)
    change(desk)
    assert listening.has_heard_of("q", from_datetime(desk.job("job").due_at))


def test_new_work_is_told_by_queue_and_due_time(desk: Desk) -> None:
    listening = Listening(desk.store)
    jobs = [desk.new(due_in=30), desk.new(due_in=10), desk.new(due_in=5, queue="other")]
    desk.store.insert(jobs, desk.now)
    assert listening.has_heard_of("q", desk.now + 10_000)
    assert listening.has_heard_of("other", desk.now + 5_000)


def test_a_listener_finds_the_work_already_stored_and_may_use_the_store(desk: Desk) -> None:
    found = []
    desk.store.watch(lambda queue, _: found.append(desk.store.next_due([queue or "q"])))
    desk.add()
    assert desk.now in found


def test_every_listener_is_told_until_it_stops(desk: Desk) -> None:
    first, second = Listening(desk.store), Listening(desk.store)
    desk.add()
    assert first.has_heard_of("q", desk.now)
    assert second.has_heard_of("q", desk.now)
    first.stop()
    first.stop()
    before = len(first.told)
    desk.add(queue="other")
    assert len(first.told) == before
    assert second.has_heard_of("other", desk.now)


@pytest.mark.parametrize("error", [ValueError, SystemExit, GeneratorExit, BaseException])
def test_whatever_a_listener_raises_the_write_is_done_and_the_others_are_told(
    desk: Desk, error: type[BaseException]
) -> None:
    def failing(queue: str | None, due_at: Moment) -> None:
        raise error

    desk.store.watch(failing)
    listening = Listening(desk.store)
    desk.add("first")
    desk.add("second", queue="other")
    assert listening.has_heard_of("q", desk.now)
    assert listening.has_heard_of("other", desk.now)
    assert sorted(desk.listed()) == ["first", "second"]


def test_a_store_tells_what_it_is(store: Store) -> None:
    facts = store.describe()
    assert facts.details["kind"] == facts.kind
    assert len(store.secret) >= 16
    assert store.secret == store.secret


def test_a_store_judges_by_the_clock_it_was_given(desk: Desk) -> None:
    assert desk.store.clock is desk.clock
