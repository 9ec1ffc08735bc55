"""Access tokens: kept, listed, removed, and told to whoever watches."""

from __future__ import annotations

from functools import partial

import pytest

from oncue.core.access import AccessToken, Scope, mint
from oncue.core.errors import Conflict
from oncue.core.moment import Moment
from oncue.ports.store import Store
from oncue.usecases.tokens import Access

from .desk import Desk, together
from .promises import Listening, every

READ = frozenset({Scope.READ})


def token(token_id: str, created_at: Moment = 0, name: str | None = None) -> AccessToken:
    return AccessToken(token_id, name, bytes(range(32)), READ, created_at)


def test_a_store_begins_without_tokens(store: Store) -> None:
    assert store.tokens() == []


def test_a_token_comes_back_as_it_was_put(desk: Desk) -> None:
    whole, _ = mint("Ada's laptop, küche 🍳", frozenset(Scope), desk.now)
    plain, _ = mint(None, READ, desk.now + 1)
    assert desk.store.put_token(whole)
    assert desk.store.put_token(plain)
    assert desk.store.tokens() == [whole, plain]
    assert [one.digest for one in desk.store.tokens()] == [whole.digest, plain.digest]


def test_every_set_of_scopes_is_kept(store: Store) -> None:
    kept = [frozenset({scope}) for scope in Scope] + [frozenset({Scope.WORK, Scope.READ})]
    for number, scopes in enumerate(kept):
        store.put_token(AccessToken(str(number), None, bytes(32), scopes, 0))
    assert [one.scopes for one in store.tokens()] == kept


def test_tokens_are_listed_oldest_first_then_by_id(store: Store) -> None:
    for one in (token("c", 1), token("a", 2), token("d", 0), token("b", 1)):
        store.put_token(one)
    assert [one.id for one in store.tokens()] == ["d", "b", "c", "a"]


def test_an_id_that_is_taken_is_refused_and_changes_nothing(store: Store) -> None:
    first = token("a", name="first")
    assert store.put_token(first)
    assert not store.put_token(token("a", name="second"))
    assert not store.put_token(first)
    assert store.tokens() == [first]


def test_tokens_may_share_a_name(store: Store) -> None:
    assert store.put_token(token("a", name="ci"))
    assert store.put_token(token("b", name="ci"))
    assert len(store.tokens()) == 2


def test_a_removed_token_is_gone_and_the_others_stay(store: Store) -> None:
    store.put_token(token("a"))
    store.put_token(token("b"))
    assert store.remove_token("a")
    assert [one.id for one in store.tokens()] == ["b"]
    assert not store.remove_token("a")
    assert not store.remove_token("never")
    assert store.put_token(token("a"))


def test_watchers_are_told_to_look_at_everything_when_tokens_change(store: Store) -> None:
    for change in (partial(store.put_token, token("a")), partial(store.remove_token, "a")):
        listening = Listening(store)
        assert change()
        listening.stop()
        assert listening.has_heard_of_settings()


def test_a_watcher_finds_the_change_already_made(store: Store) -> None:
    seen: list[list[str]] = []
    store.watch(lambda _queue, _due_at: seen.append([one.id for one in store.tokens()]))
    store.put_token(token("a"))
    store.remove_token("a")
    assert sorted(seen, reverse=True) == seen, "first there, then gone"
    assert [seen[0], seen[-1]] == [["a"], []]


def test_of_many_that_remove_the_same_token_one_is_told_that_it_did(store: Store) -> None:
    store.put_token(token("a"))
    assert sorted(together(8, lambda _: store.remove_token("a"))) == [False] * 7 + [True]


def test_of_many_that_put_the_same_id_one_is_kept(store: Store) -> None:
    kept = together(8, lambda thread: store.put_token(token("a", name=str(thread))))
    assert kept.count(True) == 1
    assert [one.name for one in store.tokens()] == [str(kept.index(True))]


def test_a_store_that_had_a_token_is_closed_until_loopback_is_allowed(desk: Desk) -> None:
    access = Access(desk.store, desk.clock)
    assert not access.closed
    access.create("ci")
    access.revoke("ci")
    assert (access.tokens(), access.configured, access.closed) == ([], False, True)
    assert access.allow_loopback()
    assert not access.closed
    assert not access.allow_loopback()
    access.create("ci")
    access.revoke("ci")
    assert Access(desk.store, desk.clock).closed


def test_a_token_from_before_closes_its_store_when_it_is_revoked(desk: Desk) -> None:
    desk.store.put_token(token("a"))  # as earlier versions did it: nothing else was kept
    access = Access(desk.store, desk.clock)
    access.revoke("a")
    assert (access.tokens(), access.closed) == ([], True)


def test_loopback_is_not_allowed_while_there_are_tokens(desk: Desk) -> None:
    access = Access(desk.store, desk.clock)
    ci, _ = access.create("ci")
    with pytest.raises(Conflict, match=rf"there are still tokens \({ci.id}\); revoke them first"):
        access.allow_loopback()
    access.revoke("ci")
    assert access.closed


def test_tokens_do_not_leave_with_the_jobs(desk: Desk) -> None:
    """A dump is made of exported jobs and of queues."""
    job_id = desk.add()
    desk.store.put_token(token("a"))
    assert [dumped.job.id for dumped in every(desk.store.export)] == [job_id]
    assert [queue.name for queue in desk.store.queues()] == ["q"]
