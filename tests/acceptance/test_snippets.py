"""Every block of code in the README and the guide does what stands behind it."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import dropwhile
from pathlib import Path
from textwrap import indent
from uuid import uuid4

import psycopg
import pytest

from oncue.cli.app import COMMANDS
from tests.cli.terminal import shell
from tests.servers import ministack_endpoint
from tests.servers.clients import CREDENTIALS, client
from tests.servers.postgres import postgres_url

from .documents import DOCUMENTS, ROOT, Block, blocks, read, run_python, without_measures

README = blocks("README.md", "python")
PRELUDE, *GUIDE = blocks("docs/python.md", "python")
RULES_PRELUDE, *RULES = blocks("docs/rules.md", "python")
SCHEDULES_PRELUDE, *SCHEDULES = blocks("docs/schedules.md", "python")
PROGRESS = blocks("docs/progress.md", "python")
SQS_DELAYS = blocks("docs/sqs-delays.md", "python")
CELERY = blocks("docs/celery.md", "python")
POSTGRESQL = blocks("docs/postgresql.md", "python")
POSTGRES = "postgresql://app@db.example.com/shop"
TARGETS = set(re.findall(r"^([\w-]+):", read("Makefile"), re.MULTILINE))


def place(block: Block) -> str:
    return block.place


def prints_what_it_says(block: Block, program: str, folder: Path) -> None:
    printed = run_python(folder, "-c", program)
    if block.output is not None:
        assert without_measures(printed) == without_measures(block.output)


@pytest.mark.parametrize("block", README, ids=place)
def test_a_snippet_of_the_readme_prints_what_it_says(
    block: Block, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if "boto3" in block.text:
        use_emulator(monkeypatch)
    prints_what_it_says(block, block.text, tmp_path)


@pytest.mark.parametrize("block", SQS_DELAYS, ids=place)
def test_a_snippet_about_delays_of_sqs_prints_what_it_says(
    block: Block, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_emulator(monkeypatch)
    prints_what_it_says(block, block.text, tmp_path)


def use_emulator(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have programs ask an emulator of SQS, which has the queues `mail` and `letters`."""
    endpoint = ministack_endpoint()
    for name in ("mail", "letters"):
        client("sqs", endpoint).create_queue(QueueName=name)
    for name, value in {**CREDENTIALS, "AWS_ENDPOINT_URL": endpoint}.items():
        monkeypatch.setenv(name, value)


@pytest.mark.parametrize("block", GUIDE, ids=place)
def test_a_snippet_of_the_guide_prints_what_it_says(block: Block, tmp_path: Path) -> None:
    if POSTGRES not in block.text:
        prints_what_it_says(block, PRELUDE.text + block.text, tmp_path)
        return
    with own_database() as url:
        prints_what_it_says(block, PRELUDE.text + block.text.replace(POSTGRES, url), tmp_path)


def test_the_snippets_about_postgresql_store_and_do_what_they_say(tmp_path: Path) -> None:
    """In the program around them, which has the names and tables that they speak of."""
    _, psycopg3, libraries, asyncio, handler = (block.text for block in POSTGRESQL)
    program = (Path(__file__).parent / "postgresql_shop.py").read_text("utf-8")
    program = program.replace("    # ASYNC\n", indent(asyncio, "    "))
    program = program.replace("# SYNC\n", psycopg3 + libraries + handler)
    with own_database() as url:
        assert run_python(tmp_path, "-c", program, url) == "4 orders, 4 jobs, balance 93\n"


def test_the_first_steps_with_postgresql_lead_to_a_worker(tmp_path: Path) -> None:
    tasks = POSTGRESQL[0].text
    use = 'from tasks import cue; cue.schedule({"to": "ada"}, queue="mail"); cue.close()'
    with own_database() as url:
        tasks = tasks.replace("postgresql://oncue@db.example.com/jobs", url)
        (tmp_path / "tasks.py").write_text(tasks, "utf-8")
        run_python(tmp_path, "-c", use)
        printed = run_python(tmp_path, "-m", "oncue.cli", "worker", "tasks:cue", "--until-empty")
    assert printed == "mail to ada\n"


@contextmanager
def own_database() -> Iterator[str]:
    """A new database of PostgreSQL."""
    name = f"snippet_{uuid4().hex}"
    with psycopg.connect(postgres_url(), autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}".encode())
        try:
            yield f"{postgres_url().rpartition('/')[0]}/{name}"
        finally:
            connection.execute(f"DROP DATABASE {name} (FORCE)".encode())


@pytest.mark.parametrize("block", RULES, ids=place)
def test_a_snippet_about_rules_prints_what_it_says(block: Block, tmp_path: Path) -> None:
    prints_what_it_says(block, RULES_PRELUDE.text + block.text, tmp_path)


def test_the_commands_about_rules_draw_the_picture_below_them(tmp_path: Path) -> None:
    [rules], [events] = (blocks("docs/rules.md", kind) for kind in ("json", "jsonl"))
    (tmp_path / "rules.json").write_text(rules.text, "utf-8")
    (tmp_path / "events.ndjson").write_text(events.text, "utf-8")
    commands, *_ = blocks("docs/rules.md", "sh")
    for command in commands.text.splitlines():
        ended = shell(command, cwd=tmp_path, env={"TZ": "America/New_York"})
        assert ended.code == 0, ended.err
    [picture] = [one for one in blocks("docs/rules.md", "") if "█ valid" in one.text]
    assert ended.out == picture.text


@pytest.mark.parametrize("block", SCHEDULES, ids=place)
def test_a_snippet_about_schedules_prints_what_it_says(block: Block, tmp_path: Path) -> None:
    prints_what_it_says(block, SCHEDULES_PRELUDE.text + block.text, tmp_path)


@pytest.mark.parametrize("block", PROGRESS, ids=place)
def test_a_snippet_about_progress_prints_what_it_says(block: Block, tmp_path: Path) -> None:
    prints_what_it_says(block, block.text, tmp_path)


@pytest.mark.parametrize("block", CELERY, ids=place)
def test_a_snippet_about_celery_prints_what_it_says(block: Block, tmp_path: Path) -> None:
    prints_what_it_says(block, block.text, tmp_path)


def test_celery_is_adopted_by_at_most_five_lines() -> None:
    before, after = (block.text.splitlines() for block in CELERY[:2])
    defined = after[: after.index("@app.task")]
    assert len([line for line in defined if line and line not in before]) <= 5


def test_the_six_lines_are_six() -> None:
    assert len([line for line in README[0].text.splitlines() if line]) == 6


@pytest.mark.parametrize("document", [path.relative_to(ROOT).as_posix() for path in DOCUMENTS])
def test_a_command_in_the_documents_exists(document: str) -> None:
    for block in blocks(document, "sh"):
        for command in block.text.splitlines():
            assert exists(command), f"{block.place}: {command}"


def exists(command: str) -> bool:
    words = command.split("#")[0].split()
    match [*dropwhile(re.compile(r"[A-Z_]+=").match, words)]:
        case ["make", target, *_]:
            return target in TARGETS
        case [("python" | ".venv/bin/python"), "-m", module, *_]:
            return importlib.util.find_spec(module) is not None
        case [("python" | ".venv/bin/python"), program, *_]:
            return (ROOT / program).is_file()
        case ["oncue", command, *_]:
            return command in COMMANDS
        case [program, *_]:
            return program == "pip" or (ROOT / program).is_file()
    return False
