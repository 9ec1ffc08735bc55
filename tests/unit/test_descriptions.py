"""The docstrings under the fields of Structs are their descriptions."""

from __future__ import annotations

from oncue.wire.claims import ClaimedJob
from oncue.wire.descriptions import descriptions
from oncue.wire.rules import Standing


def test_inherited_fields_are_described_as_their_class_describes_them() -> None:
    found = descriptions(ClaimedJob)
    assert found["token"] == "What every report on this claim must carry."
    assert found["attempt"] == "How often it was taken or handed over."


def test_a_description_has_the_name_that_json_has() -> None:
    assert descriptions(Standing)["from"] == "The earliest timestamp with which it fires."


def test_a_field_without_a_docstring_has_no_description() -> None:
    assert "queue" not in descriptions(ClaimedJob)
