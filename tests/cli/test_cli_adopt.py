"""`oncue adopt`, on tables of other systems in DynamoDB Local."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from oncue import Scheduler
from oncue.clock import SystemClock
from tests.aws.adopt.rig import TaskRig, WaiterRig, message, task
from tests.servers import dynamodb_endpoint

from .on_dynamodb import CREDENTIALS, new_url
from .on_postgresql import unused_url
from .terminal import Ended, run


@pytest.fixture
def waiter() -> Iterator[WaiterRig]:
    rig = WaiterRig(indexed=False)
    yield rig
    rig.close()


@pytest.fixture
def tasks() -> Iterator[TaskRig]:
    rig = TaskRig()
    yield rig
    rig.close()


def adopt(folder: Path, *arguments: str, **env: str | None) -> Ended:
    more = ("--endpoint", dynamodb_endpoint())
    ended = run("adopt", *arguments, *more, cwd=folder, env={**CREDENTIALS, **env})
    assert "very-secret" not in ended.out + ended.err
    assert "Traceback" not in ended.err
    return ended


def test_messages_are_taken_over_and_what_is_malformed_is_named(
    waiter: WaiterRig, tmp_path: Path
) -> None:
    waiter.put(message("a"), message("b", queue="low"), message("bad", perform_at="x"))
    ended = adopt(tmp_path, "shoryuken-waiter", waiter.name, "--dry-run")
    assert ended.out.startswith("3 items found, 2 would be adopted, 1 malformed.")
    assert ended.code == 1
    assert list(tmp_path.iterdir()) == []
    ended = adopt(tmp_path, "shoryuken-waiter", waiter.name, "--region", "eu-central-1")
    assert ended.out == ("3 items found, 2 adopted, 1 malformed. By queue: low 1, mailers 1.\n")
    assert "Left in the table: bad: perform_at: is missing, or is not a number." in ended.err
    assert ended.code == 1
    cue = Scheduler(f"sqlite:///{tmp_path}/oncue.db")
    assert [len(list(cue.jobs(queue=name))) for name in ("mailers", "low")] == [1, 1]
    sink = f"message:sqs://low?region=eu-central-1&endpoint={dynamodb_endpoint()}"
    assert cue.queue("low").sink == sink
    cue.close()


@pytest.mark.parametrize("make", [new_url, unused_url], ids=["dynamodb", "postgresql"])
def test_tasks_are_taken_over_into_a_store_of_oncue(
    make: Callable[[], str], tasks: TaskRig, tmp_path: Path
) -> None:
    url = make()
    tasks.put(task("a"), task("b", status="STARTED"))
    ended = adopt(tmp_path, "task-scheduler", tasks.name, "--json", ONCUE_STORE=url)
    assert ended.code == 0, ended.err
    assert ended.json == {
        "dry_run": False,
        "seen": 1,
        "adopted": 1,
        "finished": 0,
        "lost": 0,
        "left": 0,
        "malformed": 0,
        "queues": {"tasks": 1},
        "problems": [],
    }
    shown = run(
        "jobs", "show", "a", "--json", cwd=tmp_path, env={**CREDENTIALS, "ONCUE_STORE": url}
    )
    assert (shown.json["queue"], shown.json["owner"]) == ("tasks", "1234")


def test_what_is_left_to_the_other_system_is_said(waiter: WaiterRig, tmp_path: Path) -> None:
    waiter.put(message("soon", SystemClock().now() + 600_000))
    ended = adopt(tmp_path, "shoryuken-waiter", waiter.name)
    assert ended.code == 0
    assert "working on them just now: 1 item. If it does not run any more, add --s" in ended.err
    ended = adopt(tmp_path, "shoryuken-waiter", waiter.name, "--stopped")
    assert ended.out.startswith("1 item found, 1 adopted.")


def test_a_table_that_is_not_there_or_of_another_system_is_refused(
    tasks: TaskRig, tmp_path: Path
) -> None:
    ended = adopt(tmp_path, "shoryuken-waiter", "no-such-table")
    assert ended.code == 5
    assert "Check the name, --region and --endpoint." in ended.err
    ended = adopt(tmp_path, "shoryuken-waiter", tasks.name)
    assert ended.code == 2
    assert "is not one of shoryuken-waiter: its keys are requestId" in ended.err
    ended = adopt(tmp_path, "shoryuken-waiter", "any", AWS_DEFAULT_REGION=None)
    assert ended.code == 2
    assert "give --region" in ended.err
    assert list(tmp_path.iterdir()) == []


def test_a_store_that_is_forgotten_gets_nothing(waiter: WaiterRig, tmp_path: Path) -> None:
    waiter.put(message("a"))
    ended = adopt(tmp_path, "shoryuken-waiter", waiter.name, ONCUE_STORE="memory:")
    assert ended.code == 2
    assert len(waiter.items()) == 1
