"""`oncue.aws.forward_started`: the function on the stream of the table.

For queues whose sink is `stream:URL`: the dispatcher marks a job as started, and this function
gives it to the sink of the URL. Lambda invokes it again with the same records if it fails or is
stopped; a message that comes twice has the same id and attempt.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any

from oncue.aws import metrics, sandbox
from oncue.aws.sandbox import Context, Event
from oncue.core.errors import InvalidInput, OncueError, SinkDown
from oncue.core.fencing import refused_by_sink
from oncue.engine.batch import Untaken, checked, part_taken
from oncue.scheduler import Scheduler
from oncue.sinks.stream import PREFIX
from oncue.stores.dynamodb.store import DynamoStore
from oncue.stores.dynamodb.stream import StartedJob, started_jobs

logger = logging.getLogger("oncue.aws")
SOURCE = "aws:dynamodb"


def forward_started(event: Event, context: Context) -> Mapping[str, Any]:
    """Handle records of the stream of the table. The answer names those that were not dealt with,
    so that Lambda repeats them (`ReportBatchItemFailures`)."""
    cue = sandbox.scheduler()
    store, records = cue.store, event.get("Records") if isinstance(event, Mapping) else None
    if not isinstance(records, list):
        raise InvalidInput("an event of a DynamoDB stream has a list of records.", "/Records")
    for at, record in enumerate(records):
        source = record.get("eventSource", SOURCE) if isinstance(record, Mapping) else None
        if source != SOURCE:
            said = f"must be {SOURCE}: what invokes the function is not a stream of DynamoDB."
            raise InvalidInput(said, f"/Records/{at}/eventSource")
    if not isinstance(store, DynamoStore):
        raise InvalidInput("only a DynamoDB table has a stream.", "/ONCUE_STORE")
    cue.policies.forget()  # their age is unknown: a sandbox stands still between invocations
    by_queue: dict[str, list[StartedJob]] = {}
    for job in started_jobs(store, records):
        by_queue.setdefault(job.delivery.queue, []).append(job)
    failed: list[str] = []
    for queue, jobs in by_queue.items():
        sink = cue.policies(queue).sink
        if sink is not None and sink.startswith(PREFIX):
            failed += _forward(cue, queue, sink.removeprefix(PREFIX), jobs, context.function_name)
    return {"batchItemFailures": [{"itemIdentifier": one} for one in failed]}


def _forward(
    cue: Scheduler, queue: str, sink: str, jobs: Sequence[StartedJob], function: str
) -> list[str]:
    """Give jobs to the sink of a URL. The numbers of the records that have to be repeated."""
    untaken = _delivered(queue, sink, jobs)
    if untaken is None:
        untaken = dict.fromkeys(range(len(jobs)))
    for_good = {at: one for at, one in untaken.items() if one is not None and one.permanent}
    now = cue.clock.now()
    refused = [(jobs[at], refusal.detail) for at, refusal in for_good.items()]
    if refused:
        ends = [refused_by_sink(job.delivery.id, job.epoch, why) for job, why in refused]
        cue.store.settle(ends, now)
    counted = {
        "forwarded": len(jobs) - len(untaken),
        "set_aside": len(for_good),
        "not_delivered": len(untaken) - len(for_good),
    }
    metrics.emit({"function": function, "queue": queue}, counted, now)
    return [jobs[at].sequence for at in untaken if at not in for_good]


def _delivered(queue: str, sink: str, jobs: Sequence[StartedJob]) -> Untaken:
    """Trouble with one queue does not keep those of others from being sent."""
    batch = [job.delivery for job in jobs]
    try:
        return checked(sandbox.open_sink(sink).deliver(queue, batch), len(batch))
    except Exception as error:
        # Foreign messages may quote payloads, so only the kind is logged.
        text = error if isinstance(error, OncueError) else type(error).__name__
        logger.error("queue %s: %s", queue, text, extra={"queue": queue})
        return part_taken(error, len(batch)) if isinstance(error, SinkDown) else None
