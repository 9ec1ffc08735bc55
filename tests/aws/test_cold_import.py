"""A Lambda function loads what it runs, and nothing that its package does not have."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from oncue.aws import HANDLERS
from tests.aws.gateway import Gateway

SOURCE = Path(__file__).parents[2] / "src"
ABSENT = ["apsw", "click", "httptools", "uvicorn", "uvloop"]
"""Not in the package."""
LATE = ["flask", "jinja2", "prometheus_client", "rich"]
"""Loaded by the few requests that need them, if at all."""


def run(program: str, *arguments: str) -> str:
    """A program without the modules that the package does not have."""
    hidden = f"import sys; sys.modules.update(dict.fromkeys({ABSENT}))\n"
    done = subprocess.run(
        [sys.executable, "-c", hidden + program, *arguments],
        env={**os.environ, "PYTHONPATH": str(SOURCE)},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("name", HANDLERS)
def test_a_handler_is_imported_without_what_its_package_lacks(name: str) -> None:
    program = f"from oncue.aws import {name}; import oncue.stores.dynamodb.store\n"
    program += f"assert callable({name}); print([one for one in {LATE} if one in sys.modules])"
    assert run(program) == "[]\n"


INVOKED = """
import json, os
os.environ |= {"ONCUE_STORE": "memory:", "ONCUE_GATEWAY_SCOPES": "admin"}
from oncue.aws import api
class Context:
    function_name = "f"
    def get_remaining_time_in_millis(self): return 10_000
for event in json.loads(sys.argv[1]):
    print(api(event, Context())["statusCode"])
"""


def test_the_api_function_answers_without_what_its_package_lacks() -> None:
    gateway = Gateway()
    asked = ["/jobs?limit=1", "/docs", "/openapi.json", "/metrics", "/readyz", "/nodes", "/queues"]
    events = [gateway.event("GET", target) for target in asked]
    events.append(gateway.event("POST", "/jobs"))
    lines = run(INVOKED, json.dumps(events)).splitlines()
    assert [one for one in lines if not one.startswith("{")] == ["200"] * len(asked) + ["201"]
