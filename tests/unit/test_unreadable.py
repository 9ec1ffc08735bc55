"""What is said of a body that is not of the wanted shape."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
import pytest
from msgspec import Meta

from oncue.api.unreadable import unreadable


@pytest.mark.parametrize(
    ("kind", "body", "said"),
    [
        (Annotated[int, Meta(ge=1)], b"0", "must be a whole number, at least 1."),
        (Annotated[int, Meta(le=5000)], b"5001", "must be a whole number, at most 5,000."),
        (Annotated[float, Meta(le=100)], b"500", "must be a number, at most 100."),
        (Annotated[float, Meta(gt=0)], b"0", "must be a number, more than 0."),
        (Annotated[float, Meta(ge=0.001)], b"0", "must be a number, at least 0.001."),
        (Annotated[list[int], Meta(min_length=1)], b"[]", "must have at least 1 item."),
        (Annotated[list[int], Meta(max_length=2)], b"[1,2,3]", "must have at most 2 items."),
        (Annotated[str, Meta(max_length=3)], b'"abcd"', "must have at most 3 characters."),
        (float | str | None, b"[]", "must be a number or a text or null, not a list."),
        (list[int], b"5", "must be a list, not a whole number."),
        (dict[str, int], b"[]", "must be an object, not a list."),
        (bool, b'"yes"', "must be true or false, not a text."),
    ],
)
def test_kinds_and_bounds_are_told_in_words(kind: Any, body: bytes, said: str) -> None:
    with pytest.raises(msgspec.ValidationError) as refused:
        msgspec.json.decode(body, type=kind)
    assert unreadable(body, refused.value).fields.detail == said
