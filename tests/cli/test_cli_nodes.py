"""`oncue nodes`: the processes on a store, as a table and as JSON."""

from __future__ import annotations

from pathlib import Path

from oncue import Scheduler, __version__
from oncue.cli.nodes import runs
from oncue.core.moment import EPOCH, to_datetime
from oncue.core.nodes import NodeReport
from tests.http.patience import until
from tests.http.server import running_server

from .terminal import run, scheduler, see


def started(cue: Scheduler) -> NodeReport:
    """The node of a scheduler whose loops run."""
    cue.set_queue("audit", sink="log:")
    cue.run_loops()
    until(lambda: cue.nodes() and cue.nodes()[0].dispatches)
    return cue.nodes()[0]


def test_a_store_without_processes_says_how_to_start_one(tmp_path: Path) -> None:
    scheduler(tmp_path).close()
    ended = run("nodes", cwd=tmp_path)
    assert (ended.code, ended.out) == (0, "")
    assert "`oncue serve` starts one" in ended.err
    assert run("nodes", "--json", cwd=tmp_path).json == {"items": [], "next_cursor": None}


def test_a_process_is_shown_with_what_it_runs(tmp_path: Path) -> None:
    with scheduler(tmp_path) as cue:
        node = started(cue)
        ended = run("nodes", cwd=tmp_path)
        [told] = run("nodes", "--json", cwd=tmp_path).json["items"]
    head, line = ended.out.splitlines()
    assert head.split() == ["node", "version", "started", "seen", "runs"]
    assert line.split()[:2] == [node.id, __version__]
    assert line.endswith("loops; delivers audit")
    assert (told["pid"], told["dispatches"]) == (node.pid, ["audit"])


def test_a_narrow_terminal_shows_all_that_a_process_runs(tmp_path: Path) -> None:
    with scheduler(tmp_path) as cue:
        queues = [f"queue-{number}" for number in range(12)]
        for queue in queues:
            cue.set_queue(queue, sink="log:")
        started(cue)
        until(lambda: len(cue.nodes()[0].dispatches) > len(queues))
        shown = see("nodes", cwd=tmp_path, columns=80).out
    assert max(map(len, shown.splitlines())) <= 80
    assert "…" not in shown
    assert all(queue in shown for queue in ("loops;", "audit", *queues))


def test_a_host_with_a_long_name_leaves_room_for_what_it_runs(tmp_path: Path) -> None:
    with scheduler(tmp_path) as cue:
        at, host = to_datetime(cue.clock.now()), "oncue-worker-7d9f8b6c5d-x2x4z"
        node = NodeReport(f"{host}:7:8bf20d84", host, 7, "1.0", at, at, True, ("audit",), ("mail",))
        cue.store.report_node(node)
        shown = see("nodes", cwd=tmp_path, columns=80).out
    assert shown.splitlines()[0].split() == ["node", "seen", "runs"]
    assert max(map(len, shown.splitlines())) <= 80
    assert all(text in shown for text in (node.id, "loops;", "delivers audit", "works on mail"))


def test_a_command_that_only_looks_is_no_node(tmp_path: Path) -> None:
    scheduler(tmp_path).close()
    assert run("queues", "list", cwd=tmp_path).code == 0
    assert run("nodes", "--json", cwd=tmp_path).json["items"] == []


def test_a_server_tells_the_processes_on_its_store(tmp_path: Path) -> None:
    with running_server(tmp_path) as server:
        until(lambda: server.get("/nodes").json["items"])
        ended = run("nodes", "--url", server.url, cwd=tmp_path)
        assert ended.out.splitlines()[1].endswith(f"loops; {server.url}")
        asked = run("nodes", "--url", server.url, "--json", cwd=tmp_path).json
        [node], [same] = asked["items"], server.get("/nodes").json["items"]
        assert node | {"seen_at": ""} == same | {"seen_at": ""}


def test_all_that_a_process_can_run_is_named() -> None:
    node = NodeReport("n", "h", 1, "1", EPOCH, EPOCH, True, ("a", "b"), ("c",), "http://x")
    assert runs(node) == "loops; delivers a, b; works on c; http://x"
