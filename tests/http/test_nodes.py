"""Nodes as a server tells them: real processes that start, end and are killed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from oncue import Client, Scheduler, __version__
from oncue.core.nodes import LEASE_MS, Running
from tests.http.patience import until
from tests.http.server import Server, running_server

CHILD = """
import os, sys
from oncue import Scheduler

cue = Scheduler(sys.argv[1])
cue.run_loops()
child = os.fork()
if child == 0:
    cue.run_loops()
sys.stdin.read()
if child:
    os.waitpid(child, 0)
"""


def test_a_server_is_listed_with_what_it_runs(server: Server, client: Client) -> None:
    server.put("/queues/nodes-sink", {"sink": "log:"})
    until(lambda: "nodes-sink" in server.get("/nodes").json["items"][0]["dispatches"])
    told = server.get("/nodes").json
    [node] = told["items"]
    assert told["next_cursor"] is None
    assert (node["pid"], node["version"]) == (server.process.pid, __version__)
    assert (node["url"], node["engine"], node["works"]) == (server.url, True, [])
    assert node["started_at"] <= node["seen_at"]
    [same] = client.nodes()
    assert (same.id, same.url, same.works) == (node["id"], server.url, ())


def test_processes_on_one_store_see_each_other_come_and_go(tmp_path: Path) -> None:
    with (
        running_server(tmp_path) as one,
        running_server(tmp_path, "--no-engine") as two,
        Scheduler(one.store) as cue,
    ):
        until(lambda: {node.url for node in cue.nodes()} == {one.url, two.url})
        by_url = {node.url: node for node in cue.nodes()}
        assert by_url[two.url].running == Running(url=two.url)
        assert by_url[one.url].engine
        assert two.stop() == 0
        assert [node.url for node in cue.nodes()] == [one.url]
        one.kill()
        assert [node.url for node in cue.nodes()] == [one.url], "nobody could say so"
        assert cue.store.nodes(cue.clock.now() + LEASE_MS) == []


def test_a_forked_child_is_a_node_of_its_own(tmp_path: Path) -> None:
    """Both are removed when they end, although neither closes anything."""
    store = f"sqlite:///{tmp_path}/jobs.db"
    command = [sys.executable, "-c", CHILD, store]
    with Scheduler(store) as cue, subprocess.Popen(command, stdin=subprocess.PIPE) as both:
        until(lambda: len(cue.nodes()) == 2)
        pids = {node.pid for node in cue.nodes()}
        assert both.pid in pids
        assert len(pids) == 2
        both.communicate(b"", 30)
        assert both.returncode == 0
        assert cue.nodes() == []
