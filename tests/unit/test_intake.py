"""Intake: what people may ask for, and how they are told that they may not."""

from __future__ import annotations

import random
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from oncue.core.errors import InvalidInput, TooLarge
from oncue.core.ids import Minted, mint, queue_digest, read
from oncue.core.job import NewJob
from oncue.core.moment import HORIZON_MS, to_datetime
from oncue.core.queue import RetryPolicy
from oncue.usecases import intake

NOW = 1_800_000_000_000


def job(**fields: Any) -> NewJob:
    return intake.new_job(fields, NOW)


def refusal(**fields: Any) -> InvalidInput:
    with pytest.raises(InvalidInput) as caught:
        job(**fields)
    return caught.value


def test_a_job_of_which_nothing_is_said_is_due_now_in_the_default_queue() -> None:
    new = job()
    assert new == NewJob(new.id, "default", NOW, b"null", 0, NOW)
    assert read(new.id) == Minted(NOW, NOW, queue_digest("default"), 0)


def test_every_member_finds_its_place() -> None:
    new = job(
        payload={"to": "ada"},
        queue="mail",
        at="2027-01-15T08:00:01Z",
        expires_at="2027-01-15T09:00:00Z",
        owner="Ada Lovelace",
        priority=9,
        key="welcome/ada",
        if_exists="replace",
        max_attempts=20,
        timeout_seconds="PT1M",
        id="order-7",
    )
    assert new[:6] == ("order-7", "mail", NOW + 1000, b'{"to":"ada"}', 9, NOW)
    assert new[6:11] == ("Ada Lovelace", "welcome/ada", NOW + 3_600_000, 20, 60.0)
    assert new.digest is not None
    assert new.replace


@pytest.mark.parametrize(
    ("delay", "milliseconds"),
    [
        *((0, 0), (60, 60_000), (0.25, 250), (1e-9, 1), (0.0001, 1), (1.0001, 1001)),
        *((timedelta(microseconds=1), 1), ("PT15M", 900_000), ("PT0.0001S", 1)),
        (HORIZON_MS // 1000, HORIZON_MS),
    ],
)
def test_a_delay_counts_from_now_and_is_rounded_up(delay: object, milliseconds: int) -> None:
    assert job(delay=delay).due_at == NOW + milliseconds


def test_what_is_due_in_the_past_is_due_now() -> None:
    assert job(at="1970-01-01T00:00:00Z").due_at == NOW
    assert job(at=datetime(1, 1, 1, tzinfo=UTC)).due_at == NOW
    assert job(expires_at="1970-01-01T00:00:00Z").expires_at == NOW


FIELDS: list[tuple[str, list[Any]]] = [
    ("queue", [5, "", "a b", "x" * 81, "\ud800", [], {}]),
    ("at", [5, 1.8e9, "", "tomorrow", datetime(2027, 1, 1), [], "9999-12-31T23:59:59Z", b""]),
    ("delay", [-1, True, "", "1h", float("nan"), float("inf"), 1e307, 10**400, [], timedelta.max]),
    ("expires_at", [5, "", "tomorrow", datetime(2027, 1, 1), "9999-12-31T23:59:59Z", []]),
    ("owner", ["", 5, "x" * 201, "a\0", "a\n", "\ud800", [], b"a"]),
    ("key", ["", 5, "x" * 201, "a\0", "a\tb", "\udfff", {}, b"a"]),
    ("priority", [True, False, -1, 10, 1.0, "1", []]),
    ("if_exists", ["", "Keep", 1, True, []]),
    ("max_attempts", [0, 21, 50, -1, True, 1.5, "3", []]),
    ("timeout_seconds", [0, -1, True, "soon", float("nan"), 1e16, timedelta.max, []]),
    ("id", ["", 5, "a b", "x" * 81, "batch", "a\0", "é", []]),
]


@pytest.mark.parametrize(
    ("field", "value"),
    [(field, value) for field, values in FIELDS for value in values],
    ids=lambda value: ascii(value)[:30],
)
def test_a_wrong_member_is_refused_by_its_name_in_a_sentence(field: str, value: object) -> None:
    problem = refusal(**{field: value})
    assert problem.pointer == f"/{field}"
    assert problem.detail.endswith(".")
    assert len(problem.detail) < 400


@pytest.mark.parametrize("name", intake.JobFields.__annotations__)
def test_none_says_the_same_as_nothing(name: str) -> None:
    assert job(**{name: None})[1:] == job()[1:]


def test_at_is_another_name_for_due_at() -> None:
    later = "2026-12-01T13:00:00Z"
    assert job(at=later).due_at == job(due_at=later).due_at
    assert job(at=later, id="x").digest == job(due_at=later, id="x").digest
    assert refusal(due_at="soon").pointer == "/due_at"
    assert refusal(at=later, due_at=later).pointer == "/due_at"


def test_at_and_delay_together_are_refused() -> None:
    problem = refusal(at="2027-02-01T00:00:00Z", delay=5)
    assert problem.detail == "give either due_at or delay, not both."
    assert refusal(at="2027-02-01T00:00:00Z", delay=0).pointer == "/delay"


def test_an_unknown_member_is_refused_with_the_list_of_known_ones() -> None:
    problem = refusal(eta=5, payload=1)
    assert problem.pointer == "/eta"
    assert "payload, queue, due_at, delay, expires_at, owner, priority, key" in problem.detail
    with pytest.raises(InvalidInput, match="^/5: there is no such field"):
        intake.new_job({5: 1}, NOW)  # type: ignore[dict-item]


@pytest.mark.parametrize(
    ("payload", "pointer", "words"),
    [
        ({"a": {"b": "x\0y"}}, "/payload/a/b", "NUL"),
        ({"a\0": 1}, "/payload", "NUL"),
        ([1, [float("nan")]], "/payload/1/0", "not a JSON number"),
        ({"a": float("inf")}, "/payload/a", "not a JSON number"),
        ("\ud800", "/payload", "cannot be written as JSON"),
        ({"a": "\udfff"}, "/payload", "cannot be written as JSON"),
        (object(), "/payload", "Use dicts with text keys"),
        (10**5000, "/payload", "cannot be written as JSON"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_payload_that_not_every_store_can_keep_is_refused(
    payload: object, pointer: str, words: str
) -> None:
    problem = refusal(payload=payload)
    assert problem.pointer == pointer
    assert words in problem.detail


def test_the_text_of_nothing_is_not_mistaken_for_nothing() -> None:
    assert job(payload="null and \\u0000").payload == b'"null and \\\\u0000"'
    assert job(payload=[None, "null"]).payload == b'[null,"null"]'


def test_a_payload_may_have_256_kib_and_not_a_byte_more() -> None:
    full = "x" * (256 * 1024 - 2)
    assert len(job(payload=full).payload) == 256 * 1024
    with pytest.raises(TooLarge, match="^/payload: is 262,145 bytes as JSON; at most 262,144"):
        job(payload=full + "x")
    with pytest.raises(TooLarge):
        job(payload=[full])


@pytest.mark.parametrize("inner", [1, None, "\0"])
@pytest.mark.parametrize("depth", [*range(900, 1100, 5), 100_000])
def test_nesting_ends_in_a_refusal_and_never_in_a_crash(depth: int, inner: object) -> None:
    value = inner
    for _ in range(depth):
        value = [value]
    with suppress(InvalidInput):
        job(payload=value)


def test_the_digest_is_the_same_whatever_the_order() -> None:
    fields = {
        "id": "a",
        "queue": "mail",
        "payload": {"x": 1, "y": {"b": [1, 2], "a": None}},
        "delay": 5,
        "owner": "ada",
    }
    shuffled = list(fields.items())
    random.Random(1).shuffle(shuffled)
    turned = {**dict(shuffled), "payload": {"y": {"a": None, "b": [1, 2]}, "x": 1}}
    assert intake.digests(fields) == intake.digests(turned)


def test_the_digest_tells_every_member_apart() -> None:
    asked: list[dict[str, Any]] = [
        {"id": "a"},
        {"id": "a", "payload": 1},
        {"id": "a", "payload": "1"},
    ]
    asked += [{"id": "a", "queue": "q"}, {"id": "a", "delay": 1}, {"id": "a", "priority": 1}]
    asked += [{"id": "a", "owner": "x"}, {"id": "a", "key": "x"}, {"id": "a", "payload": [1, 2]}]
    asked += [{"id": "a", "payload": [2, 1]}, {"id": "a", "payload": {"a": None}}]
    asked += [{"id": "a", "payload": {}}, {"id": "a", "if_exists": "replace"}]
    assert len({intake.digests(fields) for fields in asked}) == len(asked)


def test_it_does_not_matter_whether_a_default_was_said() -> None:
    said = {"id": "a", "payload": None, "queue": "default", "priority": 0, "if_exists": "keep"}
    assert intake.digests(said) == intake.digests({"id": "a"})


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"delay": 60}, {"delay": 60.0}),
        ({"payload": {"a": [1, {"b": 0}]}}, {"payload": {"a": [1.0, {"b": -0.0}]}}),
        ({"payload": 10**22}, {"payload": 1e22}),
    ],
)
def test_the_digest_takes_numbers_by_their_value(one: Any, other: Any) -> None:
    whole, decimal = intake.digests(one), intake.digests(other)
    assert whole.digest == decimal.digest
    assert whole.former_digest is None
    assert decimal.former_digest not in (None, decimal.digest)
    assert intake.digests({"payload": "1.0"}) != intake.digests({"payload": "1"})
    assert intake.digests({"payload": 1.5}) != intake.digests({"payload": 1})


def test_the_digests_that_earlier_versions_stored_are_known() -> None:
    sent = {"id": "a", "delay": 60.0, "payload": {"x": 1.0}}
    assert intake.digests(sent).former_digest == bytes.fromhex("569455499331dc947623617c7e3c4f58")
    assert intake.digests({"id": "a", "delay": 60}).digest == bytes.fromhex(
        "15f8d1e9280e359d38dd70b88b6263e6"
    )


def test_only_an_id_chosen_by_a_client_needs_a_digest() -> None:
    assert job(owner="ada").digest is None
    assert job(id="a").digest == job(id="a").digest != None  # noqa: E711


@pytest.mark.parametrize("fields", [{}, {"owner": "ada"}])
def test_a_minted_id_is_true_of_its_job(fields: dict[str, Any]) -> None:
    new = job(queue="mail", priority=7, delay=60, **fields)
    assert read(new.id) == Minted(NOW, new.due_at, queue_digest("mail"), 7)


EARLIER = NOW - 7_200_000
CHOSEN = mint(EARLIER, EARLIER + 3_600_000, "mail", 7)
TRUE: dict[str, Any] = {"id": CHOSEN, "queue": "mail", "priority": 7, "delay": 3600}


def test_an_id_of_the_minted_form_may_be_chosen_if_it_is_true_however_late_it_is_sent() -> None:
    at = to_datetime(EARLIER + 3_600_000)
    for new in (job(**TRUE), job(**{**TRUE, "delay": None, "at": at})):
        assert (new.id, new.due_at, new.created_at) == (CHOSEN, EARLIER + 3_600_000, NOW)
        assert new.digest is not None


@pytest.mark.parametrize(
    ("other", "named"),
    [
        ({"queue": "letters"}, "queue"),
        ({"priority": 0}, "priority"),
        ({"delay": 3601}, "due time"),
        ({"delay": None}, "due time"),
        ({"delay": None, "at": to_datetime(NOW)}, "due time"),
    ],
)
def test_an_id_of_the_minted_form_that_is_not_true_is_refused(
    other: dict[str, Any], named: str
) -> None:
    problem = refusal(**{**TRUE, **other})
    assert problem.pointer == "/id"
    assert f"this job has another {named}" in problem.detail


def test_an_id_of_the_minted_form_cannot_lie_beyond_a_century() -> None:
    created = NOW + HORIZON_MS + 1
    chosen = mint(created, created, "default", 0)
    assert "100 years" in refusal(id=chosen).detail


def test_what_comes_out_is_what_the_store_has() -> None:
    new = job(payload=1, owner="ada", expires_at="2027-02-01T00:00:00Z", timeout_seconds=5)
    stored = intake.as_stored(new)
    assert (stored.state, stored.attempt, stored.epoch) == ("scheduled", 0, 0)
    assert (stored.id, stored.owner, stored.timeout_seconds) == (new.id, "ada", 5.0)
    assert stored.due_at == stored.created_at == stored.updated_at == to_datetime(NOW)
    assert stored.payload == 1


@pytest.mark.parametrize(
    ("settings", "pointer"),
    [
        ({"colour": "red"}, "/colour"),
        ({"paused": True}, "/paused"),
        ({"name": "other"}, "/name"),
        *(({"sink": sink}, "/sink") for sink in (5, ["log:"], b"log:")),
        *(({"retry": retry}, "/retry") for retry in ("x", 5, None, {"pause": 1}, ["x"])),
        ({"retry": {"factor": 1e300}}, "/retry/factor"),
        ({"retry": {"max_seconds": 1e300}}, "/retry/max_seconds"),
        ({"retry": {"initial_seconds": "1"}}, "/retry/initial_seconds"),
        ({"lease_seconds": 1e12}, "/lease_seconds"),
        ({"timeout_seconds": 1e17}, "/timeout_seconds"),
        ({"retention_seconds": 1e17}, "/retention_seconds"),
        ({"rate_per_second": 0}, "/rate_per_second"),
        ({"concurrency": 0}, "/concurrency"),
        ({"poison_after": True}, "/poison_after"),
    ],
)
def test_a_wrong_setting_of_a_queue_is_refused_by_its_name(
    settings: dict[str, Any], pointer: str
) -> None:
    with pytest.raises(InvalidInput) as caught:
        intake.queue("q", settings)
    assert caught.value.pointer == pointer
    assert caught.value.detail.endswith(".")


def test_a_retry_policy_may_be_a_mapping() -> None:
    policy = RetryPolicy(5, 3, 60)
    told = {"initial_seconds": 5, "factor": 3, "max_seconds": 60}
    assert intake.queue("q", {"retry": told}).retry == policy
    assert intake.queue("q", {"retry": policy}).retry == policy
    assert intake.queue("q", {"retry": {}}).retry == RetryPolicy()


@pytest.mark.parametrize("percent", [-1, 101, float("nan"), True, "50", []])
def test_a_percentage_is_a_number_from_0_to_100(percent: object) -> None:
    assert (intake.check_percent(0), intake.check_percent(100), intake.check_percent(None)) == (
        *(0, 100),
        None,
    )
    with pytest.raises(InvalidInput, match="^/percent: must be a number from 0 to 100"):
        intake.check_percent(percent)


@pytest.mark.parametrize("message", [5, b"x", "x" * 2001, "a\0b", "\ud800"])
def test_a_message_is_text_that_every_store_can_keep(message: object) -> None:
    assert intake.check_message("x" * 2000) == "x" * 2000
    with pytest.raises(InvalidInput, match="^/message: "):
        intake.check_message(message)
