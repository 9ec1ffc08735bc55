"""Which writes repeat the one that ended a claim, and which settlements are not applied."""

from __future__ import annotations

import pytest

from oncue.core.fencing import objection, write_behind, write_of
from oncue.core.lifecycle import Verb


@pytest.mark.parametrize("verb", [Verb.RETRY, Verb.RELEASE])
def test_a_job_does_not_wait_again_if_a_cancel_was_requested_unseen(verb: Verb) -> None:
    assert objection(verb, 5, None, cancel_unseen=True) == "cancel requested"
    assert objection(verb, 5, None, cancel_unseen=False) is None


@pytest.mark.parametrize("verb", [Verb.COMPLETE, Verb.FAIL, Verb.DROP])
def test_a_job_ends_whatever_was_requested(verb: Verb) -> None:
    assert objection(verb, 5, None, cancel_unseen=True) is None


def test_a_settlement_that_expects_an_older_update_is_not_applied() -> None:
    assert objection(Verb.COMPLETE, 5, 4, cancel_unseen=False) == "moved on"
    assert objection(Verb.COMPLETE, 5, 5, cancel_unseen=False) is None


def test_a_retry_and_a_failure_are_the_same_write_of_the_worker() -> None:
    assert write_of(Verb.RETRY, None, "E") == write_of(Verb.FAIL, None, "E")
    assert write_of(Verb.FAIL, None, "E") != write_of(Verb.FAIL, None, "F")


def test_no_write_of_the_worker_is_behind_a_reclaim() -> None:
    assert write_behind("reclaimed", None, "E") is None
