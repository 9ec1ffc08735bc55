"""The page for people, made by `page.html` from the same description that programs get."""

from __future__ import annotations

import json
import re
import shlex
from importlib.resources import files
from typing import Any
from urllib.parse import quote, urlencode

from jinja2 import Environment
from markupsafe import Markup, escape

ORIGIN = "http://127.0.0.1:8420"
"""Stands in commands until the script puts the page's own in its place."""

_CODE = re.compile(r"`([^`]+)`")
_BOUNDS = {
    "minimum": "≥ ",
    "exclusiveMinimum": "> ",
    "maximum": "≤ ",
    "minLength": "length ≥ ",
    "maxLength": "length ≤ ",
    "minItems": "items ≥ ",
    "maxItems": "items ≤ ",
}
_FORMATS = {"date-time": "moment", "date": "date", "oncue-duration": "duration"}


def page(document: dict[str, Any]) -> str:
    """The whole page."""

    def routes(group: str) -> list[tuple[str, str, dict[str, Any]]]:
        return [
            (method, path, described)
            for path, methods in document["paths"].items()
            for method, described in methods.items()
            if group in described["tags"]
        ]

    environment = Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True)
    environment.filters |= {
        "examples": _examples,
        "json": json.dumps,
        "meaning": _meaning,
        "name": _name,
        "prose": _prose,
        "status": _status,
        "words": _words,
    }
    template = environment.from_string(files("oncue.api.docs").joinpath("page.html").read_text())
    problems = document["x-oncue-problems"]
    return template.render(**document, routes=routes, problems=problems, curl=curl)


def curl(method: str, path: str, described: dict[str, Any]) -> str:
    """The request of the examples, as a line for a shell."""
    parameters = described.get("parameters", [])
    for one in parameters:
        path = path.replace(f"{{{one['name']}}}", quote(str(one["example"]), safe=""))
    first = [(one["name"], one["example"]) for one in parameters if one["in"] == "query"][:2]
    words = ["curl"] + ([] if method == "get" else ["-X", method.upper()])
    words.append(shlex.quote(f"{ORIGIN}{path}{'?' + urlencode(first) if first else ''}"))
    if described["x-oncue-scope"] not in (None, "claim"):
        words += ["-H", '"Authorization: Bearer $ONCUE_TOKEN"']
    for one in parameters:
        if one["in"] == "header":
            words += ["-H", shlex.quote(f"{one['name']}: {one['example']}")]
    contents = described.get("requestBody", {}).get("content", {})
    for media_type, content in [*contents.items()][:1]:
        if example := content["example"]:
            text = example if isinstance(example, str) else json.dumps(example)
            words += ["-H", f"'Content-Type: {media_type}'", "--data-binary", shlex.quote(text)]
    return " ".join(words)


def _prose(text: str) -> Markup:
    """A sentence in which `words` between backticks are code."""
    return Markup(_CODE.sub(r"<code>\1</code>", str(escape(text))))


def _words(schema: dict[str, Any]) -> Markup:
    """The type of a value, in a few words."""
    if "$ref" in schema:
        return Markup('<a href="#shape-{0}">{0}</a>').format(_name(schema))
    if "anyOf" in schema:
        return Markup(" or ").join(dict.fromkeys(map(_words, schema["anyOf"])))
    if values := schema.get("enum") or ([schema["const"]] if "const" in schema else []):
        return Markup(" · ").join(Markup("<code>{}</code>").format(value) for value in values)
    kind = schema.get("type", "any JSON")
    if kind == "array":
        return "list of " + _words(schema.get("items", {}))
    name = " or ".join(kind) if isinstance(kind, list) else kind
    bounds = [f"{sign}{schema[bound]:,}" for bound, sign in _BOUNDS.items() if bound in schema]
    quiet = Markup('<span class="quiet"> {}</span>').format(", ".join(bounds)) if bounds else ""
    return escape(_FORMATS.get(schema.get("format", ""), name)) + quiet


def _meaning(schema: dict[str, Any]) -> str:
    texts = [one.get("description") for one in [schema, *schema.get("anyOf", [])]]
    return next((text for text in texts if text), "")


def _name(reference: dict[str, str]) -> str:
    return reference["$ref"].rpartition("/")[2]


def _examples(answer: dict[str, Any]) -> list[tuple[str, dict[str, Any], str]]:
    """Media type, schema and text of each."""
    return [
        (media_type, content["schema"], one if isinstance(one, str) else json.dumps(one, indent=2))
        for media_type, content in answer.get("content", {}).items()
        for one in _values(content)
    ]


def _values(content: dict[str, Any]) -> list[Any]:
    if "examples" in content:
        return [one["value"] for one in content["examples"].values()]
    return [content["example"]] if "example" in content else []


def _status(refusal: dict[str, Any]) -> str:
    [content] = refusal["content"].values()
    return str(_values(content)[0]["status"])
