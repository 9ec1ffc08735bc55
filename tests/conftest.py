"""What all tests have in common: settings of property tests, Ctrl-C, how many run at once, servers.

By default hypothesis fails a test whose example takes 200 ms, or whose examples are made slowly: on
a busy machine both happen to a test that is right. Examples are the same in every run, so that a
red run can be repeated and a green one means the same everywhere.
"""

from __future__ import annotations

import os
import signal

import pytest
from hypothesis import HealthCheck, settings

from tests.servers import dynamodb_endpoint, session

settings.register_profile(
    "oncue",
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("oncue")

# A shell starts what runs in the background with SIGINT ignored, and every program that a test
# starts would inherit that: none of them could be interrupted.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(optionalhook=True)  # without xdist, as in `make chaos`, nobody asks
def pytest_xdist_auto_num_workers() -> int:
    """Half of the time tests wait: for processes, leases and time-outs."""
    return len(os.sched_getaffinity(0)) * 3 // 2


def pytest_configure() -> None:
    """The controller begins the session of servers before its workers exist, and they join it."""
    session.begin()


def pytest_unconfigure() -> None:
    session.end()


@pytest.fixture(scope="session")
def dynamodb() -> str:
    """The address of DynamoDB Local. Others have their tables there, too: name yours uniquely."""
    return dynamodb_endpoint()
