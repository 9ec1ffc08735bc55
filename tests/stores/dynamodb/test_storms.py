"""The engine on DynamoDB in trouble: whatever befalls its requests, the promises hold once it has
passed."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from tests.proof import scenes
from tests.proof.plan import Fault
from tests.stores.dynamodb.storm import PLAIN, QUICK, SLOW, Storm

JOBS, SECONDS = 16, 8.0
SLOW_SECONDS = 60.0  # they pass quickly: whoever stands still does so for 12 of them
ROUGH = scenes.Scene()


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


def test_every_promise_survives_all_that_befalls_requests(client: Any) -> None:
    storm = Storm(client, QUICK, 1)
    card = storm.play(ROUGH, JOBS, SECONDS)
    assert card.green, f"\n{card}"
    assert len(storm.plan.fired) > 5


def test_every_promise_to_plain_jobs_survives_all_that_befalls_requests(client: Any) -> None:
    storm = Storm(client, PLAIN, 1)
    card = storm.play(replace(ROUGH, minted=True), JOBS, SECONDS)
    assert card.green, f"\n{card}"
    assert len(storm.plan.fired) > 5


def test_every_promise_survives_nodes_that_stand_still_at_a_request(client: Any) -> None:
    storm = Storm(client, SLOW, 1)
    card = storm.play(replace(ROUGH, cancels=False), JOBS, SLOW_SECONDS)
    assert card.green, f"\n{card}"
    assert Fault.DELAY in storm.plan.fired
