"""What the product does on PostgreSQL where it cannot be measured as on SQLite: beside raw in one
process, together with another process, and beside a transaction that stays open."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from time import perf_counter
from time import time as wall  # noqa: TID251
from typing import Any

from oncue.core.fencing import Settlement
from oncue.core.lifecycle import Verb
from oncue.core.sharing import Taker
from oncue.engine.engine import Engine
from oncue.engine.node import Node
from oncue.ports.store import Store
from oncue.scheduler import Scheduler
from oncue.sinks.memory import MemorySink
from oncue_bench.postgresql import raw
from oncue_bench.processes import environment
from oncue_bench.product import HOUR
from oncue_bench.seeds import PAYLOAD, QUEUE, set_queue

START_SECONDS = 3.0
"""From the start of processes until all of them begin."""
REST_SECONDS = 1.5
"""So long after the last job a process takes the queue for empty."""

Figures = dict[str, Any]


def one_by_one(url: str, count: int, rounds: int) -> Figures:
    """In one process with `raw`, taking short turns."""
    mine, its = [], []
    with Scheduler(url) as cue, raw.opened(url) as bare:
        for _ in range(rounds + 1):
            its.append(raw.one_by_one(bare, count))
            began = perf_counter()
            for _ in range(count):
                cue.schedule(PAYLOAD, queue=QUEUE, delay=HOUR)
            mine.append(perf_counter() - began)
    return {"count": count, "seconds": mine[1:], "raw_seconds": its[1:]}  # the first warms up


def together(url: str, what: str, nodes: int, **arguments: Any) -> Figures:
    """So many processes with this measurement, which begin at the same moment. From then until the
    last one has done its last job."""
    start_at = wall() + START_SECONDS
    command = [sys.executable, "-m", "oncue_bench.child", what]
    given = [
        json.dumps({"url": url, "start_at": start_at, "node": at, **arguments})
        for at in range(nodes)
    ]
    running = [
        subprocess.Popen([*command, own], stdout=subprocess.PIPE, text=True, env=environment())
        for own in given
    ]
    said = [one.communicate()[0] for one in running]
    found = [json.loads(text.splitlines()[-1]) for text in said]
    late = max(one["began"] - start_at for one in found)
    if late > 0.5:
        raise TimeoutError(f"a process began {late:.1f} s late")
    return {
        "count": sum(one["count"] for one in found),
        "seconds": max(one["ended"] for one in found) - start_at,
        "counts": [one["count"] for one in found],
    }


def drain(url: str, count: int, start_at: float, node: int) -> Figures:
    """An engine beside others, in whatever place. It ends when nothing has come for a while."""
    settled, ended = 0, start_at
    with Scheduler(url) as cue:
        store = cue.store
        settle = store.settle_range

        def noted(claim: Any, delivered: Any, *args: Any, **kwargs: Any) -> bool:
            nonlocal settled, ended
            answer = settle(claim, delivered, *args, **kwargs)
            if answer:
                settled, ended = settled + len(delivered), max(ended, wall())
            return answer

        store.settle_range = noted  # type: ignore[method-assign]
        sink = MemorySink(counting=True)
        engine = Engine(Node.of(store, store.clock), lambda url: sink)
        raw.wait(start_at - wall())
        began = wall()
        engine.start()
        while settled < count and wall() - ended < REST_SECONDS:
            raw.wait(0.05)
        engine.stop(30)
    return {"count": settled, "ended": ended, "began": began}


def prepare(url: str, keep: bool) -> Figures:
    """The queue, for `drain`."""
    with Scheduler(url) as cue:
        set_queue(cue, sink=True, keep=keep)
    return {}


def claim_latency(url: str, before: int, count: int, held_up: bool) -> Figures:
    """Milliseconds of claims of one job, after so many jobs came and went. `held_up`: all the time,
    another transaction is open, so that what they left cannot be removed."""
    with _open_transaction(url) if held_up else nullcontext(), Scheduler(url) as cue:
        store = cue.store
        set_queue(cue, sink=False, keep=False)
        stop = store.watch(lambda queue, due_at: None)
        _claim_and_complete(store, before)
        seconds = [_claimed(store, 1)[1] for _ in range(count)]
        stop()
    return {"latency_ms": [1000 * one for one in seconds]}


@contextmanager
def _open_transaction(url: str) -> Iterator[None]:
    """It has a number and a snapshot, and does nothing more."""
    with raw.opened(url) as bare:
        bare.connection.execute("SET idle_in_transaction_session_timeout = 0")
        bare.connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
        bare.connection.execute(bare.own("SELECT count(*), pg_current_xact_id() FROM oncue.queues"))
        yield
        bare.connection.execute("ROLLBACK")


def _claim_and_complete(store: Store, count: int, batch: int = 200) -> None:
    for begun in range(0, count, batch):
        claims, _ = _claimed(store, min(batch, count - begun))
        ends = [Settlement(one.id, one.epoch, Verb.COMPLETE) for one in claims]
        store.settle(ends, store.clock.now())


def _claimed(store: Store, limit: int) -> tuple[list[Any], float]:
    """Jobs of the only queue, and how long it took."""
    queues, nonce = store.queues(), f"{perf_counter()}"
    began = perf_counter()
    [claims] = store.claim(queues, [Taker("bench", limit)], store.clock.now(), nonce=nonce)
    if len(claims) != limit:
        raise AssertionError(f"{len(claims)} claims, not {limit}")
    return claims, perf_counter() - began
