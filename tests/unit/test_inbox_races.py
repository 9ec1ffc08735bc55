"""A producer that meddles with its item between any two requests of the inbox, and a process that
dies between any two: nothing is lost, and what nobody put is not delivered."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from oncue.stores.dynamodb.inbox_lease import LEASE_MS
from tests.unit.inbox_desk import InboxDesk

MOST_REQUESTS = 60
Act = Callable[[InboxDesk, dict[str, Any]], None]


@pytest.fixture
def desk() -> Iterator[InboxDesk]:
    desk = InboxDesk()
    yield desk
    desk.store.close()


class Hook:
    """Does something once, before the request of that number."""

    def __init__(self, number: int, act: Callable[[], None]) -> None:
        self._left = number
        self._act = act
        self._lock = threading.Lock()
        self.has_acted = False

    def __call__(self, method: str, asked: dict[str, Any]) -> None:
        with self._lock:
            self._left -= 1
            if self._left or self.has_acted:
                return
            self.has_acted = True
        self._act()


def deliveries(desk: InboxDesk, queue: str, name: str) -> Counter[str]:
    """How often each content of the items with this id was delivered, or became a job."""
    if queue == "out":
        return Counter(payload.strip('"') for job_id, payload in desk.sent if job_id == name)
    items, _ = desk.store.table.scan(None, 10_000)
    ids = {item["pk"][2:] for item in items if item["pk"].startswith(f"i#{name}")}
    jobs = [job for job_id in ids if (job := desk.store.get(job_id)) is not None]
    return Counter(str(job.payload) for job in jobs)


def overwrite(desk: InboxDesk, item: dict[str, Any]) -> None:
    desk.put_item({**item, "detail": "new"})


def delete(desk: InboxDesk, item: dict[str, Any]) -> None:
    desk.remove_item(item)


def put_again(desk: InboxDesk, item: dict[str, Any]) -> None:
    desk.put_item(item)


def delete_and_put_another(desk: InboxDesk, item: dict[str, Any]) -> None:
    desk.remove_item(item)
    desk.put_item({**item, "detail": "new"})


# What must be delivered then, and what may be, with how often at most.
WANTED: dict[Act, tuple[dict[str, int], dict[str, int]]] = {
    overwrite: ({"new": 1}, {"old": 1}),
    delete: ({}, {"old": 1}),
    put_again: ({"old": 1}, {"old": 2}),
    delete_and_put_another: ({"new": 1}, {"old": 1}),
}


@pytest.mark.parametrize("queue", ["out", "mail"])
@pytest.mark.parametrize("act", WANTED, ids=lambda act: act.__name__)
def test_whatever_a_producer_does_at_any_step_nothing_is_lost(
    desk: InboxDesk, queue: str, act: Act
) -> None:
    must, may = WANTED[act]
    for number in range(1, MOST_REQUESTS):
        name = f"job{number}-"
        desk.clock.advance(10)
        item = desk.put(name, desk.now, "old", queue=queue)
        hook = Hook(number, lambda item=item: act(desk, item))  # type: ignore[misc]
        desk.client.before = hook
        desk.work_off()
        desk.client.before = lambda *_: None
        desk.work_off()
        found = deliveries(desk, queue, name)
        if not hook.has_acted:
            assert found == {"old": 1}
            break
        assert all(found[content] >= count for content, count in must.items()), number
        most = {**must, **may}
        assert all(count <= most.get(content, 0) for content, count in found.items()), number
        assert desk.left() == []
    else:
        pytest.fail("there are more requests than were tried")


class Died(BaseException):
    """The process was killed."""


@pytest.mark.parametrize("queue", ["out", "mail"])
@pytest.mark.parametrize("answered", [False, True])
def test_wherever_a_process_dies_another_goes_on(
    desk: InboxDesk, queue: str, answered: bool
) -> None:
    """Before a request is made, or when it was made and its answer is not known."""
    for number in range(1, MOST_REQUESTS):
        name = f"job{number}-"
        desk.clock.advance(LEASE_MS / 1000)
        desk.put(name, desk.now, "old", queue=queue)
        dying = desk.another()
        hook = _death(desk, number, answered=answered)
        try:
            while dying.step(f"p{number}", desk.now, desk.accept) == 0.0:
                continue
        except Died:
            pass
        desk.client.before = lambda *_: None
        desk.clock.advance(LEASE_MS / 1000)
        desk.work_off(desk.another(), f"q{number}")
        found = deliveries(desk, queue, name)
        assert set(found) == {"old"}
        assert found["old"] <= (2 if queue == "out" and hook.has_acted else 1)
        assert desk.left() == []
        if not hook.has_acted:
            return
    pytest.fail("there are more requests than were tried")


def _death(desk: InboxDesk, number: int, *, answered: bool) -> Hook:
    """From the request of that number on, none gets through."""
    dead = threading.Event()
    hook = Hook(number, dead.set)

    def before(method: str, asked: dict[str, Any]) -> None:
        was_dead = dead.is_set()
        hook(method, asked)
        if dead.is_set():
            if answered and not was_dead:
                getattr(desk.client.real, method)(**asked)
            raise Died

    desk.client.before = before
    return hook
