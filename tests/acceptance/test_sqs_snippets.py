"""The blocks of code in docs/sqs-delays.md do what stands behind them, on an emulator."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.servers import ministack_endpoint
from tests.servers.clients import CREDENTIALS, client

from .documents import Block, blocks, run_python


@pytest.mark.parametrize("block", blocks("docs/sqs-delays.md", "python"), ids=lambda one: one.place)
def test_a_snippet_about_delays_prints_what_it_says(
    block: Block, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    client("sqs", ministack_endpoint()).create_queue(QueueName="mail")
    variables = {**CREDENTIALS, "AWS_ENDPOINT_URL": ministack_endpoint()}
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    printed = run_python(tmp_path, "-c", block.text)
    assert printed == (block.output or "")
