"""`oncue.aws.forward_started`: the function on the stream of the table.

For queues whose sink is `stream:URL`: the dispatcher marks a job as started, and this function
gives it to the sink of the URL. A job that the sink does not take is due again after a while, and
does not hold up the others. Lambda invokes the function again with the same records if it fails or
is stopped; a message that comes twice has the same id and attempt.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any

from oncue.aws import metrics, sandbox
from oncue.aws.sandbox import Context, Event
from oncue.core.errors import InvalidInput, OncueError, SinkDown
from oncue.engine.batch import Untaken, checked, not_taken, part_taken
from oncue.ports.sink import Refusal
from oncue.scheduler import Scheduler
from oncue.sinks.stream import PREFIX
from oncue.stores.dynamodb.store import DynamoStore
from oncue.stores.dynamodb.stream import StartedJob, started_jobs

logger = logging.getLogger("oncue.aws")
SOURCE = "aws:dynamodb"
CHANGED = Refusal("its queue is not delivered by the stream any more", permanent=False)


def forward_started(event: Event, context: Context) -> Mapping[str, Any]:
    """Handle records of the stream of the table."""
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
        queue = job.delivery.queue
        if job.starter.startswith(PREFIX) or _is_streamed(cue, queue):
            by_queue.setdefault(queue, []).append(job)
    answers = {queue: _forward(cue, queue, jobs, context) for queue, jobs in by_queue.items()}
    return {"queues": answers}


def _is_streamed(cue: Scheduler, queue: str) -> bool:
    return (cue.policies(queue).sink or "").startswith(PREFIX)


def _forward(
    cue: Scheduler, queue: str, jobs: Sequence[StartedJob], context: Context
) -> dict[str, int]:
    """Give jobs of a queue to its sink. What it does not take is given back to the store, and so is
    everything if the queue has another sink now. How many jobs met which end."""
    untaken: Mapping[int, Refusal] = dict.fromkeys(range(len(jobs)), CHANGED)
    if _is_streamed(cue, queue):
        untaken = _delivered(queue, cue.policies(queue).sink or "", jobs)
    now = cue.clock.now()
    if untaken:
        refused = [(jobs[at], refusal) for at, refusal in untaken.items()]
        ends = [not_taken(job.delivery.id, job.epoch, why) for job, why in refused]
        cue.store.settle(ends, now)
    for_good = sum(refusal.permanent for refusal in untaken.values())
    counted = {
        "forwarded": len(jobs) - len(untaken),
        "set_aside": for_good,
        "not_delivered": len(untaken) - for_good,
    }
    metrics.emit({"function": context.function_name, "queue": queue}, counted, now)
    return counted


def _delivered(queue: str, sink: str, jobs: Sequence[StartedJob]) -> Mapping[int, Refusal]:
    """What the sink of a queue did not take. Trouble with it does not hold up other queues."""
    batch = [job.delivery for job in jobs]
    text = ""
    try:
        opened = sandbox.open_sink(sink.removeprefix(PREFIX))
        untaken: Untaken = checked(opened.deliver(queue, batch), len(batch))
    except Exception as error:
        # Foreign messages may quote payloads, so only the kind is logged.
        text = str(error) if isinstance(error, OncueError) else type(error).__name__
        logger.error("queue %s: %s", queue, text, extra={"queue": queue})
        untaken = part_taken(error, len(batch)) if isinstance(error, SinkDown) else None
    if untaken is None:
        untaken = dict.fromkeys(range(len(batch)))
    down = Refusal(text, permanent=False)
    return {at: refusal or down for at, refusal in untaken.items()}
