"""W13 in docs/benchmarks.md."""

from __future__ import annotations

from pathlib import Path

from oncue_bench.dynamodb import place as tables
from oncue_bench.dynamodb.section import doubt, machine_of, replaced
from oncue_bench.rendering import markdown_table
from oncue_bench.report import HEADER, Report, cells

TITLE = "## W13: SQS and Lambda"


def write(report: Report, page: Path) -> None:
    """Put the section into the page, in place of the former one."""
    page.write_text(replaced(page.read_text("utf-8"), as_section(report), TITLE), "utf-8")


def as_section(report: Report) -> str:
    about = {"machine": machine_of(report), "tables": tables.told(tables.LOCAL)}
    parts = (
        TITLE,
        _EXPLAINED.format(**about) + doubt(report),
        markdown_table(HEADER[1:], [cells(row)[1:] for row in report.rows]),
    )
    return "\n\n".join(parts) + "\n"


_EXPLAINED = """`make bench STORE=sqs`, in a run of its own: SQS is ministack, a server in
Python; DynamoDB is {tables}. {machine}.

**The emulators set the pace.** They share the cores with what is measured, and our own process
mostly waits for them: the table says how much of a core it used. So the seconds say little about
the service. What carries over is the ratio, the CPU that our own process uses for a job, the number
of requests, the memory, and that nothing is lost or doubled.

- *Messages*: the sink gets batches of 1,000 jobs, four at a time, as a dispatcher gives them. Raw
  is a plain loop in the same process that sends the very same `SendMessageBatch` calls, made
  before, from 64 threads with a client of the same settings. The two take turns. Nearly
  all of the CPU of both is boto3's.
- *An SQS that takes no time*: one tick of the engine, from a store in memory to a client that
  answers at once. It is our own code without boto3, most of it the store in memory, which is not
  made for speed. Memory is what the process grows by.
- *Tasks of one date*: `oncue.aws.start_scheduled_tasks`, with the queue `tasks` in 50 shards and in
  one. Each task is claimed with a record of its own, sent, and recorded as handed over. The
  original needed 46 s and 462 MB for 100,000 of them, on Lambda and DynamoDB themselves. The
  CPU of a task times 100,000 is the least that one core needs for as many here. A second invocation
  must send nothing.
- *Sent by one tick*: `oncue.aws.dispatch` with as many due jobs of which nothing is kept.
- *Lateness*: jobs that are due at random moments, stored more than a tick ahead; a tick every three
  seconds instead of every minute. It is the clock of a receiver that looks all the time, less the
  due time. `DelaySeconds` are whole seconds, rounded up, so half a second is the middle of what is
  possible. *Of the rounds* is the least and the most.
- *By `patient`*: `send_message` with a delay of 5 seconds, through the client of docs/sqs-delays.md
  and through the same client without it; the two take turns, message by message. (A look at the
  message alone takes 2 µs; what else differs is the noise of the machine.) Then messages that wait
  for a day, and what the process grows by while they do; a day later one poll hands over all of
  them.

100,000 tasks of one date in 50 shards, measured once (`SIZE=full` repeats it): 282 s at the pace of
the emulators, 76 s of CPU (0.76 ms a task), 191 requests to DynamoDB for 1,000, and the process
grew by 29 MiB. All were started, all were in the queue, a second invocation sent none."""
