"""A range covers what is due and in front of it, and nothing else, whoever cancels meanwhile."""

from __future__ import annotations

from typing import Any

import pytest

from tests.stores.dynamodb.crowd import QUEUE, Crowd
from tests.stores.dynamodb.rig import Rig


@pytest.mark.parametrize("seed", range(2))
def test_in_a_crowd_every_job_is_sent_once_or_cancelled(client: Any, seed: int) -> None:
    rig = Rig(client, queues=[QUEUE])
    Crowd(rig, 100, seed).run()
    rig.close()
