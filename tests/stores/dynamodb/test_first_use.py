"""What the store reads is known to msgspec before any thread can ask: of two threads that are the
first to convert a type, one may see it half known, which ends the process."""

from __future__ import annotations

import os
import subprocess
import sys

KNOWN = """
import oncue.stores.dynamodb.store
from oncue.core.access import AccessToken
from oncue.core.nodes import NodeReport
from oncue.core.queue import Queue
from oncue.core.schedule import Schedule
kinds = (AccessToken, NodeReport, Queue, Schedule)
print([kind.__name__ for kind in kinds if "__msgspec_cache__" not in vars(kind)])
"""


def test_every_type_that_is_read_is_known_once_the_store_is_imported() -> None:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    told = subprocess.run(
        [sys.executable, "-c", KNOWN], env=environment, capture_output=True, text=True, check=True
    )
    assert told.stdout.strip() == "[]"
