"""`oncue serve` and `oncue worker`: alive, at work, and stopped in good order."""

from __future__ import annotations

import re
import signal
import socket
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from oncue import Scheduler, State
from oncue.cli.same_store import are_same
from oncue.stores.sqlite.statements import migrations

from .terminal import PATIENCE_SECONDS, PROGRAM, Terminal, environment, run, shell

NEVER = threading.Event()
TASKS = """
import os, time
from oncue import Scheduler

cue = Scheduler("sqlite:///oncue.db")
number = 3

@cue.handler("quick")
def quick(job):
    return job.payload

@cue.handler("slow")
def slow(job):
    print("running", flush=True)
    while not os.path.exists("go"):
        time.sleep(0.01)
"""

FAILING = """
from oncue import Scheduler

cue = Scheduler("{url}")
cue.schedule("what it says", queue="q", max_attempts=1)

@cue.handler("q")
def fail(job):
    raise ValueError(job.payload)
"""


def scheduler(folder: Path) -> Scheduler:
    return Scheduler(f"sqlite:///{folder}/oncue.db")


def await_state(cue: Scheduler, job_id: str, state: State) -> None:
    give_up = cue.clock.monotonic() + PATIENCE_SECONDS
    while cue.job(job_id).state is not state:
        assert cue.clock.monotonic() < give_up, f"it is still {cue.job(job_id).state}"
        NEVER.wait(0.02)


@contextmanager
def started(*arguments: str, cwd: Path) -> Iterator[subprocess.Popen[str]]:
    """The program without a terminal, while it runs."""
    process = subprocess.Popen(
        [*PROGRAM, *arguments],
        cwd=cwd,
        env=environment({"ONCUE_LOG_LEVEL": "INFO"}),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
        for pipe in (process.stdout, process.stderr):
            assert pipe is not None
            pipe.close()


def ended(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    out, err = process.communicate(timeout=PATIENCE_SECONDS)
    return process.returncode, out, err


# -- serve -----------------------------------------------------------------------------------------


def test_due_jobs_are_delivered_until_it_is_told_to_stop(tmp_path: Path) -> None:
    with scheduler(tmp_path) as cue:
        cue.set_queue("mail", sink="log:")
        cue.set_queue("celery", sink="celery:")
        first = cue.schedule(1, queue="mail").id
        with started("serve", "--port", "0", cwd=tmp_path) as process:
            await_state(cue, first, State.SUCCEEDED)
            second = cue.schedule(2, queue="mail").id  # from another process, while it runs
            await_state(cue, second, State.SUCCEEDED)
            process.send_signal(signal.SIGTERM)
            code, out, err = ended(process)
    assert (code, out) == (0, "")
    begin, *rest = err.splitlines()
    assert begin.startswith(f"oncue serve: pid {process.pid}, store sqlite {tmp_path}/oncue.db")
    durability = f"schema {len(migrations())}, journal_mode wal, synchronous FULL"
    assert f"{durability}; delivering mail → log:; celery is left to the workers of " in begin
    assert any("2 queues ·" in line and "INFO" in line for line in rest)
    assert rest[-2:] == [
        "Stopping: finishing what is under way. Ctrl-C again stops at once.",
        "Stopped.",
    ]


def test_on_a_terminal_it_shows_that_it_is_alive(tmp_path: Path) -> None:
    with scheduler(tmp_path) as cue:
        cue.schedule(1, delay=3600)
    with Terminal("serve", "--port", "0", cwd=tmp_path, columns=250) as terminal:
        terminal.expect("1 queue · 1 scheduled · 0 taken · nothing late")
        assert "no queue has a sink yet" in terminal.screen
        terminal.interrupt()
        assert terminal.end() == 0
    assert "scheduled ·" not in terminal.screen
    assert terminal.screen.endswith("Stopped.")


def test_a_store_in_memory_has_nothing_to_do_without_http(tmp_path: Path) -> None:
    ended = run("serve", "--store", "memory:", "--engine-only", cwd=tmp_path)
    assert ended.code == 2
    assert "there is nothing to do" in ended.err


def test_neither_http_nor_loops_is_refused(tmp_path: Path) -> None:
    ended = run("serve", "--engine-only", "--no-engine", cwd=tmp_path)
    assert ended.code == 2
    assert "leave nothing to do" in ended.err


def test_a_port_that_is_taken_is_named(tmp_path: Path) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        ended = run("serve", "--port", str(port), cwd=tmp_path)
        by_variable = run("serve", cwd=tmp_path, env={"ONCUE_PORT": str(port)})
    assert ended.code == 2
    told = (
        f"cannot listen on 127.0.0.1:{port}: Address already in use. Is another server running? "
        "Choose another port with --port or ONCUE_PORT.\n"
    )
    assert ended.err == f"Error: --port: {told}"
    assert by_variable.err == f"Error: ONCUE_PORT: {told}"


def test_an_address_of_another_machine_is_not_blamed_on_the_port(tmp_path: Path) -> None:
    assert run("token", "create", cwd=tmp_path).code == 0
    ended = run("serve", "--host", "192.0.2.1", cwd=tmp_path)
    assert ended.code == 2
    assert ended.err.startswith("Error: --host: cannot listen on 192.0.2.1:8420")
    assert "another server" not in ended.err


@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0"])
def test_a_server_that_cannot_listen_makes_no_store(tmp_path: Path, host: str) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        ended = run("serve", "--host", host, "--port", str(port), cwd=tmp_path)
    assert ended.code == 2
    assert "Created" not in ended.err
    assert not list(tmp_path.iterdir())


def test_a_store_that_cannot_be_opened_ends_it_at_once(tmp_path: Path) -> None:
    (tmp_path / "oncue.db").write_text("hello, I am no database, but I am long enough to be read")
    ended = run("serve", cwd=tmp_path)
    assert ended.code == 5
    assert "not an SQLite database" in ended.err


# -- worker ----------------------------------------------------------------------------------------


@pytest.fixture
def tasks(tmp_path: Path) -> Path:
    (tmp_path / "tasks.py").write_text(TASKS)
    return tmp_path


COLLECTED = """
import gc
from oncue import Scheduler
cue = Scheduler()
cue.handler("collected")(lambda job: gc.get_threshold())
"""


def test_garbage_collection_looks_less_often_in_a_worker(tmp_path: Path) -> None:
    (tmp_path / "tasks.py").write_text(COLLECTED)
    with scheduler(tmp_path) as cue:
        job = cue.schedule(queue="collected")
        assert run("worker", "tasks:cue", "--until-empty", cwd=tmp_path).code == 0
        assert cue.job(job.id).result == [10_000, 20, 20]


def test_a_worker_does_what_there_is_and_ends(tasks: Path) -> None:
    with scheduler(tasks) as cue:
        ids = [cue.schedule(n, queue="quick").id for n in range(20)]
        ended = run(
            "worker", "tasks:cue", "--until-empty", "--concurrency=2", "--name=w", cwd=tasks
        )
        assert (ended.code, ended.out) == (0, "")
        assert [cue.job(one).result for one in ids] == list(range(20))
        assert cue.history(ids[0]).attempts[0].worker == "w"
    assert ended.err.startswith("oncue worker w: queues quick, slow; store sqlite ")
    assert ended.err.endswith("Nothing is left to do.\n")


def test_the_first_interrupt_lets_a_running_handler_finish(tasks: Path) -> None:
    with scheduler(tasks) as cue:
        job_id = cue.schedule(None, queue="slow").id
        with Terminal("worker", "tasks:cue", cwd=tasks, columns=200) as terminal:
            terminal.expect("running")
            terminal.interrupt()
            terminal.expect("Stopping: letting running handlers finish.")
            (tasks / "go").touch()
            assert terminal.end() == 0
        assert terminal.screen.endswith("Stopped.")
        assert cue.job(job_id).state is State.SUCCEEDED


def test_the_second_interrupt_does_not(tasks: Path) -> None:
    with scheduler(tasks) as cue:
        job_id = cue.schedule(None, queue="slow").id
        with Terminal("worker", "tasks:cue", "--no-engine", cwd=tasks, columns=200) as terminal:
            terminal.expect("running")
            terminal.interrupt()
            terminal.expect("Stopping")
            NEVER.wait(0.5)  # sooner, it would be the same wish, sent twice
            terminal.interrupt()
            assert terminal.end() == 130
        assert "Stopped at once" in terminal.screen
        assert cue.job(job_id).state is State.DISPATCHED


def test_sigterm_stops_a_worker_in_good_order(tasks: Path) -> None:
    with scheduler(tasks) as cue:
        job_id = cue.schedule(7, queue="quick").id
        with started("worker", "tasks:cue", cwd=tasks) as process:
            await_state(cue, job_id, State.SUCCEEDED)
            process.send_signal(signal.SIGTERM)
            code, _, err = ended(process)
    assert code == 0
    assert err.endswith("Stopped.\n")


@pytest.mark.parametrize(
    ("place", "said"),
    [
        ("tasks", "'tasks' is not MODULE:SCHEDULER; write it like tasks:cue"),
        ("tasks.py:cue", "give the module, not its file: tasks:cue"),
        ("./tasks:cue", "is not MODULE:SCHEDULER"),
        ("taks:cue", "there is no module 'taks' in"),
        ("tasks:que", "module 'tasks' has no 'que'. Its Schedulers: cue."),
        ("tasks:number", "tasks:number is not a Scheduler but of type int."),
        ("empty:cue", "module 'empty' has no 'cue'. It has no Scheduler at all."),
        ("bare:cue", "bare:cue has no handlers; decorate a function in bare with @cue.handler"),
        ("broken:cue", "importing 'broken' failed: ZeroDivisionError"),
        ("broken:cue", "broken.py, line 1)"),
        ("needy:cue", "importing 'needy' failed: No module named 'nonexistent'"),
        ("wrong:cue", "wrong.py, line 1)"),
    ],
)
def test_a_worker_without_handlers_is_told_why(tasks: Path, place: str, said: str) -> None:
    (tasks / "empty.py").touch()
    (tasks / "bare.py").write_text("from oncue import Scheduler\ncue = Scheduler('memory:')\n")
    (tasks / "broken.py").write_text("1 / 0\n")
    (tasks / "needy.py").write_text("import nonexistent\n")
    (tasks / "wrong.py").write_text("def\n")
    ended = run("worker", place, cwd=tasks)
    assert (ended.code, ended.out) == (2, "")
    assert said in " ".join(ended.err.split())
    assert "Traceback" not in ended.err


def test_a_worker_whose_store_cannot_be_opened_may_be_started_again(tasks: Path) -> None:
    url = "postgresql://oncue@127.0.0.1:1/jobs"
    (tasks / "away.py").write_text(f"from oncue import Scheduler\ncue = Scheduler('{url}')\n")
    ended = run("worker", "away:cue", cwd=tasks)
    assert (ended.code, ended.out) == (5, "")
    assert ended.err.startswith("Error: 127.0.0.1:1/jobs: ")


@pytest.mark.parametrize(
    "arguments",
    [("--store", "memory:", "worker", "tasks:cue"), ("worker", "tasks:cue", "--store", "memory:")],
)
def test_the_store_of_a_worker_is_its_schedulers(tasks: Path, arguments: tuple[str, ...]) -> None:
    ended = run(*arguments, cwd=tasks)
    assert ended.code == 2
    assert ended.err.splitlines()[-1] == (
        "Error: --store does not apply here: the module's Scheduler names its own store. Write "
        "the URL there: Scheduler('URL')."
    )


WARNING = (
    "Warning: tasks:cue works on sqlite:///oncue.db, the store that its module names, and not on"
)


def test_a_worker_warns_if_the_variable_names_another_store(tasks: Path) -> None:
    url = "postgresql://oncue:geheim@db.example/jobs"
    ended = run("worker", "tasks:cue", "--until-empty", cwd=tasks, env={"ONCUE_STORE": url})
    assert ended.code == 0
    assert ended.err.splitlines()[0] == (
        f"{WARNING} postgresql://oncue:***@db.example/jobs, which ONCUE_STORE names. To use that "
        "one, write in the module: Scheduler(os.environ['ONCUE_STORE'])"
    )


def test_a_worker_warns_if_the_settings_file_names_another_store(tasks: Path) -> None:
    (tasks / "oncue.toml").write_text("store = 'sqlite:///other.db'\n")
    ended = run("worker", "tasks:cue", "--until-empty", cwd=tasks)
    assert ended.err.splitlines()[0] == (
        f"{WARNING} sqlite:///other.db, which oncue.toml names. To use that one, write in the "
        "module: Scheduler('URL')"
    )
    assert not (tasks / "other.db").exists()


def test_a_worker_does_not_warn_of_the_same_store(tasks: Path) -> None:
    env = {"ONCUE_STORE": f"sqlite:///{tasks}/oncue.db"}
    ended = run("worker", "tasks:cue", "--until-empty", cwd=tasks, env=env)
    assert ended.err.startswith("oncue worker ")


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("postgresql://a:pw@h/jobs", "postgres://b@h:5432/jobs?migrate=no&pool_size=3", True),
        ("postgresql://h/jobs", "postgresql://h/jobs?schema=other", False),
        ("postgresql://h/jobs", "postgresql://g/jobs", False),
        ("dynamodb://jobs?region=eu-west-1", "dynamodb://jobs?region=eu-west-2", False),
        ("memory:", "memory:", True),
        ("nonsense", "postgresql://h/jobs?nonsense=1", False),
    ],
)
def test_urls_name_the_same_store_however_they_are_written(
    one: str, other: str, same: bool
) -> None:
    assert are_same(one, other) is same


@pytest.mark.parametrize(
    ("url", "options"), [("sqlite:///oncue.db", ""), ("sqlite:///its own.db", "--store ")]
)
def test_the_log_of_a_failure_names_a_command_that_shows_its_text(
    tmp_path: Path, url: str, options: str
) -> None:
    (tmp_path / "tasks.py").write_text(FAILING.format(url=url))
    ended = run("worker", "tasks:cue", "--until-empty", cwd=tmp_path)
    [command] = re.findall("raised ValueError; its text: (oncue .*)", ended.err)
    assert command.startswith(f"oncue {options}")
    assert "what it says" in shell(command, cwd=tmp_path).out
    assert "what it says" not in ended.err


def test_the_number_of_handlers_may_come_from_the_settings(tasks: Path) -> None:
    (tasks / "oncue.toml").write_text("concurrency = 3\n")
    assert run("worker", "tasks:cue", "--until-empty", cwd=tasks).code == 0
    ended = run("worker", "tasks:cue", cwd=tasks, env={"ONCUE_CONCURRENCY": "none"})
    assert (ended.code, "not a whole number" in ended.err) == (2, True)
