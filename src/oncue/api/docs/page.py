"""The page for people, made from the same description that programs get."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote, urlencode

from oncue.api.docs import schema as schemas
from oncue.api.docs.markup import Markup, join, prose, tag

ORIGIN = "http://127.0.0.1:8420"
"""Stands in commands until the script puts the page's own in its place."""
JSON_TYPE = "application/json"


def page(document: dict[str, Any]) -> str:
    """The whole page."""
    info = document["info"]
    tags = [(one["name"], one["description"]) for one in document["tags"]]
    groups = [(name, text, list(_operations(document, name))) for name, text in tags]
    body = tag(
        "body",
        tag("a", "To the operations", href="#content", class_="skip"),
        _navigation(info, groups),
        tag(
            "main",
            tag("h1", f"{info['title']} ", tag("small", info["version"])),
            join([tag("p", prose(text)) for text in info["description"].split("\n\n")]),
            join([_group(document, *group) for group in groups]),
            _shapes(document["components"]["schemas"]),
            _problems(document["components"]["responses"], document["x-oncue-problems"]),
            id="content",
        ),
    )
    head = tag(
        "head",
        Markup('<meta charset="utf-8">'),
        Markup('<meta name="viewport" content="width=device-width, initial-scale=1">'),
        Markup('<meta name="color-scheme" content="light dark">'),
        tag("title", f"{info['title']}: the HTTP interface"),
        Markup('<link rel="stylesheet" href="/docs/style.css">'),
        Markup('<script src="/docs/script.js" defer></script>'),
    )
    return "<!doctype html>\n" + tag("html", head, body, lang="en") + "\n"


Told = tuple[str, str, dict[str, Any]]
"""Method, path and what is said of an operation."""


def _operations(document: dict[str, Any], name: str) -> Iterator[Told]:
    for path, methods in document["paths"].items():
        for method, told in methods.items():
            if name in told["tags"]:
                yield method.upper(), path, told


def _navigation(info: dict[str, Any], groups: list[tuple[str, str, list[Told]]]) -> Markup:
    sections = []
    for name, _, operations in groups:
        links = [
            tag("li", tag("a", _badge(method), f" {path}", href=f"#{told['operationId']}"))
            for method, path, told in operations
        ]
        sections += [tag("h2", tag("a", name, href=f"#{name}")), tag("ul", join(links))]
    more = tag("ul", join([tag("li", tag("a", name, href=f"#{name}")) for name in _MORE]))
    menu = tag("details", tag("summary", "Operations"), join(sections), tag("h2", "More"), more)
    title = tag("a", info["title"], href="#content", class_="title")
    raw = tag("a", "openapi.json", href="/openapi.json")
    return tag("nav", tag("p", title, " ", raw), menu, aria_label="Operations")


_MORE = ("Shapes", "Problems")


def _group(document: dict[str, Any], name: str, text: str, operations: list[Told]) -> Markup:
    articles = [_operation(document, *one) for one in operations]
    return tag("section", tag("h2", name), tag("p", prose(text)), join(articles), id=name)


def _operation(document: dict[str, Any], method: str, path: str, told: dict[str, Any]) -> Markup:
    name = told["operationId"]
    return tag(
        "article",
        tag("h3", _badge(method), " ", tag("a", tag("code", path), href=f"#{name}")),
        tag("p", tag("strong", told["summary"]), " ", _scope(told["x-oncue-scope"])),
        tag("p", prose(told["description"])),
        _parameters(told.get("parameters", [])),
        _body(document, told.get("requestBody")),
        _command(method, path, told),
        tag("h4", "Answers"),
        _answers(told["responses"]),
        id=name,
    )


def _badge(method: str) -> Markup:
    return tag("span", method, class_=f"method {method.lower()}")


def _scope(scope: str | None) -> Markup:
    words = {None: "open to all", "claim": "token of the claim"}
    return tag("span", words.get(scope, f"scope {scope}"), class_="scope")


def _parameters(parameters: list[dict[str, Any]]) -> Markup | None:
    if not parameters:
        return None
    rows = [
        tag(
            "tr",
            tag(
                "th", tag("code", one["name"]), tag("span", one["in"], class_="place"), scope="row"
            ),
            tag("td", schemas.words(one["schema"])),
            tag("td", prose(one["description"])),
        )
        for one in parameters
    ]
    table = tag("table", tag("tbody", join(rows)))
    return join((tag("h4", "Parameters"), tag("div", table, class_="table")))


def _body(document: dict[str, Any], body: dict[str, Any] | None) -> Markup | None:
    if body is None:
        return None
    told = [tag("h4", "Body", None if body["required"] else tag("small", " may be left out"))]
    for media_type, content in body["content"].items():
        shape = content["schema"]
        what = tag("p", tag("code", media_type), ": ", schemas.words(shape))
        told.append(what if "description" not in shape else join((what, _says(shape))))
        if "$ref" in shape:
            name = shape["$ref"].rpartition("/")[2]
            table = schemas.fields(document["components"]["schemas"][name])
            told.append(tag("details", tag("summary", "Fields"), table, open="open"))
    return join(told)


def _says(shape: dict[str, Any]) -> Markup:
    return tag("p", prose(shape["description"]), class_="quiet")


def _command(method: str, path: str, told: dict[str, Any]) -> Markup:
    text = curl(method, path, told)
    copy = tag("button", "Copy", type="button", class_="copy", hidden="hidden")
    return tag("div", tag("pre", tag("code", text), class_="shell"), copy, class_="command")


def curl(method: str, path: str, told: dict[str, Any]) -> str:
    """The request of the examples, as a line for a shell."""
    parameters = told.get("parameters", [])
    for one in parameters:
        path = path.replace(f"{{{one['name']}}}", quote(str(one["example"]), safe=""))
    first = [(one["name"], one["example"]) for one in parameters if one["in"] == "query"][:2]
    words = ["curl"] + ([] if method == "GET" else ["-X", method])
    words.append(shlex.quote(f"{ORIGIN}{path}{'?' + urlencode(first) if first else ''}"))
    if told["x-oncue-scope"] not in (None, "claim"):
        words += ["-H", '"Authorization: Bearer $ONCUE_TOKEN"']
    for one in parameters:
        if one["in"] == "header":
            words += ["-H", shlex.quote(f"{one['name']}: {one['example']}")]
    if "requestBody" in told:
        words += _sent(told["requestBody"]["content"])
    return " ".join(words)


def _sent(contents: dict[str, Any]) -> list[str]:
    media_type, content = next(iter(contents.items()))
    example = content["example"]
    if not example:
        return []
    text = example if isinstance(example, str) else json.dumps(example)
    return ["-H", f"'Content-Type: {media_type}'", "--data-binary", shlex.quote(text)]


def _answers(responses: dict[str, Any]) -> Markup:
    """Successes in full; problems are the same for all operations, so they are told once."""
    own = [_answer(status, told) for status, told in responses.items() if "$ref" not in told]
    problems = [
        tag("a", _number(status), href=f"#problem-{told['$ref'].rpartition('/')[2]}")
        for status, told in responses.items()
        if "$ref" in told
    ]
    return join((*own, tag("p", "Problems: ", Markup(" ".join(problems)), class_="problems")))


def _answer(status: str, told: dict[str, Any]) -> Markup:
    title = join((_number(status), Markup(" "), prose(told["description"])))
    examples = [
        _example(media_type, content, one)
        for media_type, content in told.get("content", {}).items()
        for one in _examples(content)
    ]
    if not examples:
        return tag("p", title, class_="answer")
    return tag("details", tag("summary", title), join(examples), class_="answer")


def _number(status: str) -> Markup:
    return tag("span", status, class_=f"status s{status[0]}")


def _examples(content: dict[str, Any]) -> list[Any]:
    if "examples" in content:
        return [one["value"] for one in content["examples"].values()]
    return [content["example"]] if "example" in content else []


def _example(media_type: str, content: dict[str, Any], example: Any) -> Markup:
    text = example if isinstance(example, str) else json.dumps(example, indent=2)
    shape = join((Markup(": "), schemas.words(content["schema"]))) if "schema" in content else None
    return join((tag("p", tag("code", media_type), shape), tag("pre", tag("code", text))))


def _shapes(components: dict[str, Any]) -> Markup:
    told = [
        tag("article", tag("h3", name), _shape(schema), id=f"shape-{name}")
        for name, schema in components.items()
    ]
    return tag("section", tag("h2", "Shapes"), join(told), id="Shapes")


def _shape(schema: dict[str, Any]) -> Markup:
    if "properties" not in schema:
        return schemas.fields(schema)
    says = tag("p", prose(schema["description"])) if "description" in schema else None
    return join((says, schemas.fields(schema)))


def _problems(responses: dict[str, Any], titles: dict[str, str]) -> Markup:
    told = [
        tag("div", _answer(_status(response), response), id=f"problem-{name}")
        for name, response in responses.items()
    ]
    rows = [
        tag("tr", tag("th", tag("code", f"/problems/{kind}"), scope="row"), tag("td", title))
        for kind, title in titles.items()
    ]
    table = tag("div", tag("table", tag("tbody", join(rows))), class_="table")
    text = "What went wrong is told as RFC 9457, with one of these as its `type`."
    kinds = tag("article", tag("p", prose(text)), table)
    statuses = tag("article", join(told))
    return tag("section", tag("h2", "Problems"), statuses, kinds, id="Problems")


def _status(response: dict[str, Any]) -> str:
    [content] = response["content"].values()
    return str(_examples(content)[0]["status"])
