"""What a new job meets whose id or key is there already."""

from __future__ import annotations

import pytest

from oncue.core.clash import ClashKind, of_same_id, of_same_key
from oncue.core.job import NewJob
from oncue.core.lifecycle import State

NEW = NewJob("id", "q", 0, b"null", 0, 0)


@pytest.mark.parametrize(
    ("sent", "kept", "kind"),
    [
        (None, None, "existing"),
        (b"a", b"a", "existing"),
        (b"a", b"b", "id taken"),
        (b"a", None, "id taken"),
        (None, b"a", "id taken"),
    ],
)
def test_the_same_id_is_a_repetition_if_the_digests_are_equal(
    sent: bytes | None, kept: bytes | None, kind: ClashKind
) -> None:
    assert of_same_id(NEW._replace(digest=sent), kept) == kind


def test_the_digest_of_an_earlier_version_is_a_repetition_too() -> None:
    new = NEW._replace(digest=b"a", former_digest=b"b")
    assert of_same_id(new, b"b") == "existing"
    assert of_same_id(new, b"c") == of_same_id(new, None) == "id taken"


@pytest.mark.parametrize("holder", [State.SCHEDULED, State.DISPATCHED, State.EXECUTING])
def test_only_a_scheduled_job_is_replaced_and_only_if_that_is_wanted(holder: State) -> None:
    assert of_same_key(NEW, holder) == "existing"
    replaced = "replaced" if holder is State.SCHEDULED else "key taken"
    assert of_same_key(NEW._replace(replace=True), holder) == replaced
