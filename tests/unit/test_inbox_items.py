"""What foreign items mean as jobs, and what is wrong with those that cannot be one."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import pytest

from oncue.core.moment import parse
from oncue.stores.dynamodb.foreign import Foreign, read
from oncue.stores.dynamodb.wire import from_wire

ID = "564ade05-efda-4a2e-a7db-933ad3c89a83"
SAMPLE: dict[str, Any] = {
    "pk": {"S": "j#2015-03-20T09:45"},
    "sk": {"S": f"2015-03-20T09:46:47.123Z#{ID}"},
    "detail": {
        "M": {
            "action": {"S": "send-reminder"},
            "userId": {"S": "16f3a019-e3a5-47ed-8c46-f668347503d1"},
            "taskId": {"S": "6d2f710d-99d8-49d8-9f52-92a56d0c6b81"},
            "params": {"M": {"foo": {"S": "bar"}}},
        }
    },
}


def item(**attributes: Any) -> Foreign:
    """The sample with other attributes; None: without it."""
    changed = {**SAMPLE, **attributes}
    return read(from_wire({name: one for name, one in changed.items() if one is not None}))


def test_the_sample_of_the_seed_is_a_job_of_the_default_queue() -> None:
    found = item()
    assert (found.id, found.queue, found.problem) == (ID, "default", None)
    assert found.due_at == parse("2015-03-20T09:46:47.123Z")
    assert json.loads(found.payload) == {
        "action": "send-reminder",
        "userId": "16f3a019-e3a5-47ed-8c46-f668347503d1",
        "taskId": "6d2f710d-99d8-49d8-9f52-92a56d0c6b81",
        "params": {"foo": "bar"},
    }


def test_an_item_may_name_its_queue_and_have_other_attributes() -> None:
    assert item(queue={"S": "mail"}, ttl={"N": "1"}, x={"BOOL": True}).queue == "mail"


@pytest.mark.parametrize(
    ("attribute", "payload"),
    [
        ({"S": "text \N{COOKING}"}, '"text \N{COOKING}"'),
        ({"S": ""}, '""'),
        ({"N": "5"}, "5"),
        ({"N": "0.1"}, "0.1"),
        ({"N": "12345678901234567890.12345678901234567"}, "12345678901234567890.12345678901234567"),
        ({"N": "-1E-130"}, "-1E-130"),
        ({"B": b"\x00\xff"}, '"AP8="'),
        ({"BOOL": False}, "false"),
        ({"NULL": True}, "null"),
        ({"SS": ["b", "a"]}, '["a","b"]'),
        ({"NS": ["10", "9", "0.5"]}, "[0.5,9,10]"),
        ({"BS": [b"\x01", b"\x00"]}, '["AA==","AQ=="]'),
        ({"L": [{"N": "1"}, {"L": []}, {"M": {}}]}, "[1,[],{}]"),
        ({"M": {"b": {"N": "2"}, "a": {"SS": ["x"]}}}, '{"a":["x"],"b":2}'),
    ],
)
def test_every_kind_of_attribute_has_a_form_in_json(attribute: Any, payload: str) -> None:
    found = item(detail=attribute)
    assert found.problem is None
    assert found.payload.decode() == payload
    assert found.payload == item(detail=attribute).payload
    json.loads(found.payload, parse_float=Decimal)


@pytest.mark.parametrize(
    ("attributes", "problem"),
    [
        ({"detail": None}, "detail: is missing"),
        ({"sk": {"S": "2015-03-20T09:46:47.123Z"}}, "due time, '#' and an id"),
        ({"sk": {"S": "soon#a"}}, "'soon' is not an RFC 3339 time"),
        ({"sk": {"S": "2015-13-20T09:46:47.123Z#a"}}, "is not a moment"),
        ({"sk": {"S": "2015-03-20T09:46:47.123#a"}}, "with an offset"),
        ({"sk": {"S": "1969-12-31T23:59:59.999Z#a"}}, "before 1970"),
        ({"sk": {"S": "2015-03-20T09:46:47.123Z#"}}, "an id is"),
        ({"sk": {"S": "2015-03-20T09:46:47.123Z#a#b"}}, "an id is"),
        ({"sk": {"S": "2015-03-20T09:46:47.123Z#batch"}}, "a word of the API"),
        ({"queue": {"S": "not a name"}}, "a queue name is"),
        ({"queue": {"N": "1"}}, "a queue name is"),
        ({"queue": {"NULL": True}}, "a queue name is"),
        ({"detail": {"S": "x" * 300_000}}, "300,002 bytes"),
        ({"detail": {"M": {"a\0": {"N": "1"}}}}, "NUL"),
        ({"detail": {"L": [{"S": "\0"}]}}, "NUL"),
    ],
)
def test_what_cannot_be_a_job_says_why_and_keeps_what_it_can(
    attributes: dict[str, Any], problem: str
) -> None:
    found = item(**attributes)
    assert found.problem is not None
    assert problem in found.problem
    json.loads(found.payload)
    assert found.due_at >= 0
    assert found.digest == item(**attributes).digest
    assert len(found.other_id) <= 80


def test_items_that_ask_for_the_same_are_the_same_job() -> None:
    digests = {
        item().digest,
        item(detail={"S": "other"}).digest,
        item(queue={"S": "mail"}).digest,
        item(sk={"S": f"2015-03-20T09:46:47.124Z#{ID}"}).digest,
    }
    assert len(digests) == 4
    shuffled = dict(reversed(SAMPLE["detail"]["M"].items()))
    assert item(detail={"M": shuffled}).digest == item().digest
