from __future__ import annotations

from collections.abc import Iterator

import pytest

from oncue.aws import sandbox
from tests.aws.stack import Stack


@pytest.fixture
def stack(monkeypatch: pytest.MonkeyPatch) -> Iterator[Stack]:
    yield Stack(monkeypatch)
    sandbox.close()


@pytest.fixture
def fifo_stack(monkeypatch: pytest.MonkeyPatch) -> Iterator[Stack]:
    yield Stack(monkeypatch, fifo=True)
    sandbox.close()
