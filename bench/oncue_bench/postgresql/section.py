"""W15 in docs/benchmarks.md."""

from __future__ import annotations

from pathlib import Path

from oncue_bench.dynamodb.section import doubt, machine_of, replaced
from oncue_bench.postgresql import place
from oncue_bench.rendering import markdown_table
from oncue_bench.report import HEADER, Report, cells

TITLE = "## W15: PostgreSQL"


def write(report: Report, page: Path) -> None:
    """Put the section into the page, in place of the former one."""
    page.write_text(replaced(page.read_text("utf-8"), as_section(report), TITLE), "utf-8")


def as_section(report: Report) -> str:
    about = {"machine": machine_of(report), "server": place.told(report.settings["store"])}
    parts = (
        TITLE,
        _EXPLAINED.format(**about) + doubt(report),
        markdown_table(HEADER[1:], [cells(row)[1:] for row in report.rows]),
    )
    return "\n\n".join(parts) + "\n"


_EXPLAINED = """`make bench STORE=postgresql`, in a run of its own on {server}, on the same machine.
{machine}.

Raw is a bare loop over psycopg on the same tables with the same settings of the session. The server
shares the cores with whoever asks it, so only the ratio carries over to other machines.

- *By schedule_many*: raw copies the same rows, 5,000 to a COPY and a commit.
- *One by one*: raw runs the product's own INSERT; the two take short turns in one process.
- *Asynchronous callers*: raw inserts as many rows as there are callers and commits, again
  and again.
- *Due*: all at one instant. Raw is `DELETE … RETURNING` of 5,000 rows that it locks with SKIP
  LOCKED, without claim, lease or history.
- *Two nodes*: two processes begin at the same moment; until the last job is settled. On two cores
  that server and consumers share, a second raw consumer gains little, and so does a second node.
- *Lateness*: of jobs that another process schedules while many wait; the time of the clock at the
  receipt, less the due time. Raw hears the NOTIFY of the other process, waits for the next moment
  and removes what is due.
- *A transaction open*: claims of one job by a worker, after many jobs came and went whose rows and
  index entries nobody could remove, because an older transaction was open all the time.
- *Far and finished jobs*: claims of one job by a worker, beside many that it must not look at."""
