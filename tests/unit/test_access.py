"""Access tokens: what they look like, whom they let in, and for how long after they are revoked."""

from __future__ import annotations

import hashlib
import re
import secrets

import pytest

from oncue.clock import FakeClock
from oncue.core.access import (
    NOBODY,
    AccessToken,
    Scope,
    allows,
    check_scopes,
    check_token_name,
    digest_of,
    id_of,
    matches,
    mint,
)
from oncue.core.errors import (
    Conflict,
    InvalidInput,
    NotFound,
    StoreUnavailable,
    StoreUnusable,
)
from oncue.stores.memory import MemoryStore
from oncue.usecases.tokens import MOST_UNKNOWN, Access

ALL = frozenset(Scope)
READ = frozenset({Scope.READ})


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def store(clock: FakeClock) -> MemoryStore:
    return MemoryStore(clock)


@pytest.fixture
def access(store: MemoryStore, clock: FakeClock) -> Access:
    return Access(store, clock)


@pytest.fixture
def elsewhere(store: MemoryStore, clock: FakeClock) -> Access:
    """What another node holds."""
    return Access(store, clock)


# -- the token itself --------------------------------------------------------------------------


def test_a_text_names_its_id_and_carries_256_random_bits() -> None:
    token, text = mint("ci", READ, 5)
    assert re.fullmatch(r"oncue_[0-9a-f]{16}_[A-Za-z0-9_-]{43}", text)
    assert text.startswith(f"oncue_{token.id}_")
    assert id_of(text) == token.id
    assert (token.name, token.scopes, token.created_at) == ("ci", READ, 5)


def test_what_is_kept_is_the_hash_of_the_whole_text() -> None:
    token, text = mint(None, READ, 0)
    assert token.digest == hashlib.sha256(text.encode()).digest()


def test_no_two_tokens_are_alike() -> None:
    minted = [mint(None, READ, 0) for _ in range(100)]
    assert len({token.id for token, _ in minted}) == 100
    assert len({text[-43:] for _, text in minted}) == 100


def test_a_token_shows_nothing_of_its_text_nor_of_its_hash() -> None:
    token, text = mint("ci", ALL, 0)
    for shown in (repr(token), str(token), f"{[token]}"):
        assert text[-43:] not in shown
        assert repr(token.digest) not in shown
        assert token.id in shown


def test_every_changed_character_is_noticed() -> None:
    token, text = mint(None, READ, 0)
    assert matches(token, text)
    for place in range(len(text)):
        other = "0" if text[place] != "0" else "1"
        assert not matches(token, text[:place] + other + text[place + 1 :])
    assert not matches(token, text + "0")
    assert not matches(token, text[:-1])


@pytest.mark.parametrize(
    "text",
    [
        *("", "oncue", "oncue__", "oncue_0123456789abcdef_", "Bearer x", "\0", "\udcff", "é" * 66),
        "oncue_0123456789abcdef_" + "x" * 42,
        "oncue_0123456789abcdef_" + "x" * 44,
        "oncue_0123456789abcdef_" + "x" * 43 + "\n",
        "oncue_0123456789ABCDEF_" + "x" * 43,
        "oncue_٠123456789abcdef_" + "x" * 43,
        "oncue_0123456789abcdef_" + "é" * 43,
        " oncue_0123456789abcdef_" + "x" * 43,
        "oncue_" + "0" * 100_000,
    ],
)
def test_what_is_no_token_is_unknown_and_never_an_error(access: Access, text: str) -> None:
    access.create()
    assert id_of(text) is None
    assert access.scopes_of(text) is None
    assert not matches(NOBODY, text)


def test_the_hash_of_any_text_can_be_taken() -> None:
    assert len(digest_of("\udcff")) == 32


def test_admin_includes_every_scope_and_the_others_themselves_alone() -> None:
    for held in Scope:
        allowed = {wanted for wanted in Scope if allows({held}, wanted)}
        assert allowed == (set(Scope) if held is Scope.ADMIN else {held})
    assert not allows(frozenset(), Scope.READ)


# -- what people give --------------------------------------------------------------------------


def test_scopes_are_taken_by_name() -> None:
    assert check_scopes(["read", "work", "read"]) == {Scope.READ, Scope.WORK}


@pytest.mark.parametrize("values", [["root"], ["read", "Read"], ["read", ""], ["read,write"], []])
def test_a_bad_scope_is_refused_and_the_good_ones_are_named(values: list[str]) -> None:
    with pytest.raises(InvalidInput, match="read, write, work, admin") as caught:
        check_scopes(values)
    assert caught.value.pointer == "/scopes"


@pytest.mark.parametrize("name", ["", " ", "a ", " a", "a\nb", "a\0", "\udcff", "x" * 81, 5])
def test_a_bad_name_is_refused(name: object) -> None:
    with pytest.raises(InvalidInput, match="1 to 80 printable characters") as caught:
        check_token_name(name)
    assert caught.value.pointer == "/name"


def test_a_name_may_be_what_people_call_things() -> None:
    for name in ("ci", "Ada's laptop", "küche 🍳", "x" * 80):
        assert check_token_name(name) == name


def test_the_text_of_a_token_is_no_name_and_is_not_repeated() -> None:
    _, text = mint(None, READ, 0)
    with pytest.raises(InvalidInput, match="is a secret") as caught:
        check_token_name(text)
    assert text not in str(caught.value)


# -- creating and revoking ---------------------------------------------------------------------


def test_a_created_token_lets_its_bearer_in_at_once(access: Access, clock: FakeClock) -> None:
    assert access.scopes_of("anything") is None
    token, text = access.create("ci", ["read", "write"])
    assert access.scopes_of(text) == frozenset({Scope.READ, Scope.WRITE})
    assert access.tokens() == [token]
    assert token.created_at == clock.now()


def test_a_token_without_scopes_given_allows_all(access: Access) -> None:
    token, _ = access.create()
    assert token.scopes == ALL
    assert token.name is None


def test_the_store_never_gets_the_text(access: Access, store: MemoryStore) -> None:
    _, text = access.create("ci")
    (_, kept) = store.tokens()
    fields = [getattr(kept, field) for field in AccessToken.__slots__]
    assert not any(text[-43:] in str(field) for field in fields)


def test_what_cannot_be_created_leaves_nothing_behind(access: Access) -> None:
    for name, scopes in (("", ["read"]), ("ci", ["root"]), ("ci", [])):
        with pytest.raises(InvalidInput):
            access.create(name, scopes)
    assert access.tokens() == []


def test_an_id_drawn_twice_is_refused_and_the_first_token_stays(
    access: Access, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(secrets, "token_hex", lambda _: "0" * 16)
    first, text = access.create("first")
    with pytest.raises(Conflict, match="create it again"):
        access.create("second")
    assert access.tokens() == [first]
    assert access.scopes_of(text) == ALL


def test_a_token_is_revoked_by_id_or_by_name(access: Access) -> None:
    by_id, first = access.create("a")
    by_name, second = access.create("b")
    assert access.revoke(by_id.id) == by_id
    assert access.scopes_of(first) is None
    assert access.scopes_of(second) == ALL
    assert access.revoke("b") == by_name
    assert access.scopes_of(second) is None
    assert access.tokens() == []


def test_an_id_goes_before_a_name(access: Access) -> None:
    one, _ = access.create("one")
    misleading, _ = access.create(one.id)
    assert access.revoke(one.id) == one
    assert access.revoke(one.id) == misleading


def test_a_name_that_several_tokens_share_is_refused_with_their_ids(access: Access) -> None:
    one, _ = access.create("ci")
    other, _ = access.create("ci")
    with pytest.raises(Conflict, match="revoke one by its id") as caught:
        access.revoke("ci")
    assert one.id in str(caught.value)
    assert other.id in str(caught.value)
    assert len(access.tokens()) == 2


def test_what_was_never_there_cannot_be_revoked_and_is_not_repeated(access: Access) -> None:
    access.create()
    _, foreign = mint(None, READ, 0)
    for name in ("nobody", "", foreign):
        with pytest.raises(NotFound, match="there is no token with this id or name") as caught:
            access.revoke(name)
        assert foreign not in str(caught.value)


# -- the check ---------------------------------------------------------------------------------


def test_a_known_id_with_another_secret_is_unknown(access: Access) -> None:
    token, text = access.create()
    _, other = access.create()
    assert access.scopes_of(f"oncue_{token.id}_{other[-43:]}") is None
    assert access.scopes_of(text) == ALL


def test_an_unknown_id_is_compared_like_a_known_one(
    access: Access, monkeypatch: pytest.MonkeyPatch
) -> None:
    token, _ = access.create()
    compared: list[AccessToken] = []

    def noted(kept: AccessToken, text: str) -> bool:
        compared.append(kept)
        return matches(kept, text)

    monkeypatch.setattr("oncue.core.access.matches", noted)
    assert access.scopes_of(f"oncue_{token.id}_{'x' * 43}") is None
    assert access.scopes_of(f"oncue_{'0' * 16}_{'x' * 43}") is None
    assert compared == [token, NOBODY]


def test_whether_any_token_exists_is_known(access: Access) -> None:
    answers = [access.configured]
    access.create("ci")
    answers.append(access.configured)
    access.revoke("ci")
    answers.append(access.configured)
    assert answers == [False, True, False]


def test_a_token_revoked_elsewhere_is_refused_within_a_second(
    access: Access, elsewhere: Access, clock: FakeClock
) -> None:
    token, text = access.create()
    assert access.scopes_of(text) == ALL
    elsewhere.revoke(token.id)
    clock.advance(0.999)
    assert access.scopes_of(text) == ALL  # still what was read before
    clock.advance(0.001)
    assert access.scopes_of(text) is None
    assert not access.configured


def test_a_token_created_elsewhere_is_accepted_as_soon_as_it_comes(
    access: Access, elsewhere: Access, clock: FakeClock
) -> None:
    assert not access.configured
    _, text = elsewhere.create()
    clock.advance(0.01)
    assert access.scopes_of(text) == ALL
    assert access.configured


class Counted(MemoryStore):
    """Counts how often its tokens are read, and raises what it is told to."""

    def __init__(self, clock: FakeClock) -> None:
        super().__init__(clock)
        self.reads = 0
        self.trouble: Exception | None = None

    def tokens(self) -> list[AccessToken]:
        self.reads += 1
        if self.trouble is not None:
            raise self.trouble
        return super().tokens()


def stranger(number: int = 0) -> str:
    return f"oncue_{number:016x}_{'x' * 43}"


def test_a_stranger_is_looked_for_once_in_a_second(clock: FakeClock) -> None:
    store = Counted(clock)
    access = Access(store, clock)
    for _ in range(10):
        assert access.scopes_of(stranger()) is None
    assert store.reads == 1
    clock.advance(1)
    assert access.scopes_of(stranger()) is None
    assert store.reads == 2


def test_many_strangers_do_not_keep_the_store_busy(clock: FakeClock) -> None:
    store = Counted(clock)
    access = Access(store, clock)
    _, text = access.create()
    for number in range(MOST_UNKNOWN + 100):
        assert access.scopes_of(stranger(number)) is None
    assert store.reads <= MOST_UNKNOWN + 1
    assert access.scopes_of(text) == ALL


def test_while_the_store_is_away_known_tokens_hold_for_half_a_minute(clock: FakeClock) -> None:
    store = Counted(clock)
    access = Access(store, clock)
    _, text = access.create()
    assert access.scopes_of(text) == ALL
    store.trouble = StoreUnavailable("away")
    clock.advance(29.999)
    assert access.scopes_of(text) == ALL
    with pytest.raises(StoreUnavailable):
        access.scopes_of(stranger())  # it may be known by now
    clock.advance(0.001)
    with pytest.raises(StoreUnavailable):
        access.scopes_of(text)


def test_of_a_store_in_lasting_trouble_nothing_is_known(clock: FakeClock) -> None:
    store = Counted(clock)
    access = Access(store, clock)
    _, text = access.create()
    assert access.scopes_of(text) == ALL
    store.trouble = StoreUnusable("replaced")
    clock.advance(1)
    for _ in range(2):
        with pytest.raises(StoreUnusable):
            access.scopes_of(text)


def test_a_wall_clock_that_jumps_back_keeps_no_token_alive(
    access: Access, elsewhere: Access, clock: FakeClock
) -> None:
    token, text = access.create()
    assert access.scopes_of(text) == ALL
    elsewhere.revoke(token.id)
    clock.set(0)
    clock.advance(1)
    assert access.scopes_of(text) is None
