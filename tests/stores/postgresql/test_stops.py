"""A node stands still for longer than its leases, while it holds a range or in a transaction."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from oncue.core.lifecycle import State
from tests.contract.desk import DELIVERY, Desk
from tests.stores.postgresql.faults import address_of, eventually

LEASE = 60.0
NODE = """
import os, signal, sys
from oncue.clock import FakeClock
from oncue.stores.postgresql import database
from oncue.stores.postgresql.address import PgAddress
from oncue.stores.postgresql.store import PgStore
from oncue.stores.postgresql.tx import PgTx
from tests.contract.desk import DELIVERY, Desk
from tests.stores.postgresql.faults import SOON

conninfo, schema, now, where = sys.argv[1:]
database.SESSION = database.SESSION.replace(
    f"session_timeout = {database.IDLE_MS}", f"session_timeout = {round(1000 * SOON)}")
clock = FakeClock(int(now))
desk = Desk(PgStore(PgAddress(conninfo, "there", schema), clock), clock)
together = PgTx.together

def stop_in(self, *asked):
    answer = together(self, *asked)
    if ("ranges", "lock") in [one[:2] for one in asked]:  # both hold it until their commit
        PgTx.together = together
        os.kill(os.getpid(), signal.SIGSTOP)
    return answer

if where == "claim":
    PgTx.together = stop_in
claim = desk.claim_range(dispatcher="stopped")
if where == "between":
    os.kill(os.getpid(), signal.SIGSTOP)
elif where == "settle":
    PgTx.together = stop_in
print(len(claim.jobs), desk.settle_range(claim))
"""


@contextmanager
def stopped_node(desk: Desk, where: str) -> Iterator[subprocess.Popen[str]]:
    """A node that has stopped itself there."""
    address = address_of(desk)
    command = [sys.executable, "-c", NODE, address.conninfo, address.schema, str(desk.now), where]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as node:
        try:
            _, status = os.waitpid(node.pid, os.WUNTRACED)
            assert os.WIFSTOPPED(status)
            yield node
        finally:
            node.kill()


def go_on(node: subprocess.Popen[str]) -> str:
    node.send_signal(signal.SIGCONT)
    return node.communicate(timeout=30)[0].strip()


@pytest.mark.parametrize("where", ["claim", "between", "settle"])
def test_what_a_stopped_node_held_is_delivered_by_another_and_refused_to_it(
    desk: Desk, where: str
) -> None:
    desk.set(DELIVERY)
    ids = desk.add_many(4, queue="d")
    # Of another priority: a range over both is read before it is taken.
    ids = sorted([*ids, desk.add(queue="d", priority=1)])
    with stopped_node(desk, where) as node:
        desk.clock.advance(LEASE + 1)
        delivered: list[str] = []

        def all_delivered() -> bool:
            claim = desk.claim_range(dispatcher="other")
            assert not claim.jobs or desk.settle_range(claim)
            delivered.extend(job.id for job in claim.jobs)
            return len(delivered) >= len(ids)

        eventually(all_delivered)
        assert sorted(delivered) == ids
        said = go_on(node)
    assert said.endswith("False") or said == "0 True"
    assert {desk.state(job_id) for job_id in ids} == {State.SUCCEEDED}
    assert all(desk.job(job_id).attempt == 1 for job_id in ids)
