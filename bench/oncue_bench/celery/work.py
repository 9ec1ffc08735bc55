"""W14: Celery with tasks that wait, and its section in docs/benchmarks.md."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from oncue_bench import waiting
from oncue_bench.dynamodb.section import doubt, machine_of, replaced
from oncue_bench.processes import measure
from oncue_bench.rendering import markdown_table
from oncue_bench.report import HEADER, Report, Row, cells
from oncue_bench.rounds import Ground

STORE = "celery"
WORK = "W14"
TITLE = "## W14: Celery"


def rows(ground: Ground) -> Iterator[Row]:
    from tests.servers.brokers import redis_url  # only in a clone

    sizes, broker = ground.sizes, redis_url()
    ground.progress(f"{WORK} {sizes.celery_sent:,} tasks below the threshold")
    found = measure(
        "celery.tasks.native", broker=broker, count=sizes.celery_sent, rounds=2 * sizes.rounds
    ).figures
    yield waiting.native(WORK, "send_task after `install`, nothing captured", "Celery", found)
    count = sizes.celery_captured
    ground.progress(f"{WORK} {count:,} tasks captured")
    found = measure("celery.tasks.captured", broker=broker, count=count).figures
    yield from waiting.captured(WORK, "tasks", "one by one", "Redis", found)


def write(report: Report, page: Path) -> None:
    """Put the section into the page, in place of the former one."""
    section = "\n\n".join(
        (
            TITLE,
            _EXPLAINED.format(machine=machine_of(report)) + doubt(report),
            markdown_table(HEADER[1:], [cells(row)[1:] for row in report.rows]),
        )
    )
    page.write_text(replaced(page.read_text("utf-8"), section + "\n", TITLE), "utf-8")


_EXPLAINED = """`make bench STORE=celery`, in a run of its own, with Redis as the broker on the same
machine. {machine}.

- *Nothing captured*: tasks with a countdown of 5 seconds, through an application with `install` and
  one without; the two take turns, task by task.
- *Captured*: tasks with a countdown of a day, each durable in an SQLite file when the call returns,
  and what the process grows by while they wait. A day later one poll hands all of them over."""
