"""The documents agree with the code and with each other."""

from __future__ import annotations

import inspect
import re
import tomllib
from dataclasses import fields
from pathlib import Path

import msgspec
import pytest

import oncue
from oncue import Dependency, Event, LoggedEvent, Published, Rule, Standing
from oncue.core.lifecycle import TRANSITIONS, State, Verb
from oncue.core.publication import Decided, Fired
from oncue.core.queue import Queue
from oncue.core.standing import DependencyStanding
from oncue.usecases.intake import JobFields
from oncue.wire import rules as wire

from .documents import DOCUMENTS, ROOT, blocks, links, read

_ARROW = re.compile(r"\s*(\w+|\[\*\]) --> (\w+|\[\*\])(?:: ([\w ]+))?")


def arrows() -> list[tuple[str, str, str]]:
    [diagram] = blocks("docs/lifecycle.md", "mermaid")
    lines = diagram.text.splitlines()
    assert lines[0] == "stateDiagram-v2"
    found = [_ARROW.fullmatch(line) for line in lines[1:]]
    assert all(found), "a line of the diagram is no arrow"
    return [(m[1], m[2], m[3]) for m in found if m]


def test_the_diagram_shows_every_transition_and_no_other() -> None:
    drawn = [arrow for arrow in arrows() if "[*]" not in arrow]
    assert len(drawn) == len(set(drawn))
    assert {(State(a), Verb(verb)): State(b) for a, b, verb in drawn} == dict(TRANSITIONS)


def test_the_diagram_begins_with_scheduled_and_ends_with_the_final_states() -> None:
    assert {b for a, b, _ in arrows() if a == "[*]"} == {"scheduled"}
    assert {a for a, b, _ in arrows() if b == "[*]"} == {"succeeded", "failed", "cancelled"}


def test_every_state_and_every_verb_is_explained() -> None:
    explained = re.findall(r"^\| `?([\w ]+?)`? \|", read("docs/lifecycle.md"), re.MULTILINE)
    assert {*State, *Verb} <= set(explained)


def test_the_glossary_is_in_order_and_has_each_word_once() -> None:
    words = re.findall(r"^\| \*\*(.+?)\*\* \|", read("docs/glossary.md"), re.MULTILINE)
    assert words == sorted(set(words))


@pytest.mark.parametrize(
    ("document", "longest"),
    [("README.md", 150), ("ARCHITECTURE.md", 150), ("CONTRIBUTING.md", 60)],
)
def test_a_document_stays_short(document: str, longest: int) -> None:
    assert len(read(document).splitlines()) <= longest


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_link_leads_somewhere(document: Path) -> None:
    assert [link for link in links(document) if not (document.parent / link).exists()] == []


def test_every_file_that_the_architecture_names_exists() -> None:
    named = re.findall(r"`([\w/]+\.py)`", read("ARCHITECTURE.md") + read("docs/faults.md"))
    assert [name for name in named if not (ROOT / "src/oncue" / name).is_file()] == []


def test_the_guide_speaks_of_every_method_of_the_scheduler() -> None:
    methods = [name for name, _ in inspect.getmembers(oncue.Scheduler, inspect.isfunction)]
    guide = read("docs/python.md")
    public = [name for name in methods if not name.startswith("_")]
    assert [name for name in public if not re.search(rf"\b{name}\b", guide)] == []


def test_the_guide_speaks_of_every_argument_of_schedule_and_every_setting_of_a_queue() -> None:
    arguments = ["payload", *JobFields.__annotations__]
    settings = [name for name in Queue.__slots__ if name not in ("name", "paused")]
    guide = read("docs/python.md")
    assert [name for name in [*arguments, *settings] if f"`{name}`" not in guide] == []


def test_the_guide_speaks_of_every_error() -> None:
    exported = [getattr(oncue, name) for name in oncue.__all__]
    errors = [kind for kind in exported if inspect.isclass(kind) and issubclass(kind, Exception)]
    guide = read("docs/python.md")
    missing = [kind.__name__ for kind in errors if f"`{kind.__name__}`" not in guide]
    assert set(missing) <= {"StoreError"}, "the parents of the two kinds of trouble"


def test_the_page_about_rules_speaks_of_every_attribute_and_field_that_is_returned() -> None:
    kinds = (Event, Dependency, Rule, Published, Fired, Decided, LoggedEvent, Standing)
    names = {one.name for kind in (*kinds, DependencyStanding) for one in fields(kind)}
    answers = (wire.Event, wire.Rule, wire.PublishedEvent, wire.LoggedEvent, wire.Fired)
    for shape in (*answers, wire.Dependency, wire.LoggedDecision, wire.Standing):
        names |= {one.encode_name for one in msgspec.structs.fields(shape)}
    section = read("docs/rules.md").partition("## What the methods return")[2].partition("\n## ")[0]
    assert sorted(name for name in names - {"payload_json"} if f"`{name}`" not in section) == []


def test_the_changelog_has_an_entry_for_this_version() -> None:
    version = tomllib.loads(read("pyproject.toml"))["project"]["version"]
    assert version == oncue.__version__
    assert re.search(rf"^## {re.escape(version)}\b", read("CHANGELOG.md"), re.MULTILINE)
