"""Shapes as people read them: a table of fields, and a few words for each type."""

from __future__ import annotations

import json
from typing import Any

from oncue.api.docs.markup import Markup, join, prose, table, tag

_REF = "#/components/schemas/"
_BOUNDS = (
    ("minimum", "≥ "),
    ("exclusiveMinimum", "> "),
    ("maximum", "≤ "),
    ("minLength", "length ≥ "),
    ("maxLength", "length ≤ "),
    ("minItems", "items ≥ "),
    ("maxItems", "items ≤ "),
)
_FORMATS = {"date-time": "moment", "date": "date", "oncue-duration": "duration"}


def fields(schema: dict[str, Any]) -> Markup:
    """The description of a shape and the table of its fields, if it has any."""
    text = tag("p", prose(schema.get("description", "Any JSON.")), class_="quiet")
    required = schema.get("required", [])
    rows = [
        _row(name, one, name in required)
        for name, one in schema.get("properties", {}).items()
        if one is not False
    ]
    head = tag("tr", tag("th", "field"), tag("th", "type"), tag("th", "meaning"))
    return join(text, table(*rows, head=head) if rows else None)


def words(schema: dict[str, Any]) -> Markup:
    """The type of a value, in a few words."""
    if "$ref" in schema:
        name = schema["$ref"].removeprefix(_REF)
        return tag("a", name, href=f"#shape-{name}")
    if "anyOf" in schema:
        parts = [words(one) for one in schema["anyOf"]]
        return Markup(" or ".join(dict.fromkeys(parts)))
    if "enum" in schema:
        return Markup(" · ".join(tag("code", str(value)) for value in schema["enum"]))
    if "const" in schema:
        return tag("code", str(schema["const"]))
    if schema.get("type") == "array":
        return join("list of ", words(schema.get("items", {})))
    return join(_type(schema), _bounds(schema))


def _row(name: str, schema: dict[str, Any], required: bool) -> Markup:
    mark = tag("span", "required", class_="required") if required else None
    return tag(
        "tr",
        tag("th", tag("code", name), mark, scope="row"),
        tag("td", words(schema)),
        tag("td", prose(_meaning(schema)), _default(schema)),
    )


def _meaning(schema: dict[str, Any]) -> str:
    if "description" in schema:
        return str(schema["description"])
    texts = [one.get("description", "") for one in schema.get("anyOf", [])]
    return next((text for text in texts if text), "")


def _default(schema: dict[str, Any]) -> Markup | None:
    value = schema.get("default")
    if value is None:
        return None
    return tag("span", " Default ", tag("code", json.dumps(value)), ".", class_="quiet")


def _type(schema: dict[str, Any]) -> Markup:
    kind = schema.get("type", "any JSON")
    name = " or ".join(kind) if isinstance(kind, list) else kind
    return Markup(_FORMATS.get(schema.get("format", ""), name))


def _bounds(schema: dict[str, Any]) -> Markup | None:
    bounds = [f"{sign}{schema[bound]:,}" for bound, sign in _BOUNDS if bound in schema]
    return tag("span", " ", ", ".join(bounds), class_="quiet") if bounds else None
