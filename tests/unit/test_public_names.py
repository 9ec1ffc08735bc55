"""What `from oncue import …` offers is a promise: it changes on purpose or not at all."""

from __future__ import annotations

import ast
import importlib
import inspect
import itertools
from types import ModuleType

import pytest

import oncue
import oncue.testing
from oncue.stores.memory import MemoryStore
from oncue.stores.sqlite import SqliteStore

NAMES = [
    "AccessDenied",
    "Attempt",
    "Bounds",
    "BulkOutcome",
    "ClaimLost",
    "Claimed",
    "Client",
    "Conflict",
    "Decision",
    "Dependency",
    "Diagnostic",
    "Event",
    "EventFilter",
    "EventIdTaken",
    "Fenced",
    "HandledJob",
    "HeldByOthers",
    "History",
    "IdTaken",
    "IllegalState",
    "InvalidInput",
    "Job",
    "JobFilter",
    "KeyTaken",
    "LoggedEvent",
    "NodeReport",
    "NonRetryable",
    "NotFound",
    "NotSupported",
    "OncueError",
    "Operation",
    "OperationLimits",
    "Outcome",
    "Published",
    "Queue",
    "ReclaimReport",
    "RetryPolicy",
    "Rule",
    "Run",
    "Schedule",
    "Scheduler",
    "ServerError",
    "ServerUnavailable",
    "ServerUnusable",
    "SinkDown",
    "SinkError",
    "Standing",
    "State",
    "StoreError",
    "StoreUnavailable",
    "StoreUnusable",
    "Tally",
    "TooLarge",
]

METHODS = [
    "cancel",
    "cancel_all",
    "claim",
    "claim_source",
    "close",
    "complete",
    "complete_all",
    "complete_by_hand",
    "delete_queue",
    "delete_rule",
    "delete_schedule",
    "due_counts",
    "event_page",
    "events",
    "every",
    "explain",
    "explain_rule",
    "fail",
    "handler",
    "heartbeat",
    "history",
    "job",
    "jobs",
    "move_all",
    "next_runs",
    "nodes",
    "operation",
    "page",
    "pause",
    "pause_schedule",
    "preview_schedule",
    "publish",
    "put_rule",
    "put_schedule",
    "queue",
    "queues",
    "queues_with_stats",
    "ready",
    "reclaim",
    "release",
    "reprioritise_all",
    "reschedule",
    "resume",
    "resume_schedule",
    "retry",
    "retry_all",
    "rule",
    "rules",
    "run",
    "run_all",
    "run_loops",
    "schedule",
    "schedule_many",
    "schedule_named",
    "schedule_outcomes",
    "schedules",
    "set_queue",
    "spread",
    "start",
    "stats",
    "store_job",
    "store_jobs",
    "token",
    "work",
]


def test_the_public_names_are_these() -> None:
    assert sorted(oncue.__all__) == NAMES
    assert oncue.testing.__all__ == ["FakeClock", "HandDriven"]


def test_the_methods_of_the_scheduler_are_these() -> None:
    public = [name for name, _ in inspect.getmembers(oncue.Scheduler, callable) if name[0] != "_"]
    assert public == METHODS


@pytest.mark.parametrize("module", [oncue, oncue.testing], ids=lambda module: module.__name__)
def test_every_public_name_is_there_and_documented(module: ModuleType) -> None:
    for name in module.__all__:
        found = getattr(module, name)
        inherited = next((base.__doc__ for base in found.__mro__[1:] if base.__doc__), "")
        assert found.__doc__, name
        assert found.__doc__ != inherited, name
        assert not found.__doc__.startswith(f"{name}("), name


def test_every_method_of_the_scheduler_is_documented_or_says_it_by_its_name() -> None:
    plain = {"queues", "resume", "spread"}
    for name in set(METHODS) - plain:
        assert inspect.getdoc(getattr(oncue.Scheduler, name)), name


def test_every_error_is_one_of_ours_and_can_be_caught_as_such() -> None:
    for name in NAMES:
        found = getattr(oncue, name)
        if isinstance(found, type) and issubclass(found, BaseException):
            assert issubclass(found, oncue.OncueError)


def test_importing_oncue_brings_in_no_store_and_no_event_loop() -> None:
    import subprocess
    import sys

    code = "import sys, oncue; print(*sorted(sys.modules))"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(run.stdout.split())
    assert not loaded & {"apsw", "asyncio", "oncue.worker", "oncue.stores.sqlite", "oncue.testing"}


@pytest.mark.parametrize(
    "whole",
    [MemoryStore, SqliteStore, oncue.Scheduler, oncue.Client],
    ids=lambda kind: kind.__name__,
)
def test_the_parts_of_a_class_do_not_overwrite_each_other(whole: type) -> None:
    """A part may only fill in what another part of it leaves open."""
    owners: dict[str, list[type]] = {}
    for part in whole.__mro__[1:-1]:
        for name, value in vars(part).items():
            is_open = getattr(value, "__isabstractmethod__", False)
            if callable(value) and not is_open and not name.startswith("__"):
                owners.setdefault(name, []).append(part)
    clashes = {
        name: parts
        for name, parts in owners.items()
        if any(not issubclass(first, last) for first, last in itertools.pairwise(parts))
    }
    assert clashes == {}


def test_type_checkers_see_the_same_names_as_programs() -> None:
    """The imports that only type checkers read say where each name comes from, too."""
    tree = ast.parse(inspect.getsource(oncue))
    seen = {
        name.name: node.module
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("oncue.")
        for name in node.names
    }
    assert sorted(seen) == NAMES
    for name, module in seen.items():
        assert getattr(oncue, name) is getattr(importlib.import_module(module or ""), name)
