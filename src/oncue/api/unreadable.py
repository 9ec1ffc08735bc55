"""Why a body cannot be read, and where in it.

The decoder's message is about bytes or types. To name the place, the body, which is refused anyway,
is read a second time.
"""

from __future__ import annotations

import json
import math
import re

import msgspec

from oncue.api.problems import DETAIL_LIMIT, HttpProblem, invalid
from oncue.core.payload import unkeepable
from oncue.core.text import cut, escaped, why_not_json

TOO_DEEP = "The JSON is nested too deeply."
LONGEST_NUMBER = 4300  # digits of a whole number, with its sign
UNREADABLE = (msgspec.DecodeError, UnicodeError, RecursionError)
"""Raised by a decoder if a body is not JSON, or not of the wanted shape."""

read_json = msgspec.json.Decoder().decode
_PLACE = re.compile(r"^(?P<text>.*?)(?: - at `(?P<key>key )?(?P<place>[^`]*)`)?$", re.DOTALL)
_UNKNOWN = re.compile(r"^Object contains unknown field `(.*)`$", re.DOTALL)
_MISSING = re.compile(r"^Object missing required field `(.*)`$", re.DOTALL)
_ENUM = re.compile(r"^Invalid enum value (.*)$", re.DOTALL)
_GOT = re.compile(r"^Expected `(.*)`, got `(.*)`$", re.DOTALL)
_BOUND = re.compile(
    r"^Expected `(?P<kind>\w+)`(?P<length> of length)? (?P<sign>[<>]=?) (?P<bound>\S+)$"
)
_KINDS = {
    "int": "a whole number",
    "float": "a number",
    "str": "a text",
    "bool": "true or false",
    "array": "a list",
    "object": "an object",
}
_SIGNS = {">=": "at least", "<=": "at most", ">": "more than", "<": "less than"}
_UNITS = {"array": "item", "object": "field", "str": "character"}


def unreadable(text: bytes, problem: Exception) -> HttpProblem:
    """Why a body cannot be read; `problem` was raised by the decoder."""
    if isinstance(problem, msgspec.ValidationError):
        # The shape is read as far as it is right: whether the rest is JSON at all comes first.
        try:
            read_json(text or b"{}")
        except UNREADABLE as malformed:
            problem = malformed
        else:
            return _misshapen(problem)
    if isinstance(problem, RecursionError):
        return HttpProblem("malformed", TOO_DEEP)
    try:
        found = unkeepable(json.loads(text, parse_constant=_refuse, parse_int=_number), "")
    except RecursionError:
        return HttpProblem("malformed", TOO_DEEP)
    except ValueError:
        found = None
    reason = why_not_json(problem)
    if found is not None:
        return invalid(found.detail, found.pointer)
    return HttpProblem("malformed", f"The body is not JSON in UTF-8: {reason}.")


def _misshapen(problem: msgspec.ValidationError) -> HttpProblem:
    said = str(problem)
    if len(said) > 2 * DETAIL_LIMIT:  # a name that the caller has chosen; the place is at the end
        said = f"{said[:DETAIL_LIMIT]}…{said[-DETAIL_LIMIT:]}"
    match = _PLACE.match(said)
    assert match is not None  # it matches anything
    text, pointer = match["text"], _pointer(match["place"] or "")
    if unknown := _UNKNOWN.match(text):
        return invalid("there is no such field here.", f"{pointer}/{escaped(unknown[1])}")
    if missing := _MISSING.match(text):
        return invalid("this field is required.", f"{pointer}/{missing[1]}")
    if got := _GOT.match(text):
        wanted = " or ".join(map(_kind, got[1].split(" | ")))
        return invalid(f"must be {wanted}, not {_kind(got[2])}.", pointer)
    if bound := _BOUND.match(text):
        return invalid(_bounded(bound), pointer)
    if enum := _ENUM.match(text):
        return invalid(f"{cut(enum[1])} is not a value of this field; /docs lists them.", pointer)
    text = text.replace("Expected ", "must be ").replace("`", "")
    return invalid(f"{text[:1].lower()}{text[1:]}.", pointer)


def _kind(word: str) -> str:
    """The decoder's word for a type, as people say it."""
    return _KINDS.get(word, word)


def _bounded(match: re.Match[str]) -> str:
    bound = float(match["bound"])
    limit = f"{_SIGNS[match['sign']]} {int(bound) if bound.is_integer() else bound:,}"
    if match["length"]:
        unit = _UNITS[match["kind"]]
        return f"must have {limit} {unit if bound == 1 else unit + 's'}."
    return f"must be {_kind(match['kind'])}, {limit}."


def _pointer(place: str) -> str:
    """A JSON pointer for msgspec's `$.items[0].id`."""
    return re.sub(r"\[(\d+)\]", r"/\1", place.removeprefix("$")).replace(".", "/")


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is not JSON")


def _number(digits: str) -> float:
    """Numbers of any length are JSON; the decoder refuses those that Python does not read."""
    return int(digits) if len(digits) <= LONGEST_NUMBER else math.inf
