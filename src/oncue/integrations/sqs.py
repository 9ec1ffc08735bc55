"""SQS with delays of days: a client of boto3 that keeps messages until they are nearly due.

    sqs = patient(boto3.client("sqs"), Scheduler("sqlite:///jobs.db"), queues=["mail"])
    sqs.send_message(QueueUrl=url, MessageBody="hello", DelaySeconds=7 * 86_400)

Up to 900 seconds SQS delays a message itself. A longer delay, or `DeliverAt`, makes it a job, which
is sent as the same message later: by the poller of a process that has such a client, or by
`oncue serve`.
"""

from __future__ import annotations

import atexit
import os
import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
from botocore.exceptions import ClientError, ParamValidationError
from botocore.validate import ParamValidator

from oncue.boto import code_of
from oncue.core.errors import Conflict, InvalidInput, NotFound, TooLarge
from oncue.core.moment import from_datetime
from oncue.engine.node import Node
from oncue.engine.poller import Poller
from oncue.forking import now_and_after_fork
from oncue.integrations import sqs_message_checks as checks
from oncue.integrations.sqs_message_checks import Message, SqsLimits, SqsRefusal
from oncue.ports.sink import Sink
from oncue.scheduler import Scheduler
from oncue.sinks.sqs import SqsSink
from oncue.sinks.sqs_address import SqsAddress, is_queue_url
from oncue.sinks.sqs_captured import FORM, PREFIX, SqsMessage
from oncue.sinks.sqs_message import LONGEST_DELAY_SECONDS

if TYPE_CHECKING:
    from oncue.client import Client

POLL_SECONDS = 30.0
VARIABLE = "ONCUE_POLL_SECONDS"
STOP_SECONDS = 30.0
OWN_PARAMETERS = ("DeliverAt", "Key")
"""What is said to oncue, and not to SQS."""


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
        self._client = client
        self._scheduler = scheduler
        self._names = None if queues is None else _opted_in(queues)
        self._poll_seconds = poll_interval(poll_seconds)
        self._operations = client.meta.service_model.operation_model
        now_and_after_fork(self, PatientSqs._renew)
        self.start()
        atexit.register(self.stop)

    def _renew(self) -> None:
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
        name = None if args else self._captured_by(message.get("QueueUrl"), [message])
        if name is None:
            return self._client.send_message(*args, **message)
        self._validate("SendMessage", _plain(message))
        known = self._prepared(message["QueueUrl"], name)
        [answer] = self._capture([message], known)
        if isinstance(answer, SqsRefusal):
            raise self._error("SendMessage", answer)
        return {**answer, "ResponseMetadata": _metadata(answer["MessageId"])}

    def send_message_batch(self, *args: Any, **call: Any) -> Any:
        """As the method of the client, with entries as `send_message` takes them. If the call to
        SQS for the others fails, nothing stays captured."""
        entries = call.get("Entries")
        name = None
        if not args and isinstance(entries, list | tuple):
            name = self._captured_by(call.get("QueueUrl"), entries)
        if name is None or entries is None:
            return self._client.send_message_batch(*args, **call)
        plain = {**call, "Entries": [_plain(entry) for entry in entries]}
        self._validate("SendMessageBatch", plain)
        if (refused := checks.batch_refusal(list(entries))) is not None:
            raise self._error("SendMessageBatch", refused)
        known = self._prepared(call["QueueUrl"], name)
        late = {at: entry for at, entry in enumerate(entries) if _is_late(entry)}
        answers = dict(zip(late, self._capture(list(late.values()), known), strict=True))
        native = [entry for at, entry in enumerate(entries) if at not in late]
        sent = self._sent(call["QueueUrl"], native, answers) if native else {}
        return _merged(entries, answers, sent)

    def cancel(self, message_id: str) -> bool:
        """Do not send a captured message. False: it was sent or cancelled before, or there is none
        with this id."""
        try:
            self._scheduler.cancel(message_id)
        except (Conflict, NotFound):
            return False
        return True

    def _sent(
        self, url: str, native: Sequence[Message], captured: Mapping[int, Any]
    ) -> Mapping[str, Any]:
        try:
            answer: Mapping[str, Any] = self._client.send_message_batch(
                QueueUrl=url, Entries=list(native)
            )
        except BaseException:
            for one in captured.values():
                if not isinstance(one, SqsRefusal):
                    self.cancel(one["MessageId"])
            raise
        return answer

    def _captured_by(self, url: object, messages: Sequence[Any]) -> str | None:
        """The oncue queue of a call with messages that have to wait; None: SQS takes it as it is,
        or says what is wrong with it."""
        if not isinstance(url, str) or not any(map(_is_late, messages)):
            return None
        name = url.rstrip("/").rpartition("/")[2]
        return name if self._names is None else self._names.get(url) or self._names.get(name)

    def _capture(
        self, messages: Sequence[Message], known: _KnownQueue
    ) -> list[dict[str, str] | SqsRefusal]:
        """Store messages as jobs. Of each, what SQS answers to it."""
        refused = {
            at: why
            for at, one in enumerate(messages)
            if (why := checks.refusal(one, known.limits)) is not None
        }
        good = {at: one for at, one in enumerate(messages) if at not in refused}
        jobs, cue = {}, self._scheduler
        for at, one in good.items():
            try:
                jobs[at] = cue.ready(self._as_job(one, known.name))
            except TooLarge:
                refused[at] = checks.too_large(len(msgspec.json.encode(_message(one))))
        stored = cue.store_jobs(list(jobs.values())) if jobs else None  # type: ignore[arg-type]
        for problem in stored.refused.values() if stored else ():
            raise problem
        ids = dict(zip(jobs, stored.ids if stored else (), strict=True))
        self._expect(good.values())
        answers = {at: {"MessageId": str(ids[at]), **checks.digests(good[at])} for at in ids}
        return [refused[at] if at in refused else answers[at] for at in range(len(messages))]

    def _as_job(self, message: Message, queue: str) -> dict[str, Any]:
        due = {"due_at": message["DeliverAt"]} if "DeliverAt" in message else {}
        delay = {} if due else {"delay": message["DelaySeconds"]}
        payload = msgspec.to_builtins(_message(message))
        return {"queue": queue, "payload": payload, "key": message.get("Key"), **due, **delay}

    def _expect(self, messages: Iterable[Message]) -> None:
        """Have them sent in time, also if that is before the next look."""
        self.start()
        if self.poller is None:
            return
        now = self._scheduler.clock.now()
        for one in messages:
            at = one.get("DeliverAt")
            self.poller.expect(
                now + 1000 * one["DelaySeconds"] if at is None else from_datetime(at)
            )

    # What is checked before.

    def _validate(self, operation: str, parameters: Mapping[str, Any]) -> None:
        """Raise what the client raises for parameters of a wrong kind."""
        shape = self._operations(operation).input_shape
        report = ParamValidator().validate(parameters, shape)
        if report.has_errors():
            raise ParamValidationError(report=report.generate_report())

    def _error(self, operation: str, refused: SqsRefusal) -> ClientError:
        short = refused.code.rpartition(".")[2]
        told = {"Code": refused.code, "Message": refused.text, "Type": "Sender"}
        told["QueryErrorCode"] = short
        answer = {"Error": told, "ResponseMetadata": _metadata("", 400)}
        error: ClientError = self._client.exceptions.from_code(short)(answer, operation)
        return error

    def _prepared(self, url: str, name: str) -> _KnownQueue:
        """The queue, known to SQS and to the store."""
        with self._lock:
            known = self._known.get(url)
        if known is None:
            known = _KnownQueue(name, self._asked(url))
            self._give_sink(name, self._sink_url(url))
            with self._lock:
                self._known[url] = known
        return known

    def _asked(self, url: str) -> SqsLimits:
        """What SQS says of a queue. It need not be allowed to ask; but there must be one."""
        is_fifo = url.endswith(".fifo")
        try:
            answer = self._client.get_queue_attributes(QueueUrl=url, AttributeNames=["All"])
        except ClientError as problem:
            if "AccessDenied" in code_of(problem):
                return SqsLimits(is_fifo=is_fifo, deduplicates=is_fifo)
            raise
        told = answer.get("Attributes", {})
        largest = int(told.get("MaximumMessageSize", SqsLimits().largest))
        return SqsLimits(largest, is_fifo, told.get("ContentBasedDeduplication") == "true")

    def _sink_url(self, url: str) -> str:
        if is_queue_url(url):
            return PREFIX + url
        meta, name = self._client.meta, url.rpartition("/")[2]
        return f"{PREFIX}sqs://{name}?region={meta.region_name}&endpoint={meta.endpoint_url}"

    def _give_sink(self, name: str, sink: str) -> None:
        queue = self._scheduler.queue(name)
        if _sent_to(queue.sink or "") == _sent_to(sink):  # by its name or by its URL
            return
        if queue.sink is not None:
            raise InvalidInput(
                f"queue {name} of oncue has the sink {queue.sink}, so captured messages cannot be "
                "kept in it. Give them another queue: queues={'" + name + "': 'another-name'}.",
                "/queues",
            )
        settings = {k: v for k, v in asdict(queue).items() if k not in ("name", "paused")}
        self._scheduler.set_queue(name, **{**settings, "sink": sink})

    # What the poller asks.

    def _polled(self) -> set[str]:
        sinks = {queue.name: queue.sink or "" for queue in self._scheduler.queues()}
        found = {name for name, sink in sinks.items() if sink.startswith(PREFIX)}
        return found if self._names is None else found & set(self._names.values())

    def _open_sink(self, url: str) -> Sink:
        address = SqsAddress.read(url.removeprefix(PREFIX))
        connections = self._client.meta.config.max_pool_connections
        return SqsSink(address, self._scheduler.clock, self._client, FORM, connections)


class _KnownQueue(NamedTuple):
    name: str
    """Of the oncue queue."""
    limits: SqsLimits


def poll_interval(seconds: float | None) -> float:
    """How often to look; 0: never. None: as the environment says."""
    if seconds is None:
        text = os.environ.get(VARIABLE, str(POLL_SECONDS))
        try:
            seconds = float(text)
        except ValueError:
            raise InvalidInput(f"{text!r} is not a number of seconds.", VARIABLE) from None
    if not 0 <= seconds <= LONGEST_DELAY_SECONDS:
        raise InvalidInput(f"must be between 0 and {LONGEST_DELAY_SECONDS}.", "/poll_seconds")
    return seconds


def _sent_to(sink: str) -> str | None:
    """The SQS queue to which a sink sends captured messages; None: it does not."""
    return SqsAddress.read(sink.removeprefix(PREFIX)).queue if sink.startswith(PREFIX) else None


def _opted_in(queues: Iterable[str] | Mapping[str, str]) -> dict[str, str]:
    """By the name or URL of an SQS queue: the oncue queue of its messages."""
    if isinstance(queues, str):
        raise InvalidInput("must be a list of queues.", "/queues")
    if isinstance(queues, Mapping):
        return dict(queues)
    return {one: one.rstrip("/").rpartition("/")[2] for one in queues}


def _is_late(message: Any) -> bool:
    """Whether a message has to wait longer than SQS can delay it, or says when it is due."""
    if not isinstance(message, Mapping):
        return False
    delay = message.get("DelaySeconds")
    return "DeliverAt" in message or (isinstance(delay, int) and delay > LONGEST_DELAY_SECONDS)


def _plain(message: Any) -> Any:
    """A message without what SQS does not know."""
    if not isinstance(message, Mapping):
        return message
    at = message.get("DeliverAt", timedelta())
    if "DeliverAt" in message and not (isinstance(at, datetime) and at.utcoffset() is not None):
        raise ParamValidationError(report="DeliverAt must be a datetime with a time zone.")
    if "DeliverAt" in message and "DelaySeconds" in message:
        raise ParamValidationError(report="Give either DeliverAt or DelaySeconds, not both.")
    return {name: value for name, value in message.items() if name not in OWN_PARAMETERS}


def _message(message: Message) -> SqsMessage:
    """What is kept of it."""
    fields = {name: message[name] for name in SqsMessage.__struct_fields__ if message.get(name)}
    return msgspec.convert(fields, SqsMessage, builtin_types=(bytes,))


def _merged(
    entries: Sequence[Message],
    captured: Mapping[int, dict[str, str] | SqsRefusal],
    sent: Mapping[str, Any],
) -> dict[str, Any]:
    """One answer for all entries, by the `Id`s of the caller, in their order."""
    taken = {one["Id"]: one for one in sent.get("Successful", ())}
    failed = {one["Id"]: one for one in sent.get("Failed", ())}
    for at, answer in captured.items():
        entry_id = entries[at]["Id"]
        if isinstance(answer, SqsRefusal):
            told = {"SenderFault": True, "Code": answer.code, "Message": answer.text}
            failed[entry_id] = {"Id": entry_id, **told}
        else:
            taken[entry_id] = {"Id": entry_id, **answer}
    order = [entry["Id"] for entry in entries]
    parts = {"Successful": taken, "Failed": failed}
    listed = {name: [part[one] for one in order if one in part] for name, part in parts.items()}
    metadata = sent.get("ResponseMetadata") or _metadata("")
    return {**{name: part for name, part in listed.items() if part}, "ResponseMetadata": metadata}


def _metadata(request_id: str, status: int = 200) -> dict[str, Any]:
    return {
        "RequestId": request_id,
        "HTTPStatusCode": status,
        "HTTPHeaders": {},
        "RetryAttempts": 0,
    }
