"""W5, the asking process: starts a server on a file, asks it for work, and tells how that went."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Iterator
from itertools import repeat
from time import perf_counter
from time import time as wall  # noqa: TID251
from typing import Any

import msgspec

from oncue.core import moment
from oncue_bench.http_server import HOST, running
from oncue_bench.http_talk import Reply, Script, head, parsed, perform, request, run
from oncue_bench.seeds import PAYLOAD, QUEUE

HOUR = 3600
WARMING_UP = 300
MANY = 100  # jobs claimed and settled by one call
MANY_CONNECTIONS = 4
LINES = 1000  # of a batch that are sent at once
PROBE_SECONDS = 0.01
LEAD_SECONDS = 0.5
LEASE_SECONDS = 600

Figures = dict[str, Any]

JOB = json.dumps(
    {"payload": PAYLOAD, "queue": QUEUE, "delay": HOUR}, separators=(",", ":")
).encode()
POST = request("POST", "/jobs", JOB)


class _Item(msgspec.Struct):
    id: str
    token: str
    due_at: str


class _Claimed(msgspec.Struct):
    items: list[_Item]


_claimed = msgspec.json.Decoder(_Claimed).decode


def _expect(reply: Reply, status: int) -> bytes:
    if reply.status != status:
        raise AssertionError(f"answered {reply.status}: {reply.body[:300]!r}")
    return reply.body


# -- creating --------------------------------------------------------------------------------------


def posts(path: str, app: str, count: int, connections: int) -> Figures:
    """`POST /jobs`, again and again on each of the connections."""
    with running(app, path) as server:
        run(perform(server.port, _posting(WARMING_UP, connections)))
        began = perf_counter()
        run(perform(server.port, _posting(count, connections)))
        return {"count": count, "seconds": perf_counter() - began}


def _posting(count: int, connections: int) -> list[Script]:
    turns = iter(range(count))
    return [_poster(turns) for _ in range(min(connections, count))]


def _poster(turns: Iterator[int]) -> Script:
    for _ in turns:
        _expect((yield POST), 201)


def batch(path: str, count: int, probing: bool) -> Figures:
    """One `POST /jobs/batch` of so many lines. When `probing`, somebody else posts single jobs
    meanwhile, and how long each of them takes is told."""
    with running("product", path) as server:
        run(perform(server.port, _posting(WARMING_UP, 1)))
        began = perf_counter()
        probes = run(_batch(server.port, count, probing))
        seconds = perf_counter() - began
        peak = server.used().peak_kib
    return {"count": count, "seconds": seconds, "probes_ms": probes, "server_peak_kib": peak}


async def _batch(port: int, count: int, probing: bool) -> list[float]:
    sending = asyncio.create_task(asyncio.to_thread(_send_batch, port, count))
    probes: list[float] = []
    while probing and not sending.done():
        began = perf_counter()
        await perform(port, _posting(1, 1))
        probes.append(1000 * (perf_counter() - began))
        await asyncio.sleep(PROBE_SECONDS)
    told = json.loads(await sending)
    if told["accepted"] != count:
        raise AssertionError(f"{told['accepted']} of {count} were accepted: {told['rejected'][:1]}")
    return probes


def _send_batch(port: int, count: int) -> bytes:
    line = JOB + b"\n"
    whole, rest = divmod(count, LINES)
    length = count * len(line)
    with socket.create_connection((HOST, port)) as connection:
        connection.sendall(head("POST", "/jobs/batch", length, "application/x-ndjson"))
        for block in [*repeat(line * LINES, whole), line * rest]:
            connection.sendall(block)
        answer = b""
        while (reply := parsed(answer)) is None:
            if not (more := connection.recv(65536)):
                raise AssertionError("the server hung up before it answered")
            answer += more
    return _expect(reply, 200)


# -- working ---------------------------------------------------------------------------------------


def work(path: str, count: int, connections: int) -> Figures:
    """Claim one job, complete it, again until none is left. The count is that of the calls."""
    done: list[int] = []
    with running("product", path) as server:
        run(perform(server.port, _posting(WARMING_UP, connections)))
        began = perf_counter()
        run(perform(server.port, [_worker(f"w-{n}", done) for n in range(connections)]))
        seconds = perf_counter() - began
    _complete(sum(done), count)
    return {"count": 2 * count, "seconds": seconds}


def _worker(name: str, done: list[int]) -> Script:
    claim = _claim(worker=name, lease_seconds=LEASE_SECONDS)
    while items := _claimed(_expect((yield claim), 200)).items:
        [job] = items
        body = b'{"token":"%s"}' % job.token.encode()
        _expect((yield request("POST", f"/jobs/{job.id}/complete", body)), 200)
        done.append(1)


def work_in_batches(path: str, count: int) -> Figures:
    """Claim a hundred jobs, settle them by one call, again until none is left."""
    done: list[int] = []
    with running("product", path) as server:
        run(perform(server.port, _posting(WARMING_UP, MANY_CONNECTIONS)))
        began = perf_counter()
        run(perform(server.port, [_batch_worker(f"w-{n}", done) for n in range(MANY_CONNECTIONS)]))
        seconds = perf_counter() - began
    _complete(sum(done), count)
    return {"count": count, "seconds": seconds}


def _batch_worker(name: str, done: list[int]) -> Script:
    claim = _claim(limit=MANY, worker=name, lease_seconds=LEASE_SECONDS)
    while items := _claimed(_expect((yield claim), 200)).items:
        ended = [{"id": job.id, "token": job.token, "outcome": "complete"} for job in items]
        body = msgspec.json.encode({"items": ended})
        told = msgspec.json.decode(_expect((yield request("POST", "/settle", body)), 200))
        done.append(sum(item.get("state") == "succeeded" for item in told["items"]))


def _claim(**fields: Any) -> bytes:
    return request("POST", f"/queues/{QUEUE}/claim", json.dumps(fields).encode())


def _complete(done: int, count: int) -> None:
    if done != count:
        raise AssertionError(f"{done} jobs were completed, not {count}")


# -- waiting ---------------------------------------------------------------------------------------


def waiting(
    path: str, waiters: int, count: int, over_seconds: float, idle_seconds: float
) -> Figures:
    """So many connections wait for work: what that costs while there is none, and how late they
    get jobs that fall due one after the other."""
    lateness: list[float] = []
    with running("product", path) as server:

        async def wait() -> float:
            ahead = LEAD_SECONDS + over_seconds + idle_seconds
            scripts = [_waiter(lateness, count, ahead + 5) for _ in range(waiters)]
            playing = asyncio.create_task(perform(server.port, scripts))
            await asyncio.sleep(LEAD_SECONDS + waiters / 2000)
            before, began = server.used().cpu_seconds, perf_counter()
            await asyncio.sleep(idle_seconds)
            idle = (server.used().cpu_seconds - before) / (perf_counter() - began)
            await perform(server.port, [_timed_jobs(count, over_seconds)])
            while len(lateness) < count and not playing.done():
                await asyncio.sleep(0.05)
            playing.cancel()
            return idle

        idle = run(wait())
    if len(lateness) < count:
        raise AssertionError(f"{len(lateness)} of {count} jobs arrived")
    return {"lateness_ms": lateness, "idle_cpu_percent": 100 * idle}


def _waiter(lateness: list[float], count: int, wait_seconds: float) -> Script:
    claim = _claim(worker="bench", wait_seconds=wait_seconds, lease_seconds=LEASE_SECONDS)
    while len(lateness) < count:
        items = _claimed(_expect((yield claim), 200)).items
        now = wall() * 1000
        lateness += [now - moment.parse(job.due_at) for job in items]


def _timed_jobs(count: int, over_seconds: float) -> Script:
    """Create jobs that fall due one after the other."""
    start = wall() * 1000 + 1000 * LEAD_SECONDS
    for position in range(count):
        due = moment.render(int(start + position * 1000 * over_seconds / count))
        job = {"payload": PAYLOAD, "queue": QUEUE, "due_at": due}
        _expect((yield request("POST", "/jobs", json.dumps(job).encode())), 201)
