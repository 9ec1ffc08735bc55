"""Batches of reads and writes, in parts."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from oncue_bench.dynamodb.wrapped import Call, changed

LEFT = {"batch_write_item": "UnprocessedItems", "batch_get_item": "UnprocessedKeys"}

Place = tuple[str, int]
"""Which table, and which of its entries in the batch."""


def places(call: Call) -> list[Place]:
    return [
        (table, number)
        for table, asked in call.kwargs["RequestItems"].items()
        for number in range(len(entries(asked)))
    ]


def entries(asked: Any) -> list[Any]:
    """The requests, or the keys, that a batch has for a table."""
    return list(asked["Keys"] if isinstance(asked, Mapping) else asked)


def chosen(call: Call, wanted: Collection[Place]) -> Call:
    """The batch with only those of its entries."""
    parts = {}
    for table, asked in call.kwargs["RequestItems"].items():
        some = [one for number, one in enumerate(entries(asked)) if (table, number) in wanted]
        if some:
            parts[table] = _like(asked, some)
    return changed(call, RequestItems=parts)


def handed_back(answer: Mapping[str, Any], refused: Call) -> dict[str, Any]:
    """The answer to a batch of which that part was not processed, either."""
    left = dict(answer.get(LEFT[refused.method], {}))
    for table, asked in refused.kwargs["RequestItems"].items():
        already = entries(left[table]) if table in left else []
        left[table] = _like(asked, already + entries(asked))
    return {**answer, LEFT[refused.method]: left}


def _like(asked: Any, some: list[Any]) -> Any:
    return {**asked, "Keys": some} if isinstance(asked, Mapping) else some
