"""Text is text, whatever is in it."""

from __future__ import annotations

import pytest

from oncue.core.job import Operation
from oncue.core.lifecycle import State
from oncue.core.moment import LATEST, from_datetime
from oncue.core.queue import Queue

from .desk import DELIVERY, Desk, claim_due
from .promises import By

TEXTS = [
    "'; DROP TABLE jobs; --",
    "\"quoted\" and 'quoted' and `quoted`",
    "100% _like_ [glob]* ?",
    ":name ?1 $2 @x {} {columns} %s",
    "Grüße, 你好, مرحبا, 👩‍🚀, e\u0301",
    "line\nbreak\ttab\r\n\\backslash\\",
    "</script><b>&amp;",
    " spaces around ",
    "\u2028\ufeff\x7f\x01",
    "null",
    "",
]


@pytest.mark.parametrize("text", TEXTS)
def test_any_text_survives_in_every_field(desk: Desk, text: str) -> None:
    data = text.encode()
    desk.add("job", owner=text, key=text, payload=data, digest=data)
    (claimed,) = claim_due(desk.store, [Queue("q")], text, 1, desk.now)
    assert (claimed.owner, claimed.key, claimed.payload) == (text, text, data)
    desk.touch(claimed, message=text)
    desk.put_operation(claimed, text, "executing", message=text, result=data)
    desk.retry(claimed, text, code=text or "code", detail=text)
    job = desk.job("job")
    assert (job.owner, job.key, job.payload_json, job.message) == (text, text, data, text)
    history = desk.store.history("job")
    assert [attempt.worker for attempt in history.attempts] == [text]
    assert [diagnostic.detail for diagnostic in history.diagnostics] == [text]
    operation = history.operations[0]
    assert isinstance(operation, Operation)
    assert (operation.name, operation.message, operation.result) == (text, text, data)
    assert desk.listed(owner=text) == desk.listed(key=text) == ["job"]
    assert desk.retry(claimed, text) is None
    assert desk.retry(claimed, text + "!") is not None
    again = desk.retake("job")
    assert [operation.name for operation in again.operations] == [text]
    assert desk.complete(again, data) is None
    assert desk.job("job").result_json == data


@pytest.mark.one_shard
@pytest.mark.parametrize("text", [text for text in TEXTS if text])
def test_any_text_survives_as_an_id_and_in_a_range(desk: Desk, text: str) -> None:
    other = text + "2"
    desk.add(text, queue="d")
    desk.add(other, queue="d")
    claim = desk.store.claim_range(DELIVERY, text, 10, desk.now, lease_seconds=60)
    assert {job.id for job in claim.jobs} == {text, other}
    assert desk.settle_range(claim, [text], {other: text})
    assert desk.state(text) is State.SUCCEEDED
    assert desk.attempts(text)[0].worker == text
    assert desk.job(other).error == text
    assert set(desk.listed(1)) == {text, other}


def test_texts_that_differ_a_little_are_different(desk: Desk) -> None:
    pairs = [("é", "e\u0301"), ("a", "A"), ("a", "a "), ("ß", "ss"), ("1", "01"), ("1", "1.0")]
    gone = Queue("pairs", retention_seconds=0)
    desk.set(gone)
    for one, other in pairs:
        desk.add(key=one, owner=one, queue="pairs")
        desk.add(key=other, owner=other, queue="pairs")
        assert len(desk.listed(owner=one)) == len(desk.listed(key=other)) == 1
        for claimed in desk.claim(gone):
            desk.complete(claimed)


def test_ids_are_ordered_by_their_characters(desk: Desk) -> None:
    names = ["a", "B", "ä", "b", "_", "10", "9", "Z", "z", "é", "\uffff", "\U0001f600"]
    for name in names:
        desk.add(name)
    assert desk.listed(3) == sorted(names)
    assert desk.claimed_ids() == sorted(names)


@pytest.mark.parametrize("payload", [b"", b"\x00", b"\xff\xfe", bytes(range(256)), b"x" * 262_144])
def test_payloads_and_results_are_bytes(desk: Desk, payload: bytes) -> None:
    claimed = desk.take(payload=payload)
    assert claimed.payload == payload
    stored = desk.put_operation(claimed, "step", result=payload)
    assert isinstance(stored, Operation)
    assert stored.result == payload
    assert desk.complete(claimed, payload) is None
    assert desk.complete(claimed, payload) is None
    job = desk.job(claimed.id)
    assert (job.payload_json, job.result_json) == (payload, payload)


def test_moments_reach_the_end_of_the_calendar(desk: Desk) -> None:
    desk.store.insert([desk.new("last")._replace(due_at=LATEST, expires_at=LATEST)], desk.now)
    assert from_datetime(desk.job("last").due_at) == LATEST
    assert desk.store.next_due(["q"]) == By(LATEST)
    assert desk.listed() == ["last"]
