"""Celery with delays of days: tasks that have to wait are kept by oncue, and not by a worker.

    app = Celery("shop", broker="redis://localhost")
    install(app, Scheduler("sqlite:///jobs.db"))

    remind.apply_async(["ada"], countdown=7 * 86_400)

Up to the threshold, a task with an `eta` or a `countdown` goes the way that Celery sends it. Beyond
it, its message becomes a job, and the poller of a worker publishes the same message when it is due.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from numbers import Real
from typing import Any

try:
    from celery import Celery, bootsteps
    from celery.utils.imports import instantiate
    from celery.utils.time import maybe_iso8601, maybe_make_aware
    from kombu import Queue as BrokerQueue
    from kombu.utils.functional import maybe_list
except ModuleNotFoundError as missing:
    text = "oncue.integrations.celery needs Celery: pip install 'oncue[celery]'"
    raise ModuleNotFoundError(text, name=missing.name) from None

from oncue.core.checks import at_least
from oncue.core.errors import Conflict, IllegalState, InvalidInput, KeyTaken, NotFound
from oncue.core.job import Job
from oncue.core.lifecycle import State
from oncue.core.moment import from_datetime, to_datetime
from oncue.core.queue import Queue, check_queue_name
from oncue.engine.node import Node
from oncue.engine.poller import Poller
from oncue.forking import now_and_after_fork
from oncue.integrations.celery_capture import CapturingProducer, Due, TaskSender
from oncue.integrations.celery_revoked import mark_as_revoked
from oncue.integrations.celery_sink import CelerySink
from oncue.integrations.polling import POLL_SECONDS, STOP_SECONDS, poll_interval
from oncue.ports.sink import Sink
from oncue.scheduler import Scheduler
from oncue.sinks.celery_message import MESSAGES, CeleryMessage
from oncue.sinks.elsewhere import CELERY, ElsewhereSink
from oncue.usecases.intake import label
from oncue.usecases.queues import change_queue

THRESHOLD_SECONDS = 900.0

logger = logging.getLogger("oncue.celery")


def install(
    app: Celery,
    scheduler: Scheduler,
    *,
    threshold: float = THRESHOLD_SECONDS,
    poll_seconds: float | None = None,
    queue: str = "celery",
) -> PatientCelery:
    """Let tasks of `app` that have to wait longer than `threshold` seconds wait in `scheduler`.

    Every process that sends such tasks, and every worker, calls it. `poll_seconds`: how often a
    worker looks for what is due; 0: this one does not. By default as the variable
    ONCUE_POLL_SECONDS says, or 30. `queue`: the oncue queue in which they wait.
    """
    if not isinstance(app, Celery):
        raise InvalidInput("must be an application of Celery.", "/app")
    if not isinstance(scheduler, Scheduler):
        raise InvalidInput(
            "must be a Scheduler on a store that the workers reach, too: "
            "Scheduler('sqlite:///oncue.db').",
            "/scheduler",
        )
    at_least(threshold, 0.0, "/threshold")
    check_queue_name(queue)
    return PatientCelery(app, scheduler, threshold, poll_interval(poll_seconds), queue)


class PatientCelery:
    """What `install` has put into an application. Workers start and stop it by themselves; another
    program can hand tasks over between `start` and `stop`."""

    def __init__(
        self, app: Any, scheduler: Scheduler, threshold: float, poll_seconds: float, queue: str
    ) -> None:
        if isinstance(getattr(app.send_task, "__self__", None), PatientCelery):
            raise InvalidInput(
                "oncue is installed in this application already. Call install() once, in the "
                "module that makes the application."
            )
        self._app, self._scheduler, self._queue = app, scheduler, queue
        self._threshold, self._poll_seconds = threshold, poll_seconds
        now_and_after_fork(self, PatientCelery._renew)
        self._send_task, app.send_task = app.send_task, self.send_task
        self._control_class, app.control_cls = app.control_cls, self._control
        if "control" in vars(app):
            self._with_revoke(app.control)
        app.steps["worker"].add(_step(self))

    def _renew(self) -> None:
        """What has locks and threads."""
        self._lock = threading.Lock()
        self.poller = self._new_poller()

    def _new_poller(self) -> Poller:
        cue = self._scheduler
        node = Node.of(cue.store, cue.clock)
        return Poller(node, self._open_sink, self._polled, self._poll_seconds or POLL_SECONDS)

    def start(self) -> None:
        """Hand over what is due, in a thread of this process, from now on."""
        if self._poll_seconds:
            self.poller.start()

    def log_start(self) -> None:
        if self._poll_seconds:
            text = "oncue publishes the tasks of its queue %s that are due; it looks every %g s"
            logger.info(text, self._queue, self._poll_seconds, extra={"queue": self._queue})

    def stop(self) -> None:
        """Finish what is being handed over, and no more."""
        with self._lock:
            stopped, self.poller = self.poller, self._new_poller()
        stopped.stop(STOP_SECONDS)

    def _open_sink(self, url: str) -> Sink:
        """Other queues of the store are none of a worker's business."""
        return CelerySink(self._app) if url == CELERY else ElsewhereSink()

    def _polled(self) -> list[str]:
        self._prepare_queue()
        return [self._queue]

    # What is sent.

    def send_task(
        self,
        name: str,
        args: Any = None,
        kwargs: Any = None,
        countdown: Any = None,
        eta: Any = None,
        task_id: str | None = None,
        producer: Any = None,
        connection: Any = None,
        *more: Any,
        **options: Any,
    ) -> Any:
        """In the place of the application's own."""
        due = self._due(countdown, eta) if countdown or eta else None
        if due is None:
            when = (countdown, eta, task_id, producer, connection)
            return self._send_task(name, args, kwargs, *when, *more, **options)
        producer = producer or options.pop("publisher", None)
        if connection is not None:
            producer = self._app.amqp.Producer(connection, auto_declare=False)
        self._prepare_sender()
        with self._app.producer_or_acquire(producer) as acquired:
            capturing = CapturingProducer(acquired, due, self._knows, self._store)
            call = (name, args, kwargs, None, None, task_id, capturing, None)
            return self._send_task(*call, *more, **options)

    def _due(self, countdown: Any, eta: Any) -> Due | None:
        """When the task is to run, if that is beyond the threshold. What makes no sense is left to
        Celery."""
        now = self._scheduler.clock.now()
        if countdown:
            if not isinstance(countdown, Real) or countdown <= self._threshold:
                return None
            when = to_datetime(now) + timedelta(seconds=float(countdown))
            return Due(from_datetime(when), when.astimezone(self._app.timezone).isoformat())
        try:
            at = from_datetime(maybe_make_aware(maybe_iso8601(eta)))
        except (ValueError, TypeError, AttributeError):
            return None
        if at - now <= self._threshold * 1000:
            return None
        return Due(at, eta.isoformat() if isinstance(eta, datetime) else eta)

    def _prepare_sender(self) -> None:
        amqp = self._app.amqp
        with self._lock:
            if not isinstance(amqp.send_task_message, TaskSender):
                amqp.send_task_message = TaskSender(amqp.send_task_message)

    def _knows(self, entity: Any) -> bool:
        """Whether the configuration has this queue under its name."""
        return isinstance(entity, BrokerQueue) and self._app.amqp.queues.get(entity.name) == entity

    def _store(self, message: CeleryMessage, due: Due) -> None:
        """The job has the key of the task, so that it can be found, and is not there twice: a task
        that is retried has the same id. While the message before is being published, nothing else
        can have its key; the id is then the job's owner."""
        self._prepare_queue()
        task_id = message.properties["correlation_id"]
        when = to_datetime(due.at)
        schedule = self._scheduler.schedule
        try:
            schedule(message, queue=self._queue, due_at=when, key=task_id, if_exists="replace")
        except KeyTaken:
            schedule(message, queue=self._queue, due_at=when, owner=task_id)
        self.poller.expect(due.at)

    def _prepare_queue(self) -> None:
        """Make the queue, if it is not there as it has to be."""
        policies = self._scheduler.policies
        if policies(self._queue).sink != CELERY:
            change_queue(self._scheduler.store, self._queue, self._with_sink)
            policies.forget()

    def _with_sink(self, found: Queue) -> Queue:
        if found.sink not in (None, CELERY):
            other = "Give install() another queue."
            raise Conflict(f"queue {found.name} is handed over to {found.sink}. {other}")
        if found.sink is None and self._scheduler.store.next_due([found.name]) is not None:
            raise Conflict(
                f"queue {found.name} has jobs, and no sink. If they are tasks of Celery, its "
                f"settings were changed without the sink: 'oncue queues set {found.name} --sink "
                f"celery:', with its other settings. If not, give install() another queue."
            )
        return replace(found, sink=CELERY)

    # What is revoked.

    def _control(self, **arguments: Any) -> Any:
        """In the place of the class of `app.control`."""
        return self._with_revoke(instantiate(self._control_class, **arguments))

    def _with_revoke(self, control: Any) -> Any:
        revoke = control.revoke

        def revoke_captured(task_id: Any, *args: Any, **options: Any) -> Any:
            try:
                self.cancel(*(str(one) for one in maybe_list(task_id) or []))
            finally:  # the tasks may be with workers
                answer = revoke(task_id, *args, **options)
            return answer

        control.revoke = revoke_captured
        return control

    def cancel(self, *task_ids: str) -> bool:
        """Do not publish captured tasks; their results are REVOKED. False: none waits with such an
        id. A result backend that is down is told of none, but all are cancelled."""
        waiting = ((one, job) for one in task_ids for job in self._waiting(one))
        cancelled = [(one, job) for one, job in waiting if self._is_cancelled(job)]
        for one, job in cancelled:
            mark_as_revoked(self._app, one, MESSAGES.read(job.payload_json))
        return bool(cancelled)

    def _waiting(self, task_id: str) -> Iterator[Job]:
        jobs = self._scheduler.jobs
        try:
            if label(task_id, "/task_id") is None:  # that would be every job
                return
        except InvalidInput:  # none is captured with such an id
            return
        yield from jobs(queue=self._queue, state=State.SCHEDULED, key=task_id)
        yield from jobs(queue=self._queue, state=State.SCHEDULED, owner=task_id)

    def _is_cancelled(self, job: Job) -> bool:
        try:
            self._scheduler.cancel(job.id)
        except (IllegalState, NotFound):  # it is being published
            return False
        return True


def _step(patient: PatientCelery) -> type:
    """The part of a worker that starts and stops the poller, in its main process."""

    class HandOver(bootsteps.StartStopStep):  # type: ignore[misc]
        requires = ("celery.worker.components:Pool",)

        def start(self, worker: Any) -> None:
            patient.start()
            patient.log_start()

        def stop(self, worker: Any) -> None:
            patient.stop()

        terminate: Callable[[Any, Any], None] = stop

    return HandOver
