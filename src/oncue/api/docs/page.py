"""The page for people, made from the same description that programs get."""

from __future__ import annotations

import json
import shlex
from importlib.resources import files
from string import Template
from typing import Any
from urllib.parse import quote, urlencode

from oncue.api.docs import schema as schemas
from oncue.api.docs.markup import Markup, join, prose, table, tag

ORIGIN = "http://127.0.0.1:8420"
"""Stands in commands until the script puts the page's own in its place."""


def page(document: dict[str, Any]) -> str:
    """The whole page."""
    info, components = document["info"], document["components"]
    groups = [(one, _routes(document, one["name"])) for one in document["tags"]]
    named_shapes = components["schemas"].items()
    refusals, kinds = components["responses"].items(), document["x-oncue-problems"].items()
    return Template(files("oncue.api.docs").joinpath("page.html").read_text()).substitute(
        title=join(info["title"]),
        version=join(info["version"]),
        introduction=join(*(tag("p", prose(text)) for text in info["description"].split("\n\n"))),
        navigation=join(*(_links(group["name"], routes) for group, routes in groups)),
        groups=join(*(_group(document, group, routes) for group, routes in groups)),
        shapes=join(
            *(
                tag("article", tag("h3", name), schemas.fields(schema), id=f"shape-{name}")
                for name, schema in named_shapes
            )
        ),
        statuses=join(
            *(
                tag("div", _answer(_status(response), response), id=f"problem-{name}")
                for name, response in refusals
            )
        ),
        kinds=table(*(_row(f"/problems/{kind}", tag("td", title)) for kind, title in kinds)),
    )


_Route = tuple[str, str, dict[str, Any]]
"""Method, path and description."""


def _routes(document: dict[str, Any], group: str) -> list[_Route]:
    return [
        (method.upper(), path, described)
        for path, methods in document["paths"].items()
        for method, described in methods.items()
        if group in described["tags"]
    ]


def _links(group: str, routes: list[_Route]) -> Markup:
    links = [
        tag("li", tag("a", _badge(method), f" {path}", href=f"#{described['operationId']}"))
        for method, path, described in routes
    ]
    return join(tag("h2", tag("a", group, href=f"#{group}")), tag("ul", *links))


def _group(document: dict[str, Any], group: dict[str, str], routes: list[_Route]) -> Markup:
    title = tag("h2", group["name"]), tag("p", prose(group["description"]))
    return tag("section", *title, *(_route(document, *one) for one in routes), id=group["name"])


def _route(document: dict[str, Any], method: str, path: str, described: dict[str, Any]) -> Markup:
    name = described["operationId"]
    return tag(
        "article",
        tag("h3", _badge(method), " ", tag("a", tag("code", path), href=f"#{name}")),
        tag("p", tag("strong", described["summary"]), " ", _scope(described["x-oncue-scope"])),
        tag("p", prose(described["description"])),
        _parameters(described.get("parameters", [])),
        _body(document, described.get("requestBody")),
        _command(curl(method, path, described)),
        tag("h4", "Answers"),
        _answers(described["responses"]),
        id=name,
    )


def _badge(method: str) -> Markup:
    return tag("span", method, class_=f"method {method.lower()}")


def _scope(scope: str | None) -> Markup:
    words = {None: "open to all", "claim": "token of the claim"}
    return tag("span", words.get(scope, f"scope {scope}"), class_="scope")


def _row(name: str, *cells: Markup, mark: Markup | None = None) -> Markup:
    return tag("tr", tag("th", tag("code", name), mark, scope="row"), *cells)


def _parameters(parameters: list[dict[str, Any]]) -> Markup | None:
    if not parameters:
        return None
    rows = [
        _row(
            one["name"],
            tag("td", schemas.words(one["schema"])),
            tag("td", prose(one["description"])),
            mark=tag("span", one["in"], class_="place"),
        )
        for one in parameters
    ]
    return join(tag("h4", "Parameters"), table(*rows))


def _body(document: dict[str, Any], body: dict[str, Any] | None) -> Markup | None:
    if body is None:
        return None
    parts = [tag("h4", "Body", None if body["required"] else tag("small", " may be left out"))]
    for media_type, content in body["content"].items():
        schema = content["schema"]
        parts.append(tag("p", tag("code", media_type), ": ", schemas.words(schema)))
        if "description" in schema:
            parts.append(tag("p", prose(schema["description"]), class_="quiet"))
        if "$ref" in schema:
            fields = schemas.fields(document["components"]["schemas"][_name(schema)])
            parts.append(tag("details", tag("summary", "Fields"), fields, open="open"))
    return join(*parts)


def _name(reference: dict[str, str]) -> str:
    return reference["$ref"].rpartition("/")[2]


def _command(text: str) -> Markup:
    copy = tag("button", "Copy", type="button", class_="copy", hidden="hidden")
    return tag("div", tag("pre", tag("code", text), class_="shell"), copy, class_="command")


def curl(method: str, path: str, described: dict[str, Any]) -> str:
    """The request of the examples, as a line for a shell."""
    parameters = described.get("parameters", [])
    for one in parameters:
        path = path.replace(f"{{{one['name']}}}", quote(str(one["example"]), safe=""))
    first = [(one["name"], one["example"]) for one in parameters if one["in"] == "query"][:2]
    words = ["curl"] + ([] if method == "GET" else ["-X", method])
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


def _answers(responses: dict[str, Any]) -> Markup:
    """Successes in full; problems are the same for all routes, so they are shown once."""
    successes = [_answer(status, one) for status, one in responses.items() if "$ref" not in one]
    problems = [
        tag("a", _number(status), href=f"#problem-{_name(one)}")
        for status, one in responses.items()
        if "$ref" in one
    ]
    return join(*successes, tag("p", "Problems: ", Markup(" ".join(problems)), class_="problems"))


def _answer(status: str, described: dict[str, Any]) -> Markup:
    title = join(_number(status), " ", prose(described["description"]))
    examples = [
        _example(media_type, content["schema"], one)
        for media_type, content in described.get("content", {}).items()
        for one in _examples(content)
    ]
    if not examples:
        return tag("p", title, class_="answer")
    return tag("details", tag("summary", title), *examples, class_="answer")


def _number(status: str) -> Markup:
    return tag("span", status, class_=f"status s{status[0]}")


def _examples(content: dict[str, Any]) -> list[Any]:
    if "examples" in content:
        return [one["value"] for one in content["examples"].values()]
    return [content["example"]] if "example" in content else []


def _example(media_type: str, schema: dict[str, Any], example: Any) -> Markup:
    text = example if isinstance(example, str) else json.dumps(example, indent=2)
    title = tag("p", tag("code", media_type), ": ", schemas.words(schema))
    return join(title, tag("pre", tag("code", text)))


def _status(response: dict[str, Any]) -> str:
    [content] = response["content"].values()
    return str(_examples(content)[0]["status"])
