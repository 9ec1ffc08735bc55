from __future__ import annotations

import pytest

from oncue.core.text import (
    QUOTED_LIMIT,
    exception_text,
    is_printable,
    legible,
    quoted,
    why_not_json,
)


def test_a_text_is_made_legible_rather_than_refused() -> None:
    assert legible("boom\n  at line 5") == "boom\n  at line 5"
    assert legible("a\0b\ud800c") == "a\\0b\\ud800c"
    assert legible("\ud83d\ude00 \U0001f600") == "\\ud83d\\ude00 \U0001f600"
    assert len(legible("\ud800" * 5000)) == 2000
    assert legible("abc", 2) == "ab"


def test_what_is_wrong_with_json_is_not_told_twice() -> None:
    assert why_not_json(ValueError("JSON is malformed: invalid character (byte 0)")) == (
        "invalid character (byte 0)"
    )
    assert why_not_json(ValueError("Input data was truncated.")) == "Input data was truncated"


class Unreadable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")


def test_an_exception_is_told_by_its_kind_and_its_message_if_it_has_one() -> None:
    assert exception_text(ValueError("x \ud800")) == "ValueError: x \\ud800"
    assert exception_text(Unreadable()) == "Unreadable"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "küche 🍳",
        "e\u0301",
        "👨\u200d👩\u200d👧",
        "👩🏽\u200d🚀",
        "❤\ufe0f\u200d🔥",
        "🏃\u200d♀\ufe0f\u200d➡\ufe0f",
        "🙂\u200d↔\ufe0f",
        "one 👩\u200d💻 of two",
    ],
)
def test_what_people_see_is_printable(text: str) -> None:
    assert is_printable(text)


@pytest.mark.parametrize(
    "text",
    [
        *("a\nb", "a\0", "\x9b31m", "\ud800", "\u2028"),
        *("\u202egnp.exe", "a\u2066b", "a\u200fb", "a\u200bb", "\ufeffa", "a\u00adb"),
        *(
            "\u200d",
            "a\u200db",
            "👩\u200d",
            "\u200d🚀",
            "👩\u200d\u200d🚀",
            "👩\u200da",
            "a\u200d🚀",
        ),
        "👩\u200d🚀\u202e",
    ],
)
def test_what_nobody_sees_or_what_turns_text_around_is_not_printable(text: str) -> None:
    assert not is_printable(text)


def test_what_an_error_quotes_is_cut() -> None:
    assert quoted("it's") == '"it\'s"'
    assert quoted(5) == "5"
    for text in ("a" * 201, "\0" * 200, "\U000e0001" * 200, ["a" * 300]):
        assert len(quoted(text)) == QUOTED_LIMIT
        assert quoted(text).endswith("…")
