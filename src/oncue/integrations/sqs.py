"""SQS with delays of days: a client of boto3 that keeps messages until they are nearly due.

    sqs = patient(boto3.client("sqs"), Scheduler("sqlite:///jobs.db"), queues=["mail"])
    sqs.send_message(QueueUrl=url, MessageBody="hello", DelaySeconds=7 * 86_400)

Up to 900 seconds SQS delays a message itself. A longer delay, or `DeliverAt`, makes it a job, which
is sent as the same message later: by the poller of a process that has such a client, or by
`oncue serve`.
"""

from __future__ import annotations

import atexit
import logging
import os
import threading
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

try:
    from botocore.exceptions import ClientError, ParamValidationError
    from botocore.validate import ParamValidator
except ModuleNotFoundError as missing:
    text = "oncue.integrations.sqs needs boto3: pip install 'oncue[aws]'"
    raise ModuleNotFoundError(text, name=missing.name) from None

from oncue.boto import code_of
from oncue.core.errors import Conflict, InvalidInput, NotFound, OncueError, TooLarge
from oncue.core.job import NewJob
from oncue.engine.node import Node
from oncue.engine.poller import Poller
from oncue.forking import now_and_after_fork
from oncue.integrations import sqs_message_checks as checks
from oncue.integrations import sqs_queues
from oncue.integrations.polling import STOP_SECONDS, poll_interval
from oncue.integrations.sqs_answers import merged, metadata
from oncue.integrations.sqs_message_checks import Message, SqsLimits, SqsRefusal
from oncue.ports.sink import Sink
from oncue.scheduler import Scheduler
from oncue.sinks.elsewhere import ElsewhereSink
from oncue.sinks.sqs import SqsSink
from oncue.sinks.sqs_address import SqsAddress
from oncue.sinks.sqs_captured import FORM, SqsMessage, address_of
from oncue.sinks.sqs_message import LONGEST_DELAY_SECONDS

if TYPE_CHECKING:
    from oncue.client import Client
    from oncue.client.jobs import SentJob

OWN_PARAMETERS = ("DeliverAt", "Key")
"""What is said to oncue, and not to SQS."""

logger = logging.getLogger("oncue.sqs")


def patient(
    client: Any,
    scheduler: Scheduler | Client,
    *,
    queues: Iterable[str] | Mapping[str, str] | None = None,
    poll_seconds: float | None = None,
) -> PatientSqs:
    """A client of SQS that takes any delay. Everything else is as with `client`.

    `queues`: the names or URLs of the SQS queues that may have such delays, by default all; a
    mapping also says the oncue queue of each, by default of the same name. `poll_seconds`: how
    often this process looks for messages to send; 0: never, another process does. By default as
    the variable ONCUE_POLL_SECONDS says, or 30.
    """
    return PatientSqs(client, scheduler, queues, poll_seconds)


class PatientSqs:
    """See `patient`. All that is not here is the method of the client."""

    def __init__(
        self,
        client: Any,
        scheduler: Scheduler | Client,
        queues: Iterable[str] | Mapping[str, str] | None,
        poll_seconds: float | None,
    ) -> None:
        _check_arguments(client, scheduler)
        self._client = client
        self._scheduler = scheduler
        self._names = None if queues is None else sqs_queues.opted_in(queues)
        self._poll_seconds = poll_interval(poll_seconds)
        self._operations = client.meta.service_model.operation_model
        self._process = os.getpid()
        now_and_after_fork(self, PatientSqs._renew)
        self.start()
        atexit.register(self.stop)

    def _renew(self) -> None:
        if self._process != os.getpid():  # a child must not share the connections of the poller
            self._process = os.getpid()
            with suppress(Exception):
                self._client.close()
        self._lock = threading.Lock()
        self._known: dict[str, _KnownQueue] = {}
        self.poller: Poller | None = None
        cue = self._scheduler
        if self._poll_seconds and isinstance(cue, Scheduler):
            node = Node.of(cue.store, cue.clock)
            self.poller = Poller(node, self._open_sink, self._polled, self._poll_seconds)

    def start(self) -> None:
        """Start to look for messages to send, if this process does that. It is called by every
        capture: a forked child has no threads."""
        if self.poller is not None:
            self.poller.start()

    def stop(self) -> None:
        """Finish what is being sent, and send no more."""
        atexit.unregister(self.stop)
        if self.poller is not None:
            self.poller.stop(STOP_SECONDS)

    def close(self) -> None:
        """As the method of the client; also stops the poller."""
        self.stop()
        self._client.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    # What is sent.

    def send_message(self, *args: Any, **message: Any) -> Any:
        """As the method of the client. A message that waits longer than SQS can delay it is
        answered with the id of its job as `MessageId`. `DeliverAt`: a datetime, in place of
        `DelaySeconds`. `Key`: at most one message that waits has it."""
        name = None if args else self._waiting_queue(message.get("QueueUrl"), [message])
        if name is None:
            return self._client.send_message(*args, **message)
        self._validate("SendMessage", _plain(message))
        known = self._prepared(message["QueueUrl"], name)
        [answer] = self._capture([message], known).answers
        if isinstance(answer, SqsRefusal):
            raise self._error("SendMessage", answer)
        return {**answer, "ResponseMetadata": metadata(answer["MessageId"])}

    def send_message_batch(self, *args: Any, **call: Any) -> Any:
        """As the method of the client, with entries as `send_message` takes them. If the call to
        SQS for the others fails, nothing stays captured."""
        entries = call.get("Entries")
        name = None
        if not args and isinstance(entries, list | tuple):
            name = self._waiting_queue(call.get("QueueUrl"), entries)
        if name is None or entries is None:
            return self._client.send_message_batch(*args, **call)
        plain = {**call, "Entries": [_plain(entry) for entry in entries]}
        self._validate("SendMessageBatch", plain)
        if (refused := checks.batch_refusal(list(entries))) is not None:
            raise self._error("SendMessageBatch", refused)
        known = self._prepared(call["QueueUrl"], name)
        late = {entry["Id"]: entry for entry in entries if _is_late(entry)}
        captured = self._capture(list(late.values()), known)
        native = [entry for entry in entries if entry["Id"] not in late]
        sent = self._send_native(call["QueueUrl"], native, captured.new) if native else {}
        order = [entry["Id"] for entry in entries]
        return merged(order, dict(zip(late, captured.answers, strict=True)), sent)

    def cancel(self, message_id: str) -> bool:
        """Do not send a captured message. False: it was sent or cancelled before, or there is none
        with this id."""
        try:
            self._scheduler.cancel(message_id)
        except (Conflict, NotFound):
            return False
        return True

    def _send_native(self, url: str, native: Sequence[Message], new: Iterable[str]) -> Any:
        """`new`: the jobs that the same call has made."""
        try:
            return self._client.send_message_batch(QueueUrl=url, Entries=list(native))
        except BaseException:
            self._take_back(new)
            raise

    def _take_back(self, new: Iterable[str]) -> None:
        """Cancel what a call has captured, since it fails."""
        for job_id in new:
            try:
                self.cancel(job_id)
            except OncueError as problem:  # the caller is told why the call failed
                text = "message %s of a batch that failed stays captured: %s"
                logger.error(text, job_id, problem, extra={"job_id": job_id})

    def _waiting_queue(self, url: object, messages: Sequence[Any]) -> str | None:
        """The oncue queue in which messages of a call have to wait. None: SQS gets the call as it
        is, and says what is wrong with it."""
        if not isinstance(url, str):
            return None
        name, names = sqs_queues.name_of(url), self._names
        found = name if names is None else names.get(url.rstrip("/")) or names.get(name)
        if found is None:
            return None
        for one in messages:
            _check_key(one)
        return found if any(map(_is_late, messages)) else None

    def _capture(self, messages: Sequence[Message], known: _KnownQueue) -> _Captured:
        """Store messages as jobs."""
        answers: dict[int, dict[str, str] | SqsRefusal] = {}
        jobs: dict[int, Any] = {}
        for at, one in enumerate(messages):
            if (refused := checks.refusal(one, known.limits)) is not None:
                answers[at] = refused
                continue
            try:
                jobs[at] = self._scheduler.ready(_as_job(one, known.name))
            except TooLarge:
                answers[at] = checks.too_large(len(msgspec.json.encode(_message(one))))
        ids, new = self._stored(jobs) if jobs else ({}, [])
        self._expect(jobs.values())
        for at, job_id in ids.items():
            answers[at] = {"MessageId": job_id, **checks.digests(messages[at])}
        return _Captured([answers[at] for at in range(len(messages))], new)

    def _stored(self, jobs: Mapping[int, Any]) -> tuple[dict[int, str], list[str]]:
        """The ids of these jobs, and which of them were not there before. All, or none and an
        error."""
        stored = self._scheduler.store_jobs(list(jobs.values()))
        pairs = zip(stored.ids, jobs.values(), strict=True)
        new = [str(one) for one, job in pairs if one is not None and one == _made_id(job)]
        for problem in stored.refused.values():
            self._take_back(new)
            raise problem
        return dict(zip(jobs, map(str, stored.ids), strict=True)), new

    def _expect(self, jobs: Iterable[NewJob]) -> None:
        """Have them sent in time, also if that is before the next look."""
        self.start()
        if self.poller is not None:
            for job in jobs:
                self.poller.expect(job.due_at)

    # What is checked before.

    def _validate(self, operation: str, parameters: Mapping[str, Any]) -> None:
        """Raise what the client raises for parameters of a wrong kind."""
        shape = self._operations(operation).input_shape
        report = ParamValidator().validate(parameters, shape)
        if report.has_errors():
            raise ParamValidationError(report=report.generate_report())

    def _error(self, operation: str, refused: SqsRefusal) -> ClientError:
        short = refused.code.rpartition(".")[2]
        reason = {"Code": refused.code, "Message": refused.text, "Type": "Sender"}
        reason["QueryErrorCode"] = short
        answer = {"Error": reason, "ResponseMetadata": metadata("", 400)}
        error: ClientError = self._client.exceptions.from_code(short)(answer, operation)
        return error

    def _prepared(self, url: str, name: str) -> _KnownQueue:
        """The queue, known to SQS and to the store."""
        url = url.rstrip("/")
        with self._lock:
            known = self._known.get(url)
        if known is None:
            known = _KnownQueue(name, self._limits_of(url))
            sqs_queues.give_sink(self._scheduler, name, url, self._client)
            with self._lock:
                self._known[url] = known
        return known

    def _limits_of(self, url: str) -> SqsLimits:
        """What a queue takes. It must exist; where nobody may ask for its settings, the usual."""
        is_fifo = url.endswith(".fifo")
        try:
            answer = self._client.get_queue_attributes(QueueUrl=url, AttributeNames=["All"])
        except ClientError as problem:
            if "AccessDenied" in code_of(problem):
                return SqsLimits(is_fifo=is_fifo, deduplicates=is_fifo)
            raise
        settings = answer.get("Attributes", {})
        largest = int(settings.get("MaximumMessageSize", SqsLimits().largest))
        return SqsLimits(largest, is_fifo, settings.get("ContentBasedDeduplication") == "true")

    # What the poller asks.

    def _polled(self) -> set[str]:
        queues = self._scheduler.queues()
        found = {one.name for one in queues if self._own_address(one.sink) is not None}
        return found if self._names is None else found & set(self._names.values())

    def _own_address(self, sink: str | None) -> SqsAddress | None:
        """The SQS queue of a sink, if the client can send to it: it is of one region."""
        address = address_of(sink)
        if address is None or address.region in (None, self._client.meta.region_name):
            return address
        return None

    def _open_sink(self, url: str) -> Sink:
        address = self._own_address(url)
        if address is None:
            return ElsewhereSink()
        connections = self._client.meta.config.max_pool_connections
        return SqsSink(address, self._scheduler.clock, self._client, FORM, connections)


class _Captured(NamedTuple):
    answers: list[dict[str, str] | SqsRefusal]
    """For each message, what SQS would answer."""
    new: list[str]
    """The ids of the jobs that this call has made: one with the same key may have waited before."""


class _KnownQueue(NamedTuple):
    name: str
    """Of the oncue queue."""
    limits: SqsLimits


def _as_job(message: Message, queue: str) -> dict[str, Any]:
    """The fields of its job."""
    due, delay = message.get("DeliverAt"), message.get("DelaySeconds")
    when = {"delay": delay} if due is None else {"due_at": due}
    payload = msgspec.to_builtins(_message(message))
    return {"queue": queue, "payload": payload, "key": message.get("Key"), **when}


def _made_id(job: NewJob | SentJob) -> str | None:
    """The id that a job has unless another one has its key."""
    return job.id if isinstance(job, NewJob) else job.made_id


def _is_late(message: Any) -> bool:
    """Whether a message has to wait longer than SQS can delay it, or says when it is due."""
    if not isinstance(message, Mapping):
        return False
    delay = message.get("DelaySeconds")
    return "DeliverAt" in message or (isinstance(delay, int) and delay > LONGEST_DELAY_SECONDS)


def _check_arguments(client: Any, scheduler: Any) -> None:
    model = getattr(getattr(client, "meta", None), "service_model", None)
    if getattr(model, "service_name", None) != "sqs":
        raise InvalidInput("must be a client of boto3 for SQS: boto3.client('sqs').", "/client")
    if not hasattr(scheduler, "store_jobs"):
        text = "must be a Scheduler or a Client of oncue: Scheduler('sqlite:///oncue.db')."
        raise InvalidInput(text, "/scheduler")


def _check_key(message: Any) -> None:
    """SQS knows no keys, so a message that goes to it at once can have none."""
    if isinstance(message, Mapping) and "Key" in message and not _is_late(message):
        report = (
            "Key is only for messages that wait in oncue: give DeliverAt, or a DelaySeconds of "
            f"more than {LONGEST_DELAY_SECONDS}."
        )
        raise ParamValidationError(report=report)


def _plain(message: Any) -> Any:
    """A message without what SQS does not know."""
    if not isinstance(message, Mapping):
        return message
    if "DeliverAt" in message:
        at = message["DeliverAt"]
        if not isinstance(at, datetime) or at.utcoffset() is None:
            raise ParamValidationError(report="DeliverAt must be a datetime with a time zone.")
        if "DelaySeconds" in message:
            raise ParamValidationError(report="Give either DeliverAt or DelaySeconds, not both.")
    return {name: value for name, value in message.items() if name not in OWN_PARAMETERS}


def _message(message: Message) -> SqsMessage:
    """What is kept of it."""
    fields = {name: message[name] for name in SqsMessage.__struct_fields__ if message.get(name)}
    for name in checks.ATTRIBUTES & fields.keys():
        fields[name] = {key: checks.as_sent(one) for key, one in fields[name].items()}
    return msgspec.convert(fields, SqsMessage, builtin_types=(bytes,))
