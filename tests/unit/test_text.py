from __future__ import annotations

from oncue.core.text import exception_text, legible, why_not_json


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
