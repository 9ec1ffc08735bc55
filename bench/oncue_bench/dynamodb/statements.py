"""Batches of PartiQL statements that write. Each statement is a write of its own, with a condition
of its own and an answer of its own; an error of one says nothing about the others."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from typing import Any

from oncue_bench.dynamodb.wrapped import Call, changed

METHOD = "batch_execute_statement"
PAID_REFUSALS = frozenset({"ConditionalCheckFailed", "DuplicateItem"})
CONFLICT = "TransactionConflict"
THROTTLES = ("ThrottlingError", "ProvisionedThroughputExceeded", "RequestLimitExceeded")
BROKEN = "InternalServerError"
_VERBS = {"INSERT": "put", "UPDATE": "update", "DELETE": "delete"}
_HEAD = re.compile(r'(INSERT INTO|UPDATE|DELETE FROM)\s+"([^"]+)"')
_NAMED = re.compile(r"""["'](\w+)["']\s*[=:]\s*\?""")


def read(statement: Mapping[str, Any]) -> tuple[str, str, Mapping[str, Any]]:
    """Verb, table, and the item that an INSERT brings, or what the WHERE of others names."""
    text, values = statement["Statement"], statement["Parameters"]
    head = _HEAD.match(text)
    if head is None:
        raise NotImplementedError(f"nobody has written down what this costs: {text}")
    names = _NAMED.findall(text)
    if len(names) != len(values):
        raise NotImplementedError(f"not every parameter of this has a name: {text}")
    verb = _VERBS[head[1].split()[0]]
    before_where = 0 if verb == "put" else len(_NAMED.findall(text.partition(" WHERE ")[0]))
    pairs = list(zip(names, values, strict=True))[before_where:]
    # A condition may name a key once more; the key itself comes first.
    return verb, head[2], dict(reversed(pairs))


def places(call: Call) -> range:
    return range(len(call.kwargs["Statements"]))


def chosen(call: Call, wanted: Collection[int]) -> Call:
    """The batch with only those of its statements."""
    some = [one for at, one in enumerate(call.kwargs["Statements"]) if at in wanted]
    return changed(call, Statements=some)


def in_part(
    call: Call, codes: Mapping[int, str], send: Callable[[Call], Mapping[str, Any]]
) -> dict[str, Any]:
    """The answer to a batch of which these statements, by position, end with an error of that code
    and the others are sent."""
    taken = [at for at in places(call) if at not in codes]
    answer = send(chosen(call, taken)) if taken else {"Responses": []}
    told = dict(zip(taken, answer["Responses"], strict=True))
    told |= {at: {"Error": {"Code": code, "Message": "injected"}} for at, code in codes.items()}
    return {**answer, "Responses": [told[at] for at in places(call)]}


def unpaid(answer: Mapping[str, Any]) -> set[int]:
    """The statements that cost nothing: those that met an error which is no failed condition."""
    return {
        at
        for at, one in enumerate(answer["Responses"])
        if "Error" in one and one["Error"]["Code"] not in PAID_REFUSALS
    }


def failed(answer: Mapping[str, Any]) -> set[int]:
    return {at for at, one in enumerate(answer["Responses"]) if "Error" in one}
