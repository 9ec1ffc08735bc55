"""The engine: a dispatcher for every queue with a sink, recurrer, reclaimer and pruner."""

from __future__ import annotations

import logging
import os
import secrets
import socket
from collections.abc import Callable, Collection, Iterable, Sequence
from functools import partial
from typing import NamedTuple

from oncue.core.errors import is_ctrl_c
from oncue.core.event import Event
from oncue.core.moment import Moment
from oncue.core.nodes import Running
from oncue.core.publication import Published
from oncue.core.queue import BUILT_IN, Queue
from oncue.core.schedule import Schedule, occurrence_event
from oncue.core.stamp import render
from oncue.core.text import legible
from oncue.engine.alarm import LONGEST_REST_SECONDS
from oncue.engine.collector import Collector
from oncue.engine.dispatcher import Dispatcher
from oncue.engine.keeper import Keeper
from oncue.engine.loop import Loop
from oncue.engine.node import Node
from oncue.engine.pruner import Pruner
from oncue.engine.reclaimer import Reclaimer
from oncue.engine.recurrer import Recurrer
from oncue.engine.tick import Tick
from oncue.engine.tick_reclaimer import TickReclaimer
from oncue.engine.wall_clock import WallClock
from oncue.ports.inbox import Inbox
from oncue.ports.sink import Sink, traits_of

SUPERVISE_SECONDS = 2.0
TICKS_AHEAD = 2  # a tick looks so far ahead, so that the next one may be late or missing
BATCHES_AT_ONCE = 4  # of one queue, to a slow sink
MANY_ROUTES = 100  # with more, each dispatcher looks less often when nothing wakes it

logger = logging.getLogger("oncue.engine")
rules_logger = logging.getLogger("oncue.rules")


class SinkRoute(NamedTuple):
    """A queue on its way to its sink."""

    queue: Queue
    sink: Sink
    loop: Loop
    dispatcher: Dispatcher


class Engine:
    """Runs in threads between `start` and `stop`; or by hand, one `step_all` at a time."""

    def __init__(
        self,
        node: Node,
        open_sink: Callable[[str], Sink],
        name: str | None = None,
        tick_seconds: float | None = None,
        ahead_seconds: float | None = None,
    ) -> None:
        """`tick_seconds`: it is made for one `tick`, and these are so far apart. `ahead_seconds`:
        how far that tick looks ahead, by default until the one after the next."""
        self._tick_seconds = tick_seconds or 0.0
        if ahead_seconds is None:
            ahead_seconds = 0.0 if tick_seconds is None else TICKS_AHEAD * tick_seconds
        self._ahead_seconds = ahead_seconds
        self._at_once = 1 if tick_seconds is None else BATCHES_AT_ONCE
        self.name = legible(name or f"{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(4)}")
        self.node = node
        self._store, clock, self._policies, self._telemetry = node
        self._clock = clock
        self.keeper = Keeper(clock)
        self.reclaimer = TickReclaimer(node, tick_seconds) if tick_seconds else Reclaimer(node)
        self.pruner = Pruner(node)
        self.recurrer = Recurrer(node, self._publish_occurrences, round(1000 * self._ahead_seconds))
        self._open_sink = open_sink
        self._collector: Collector | None = None
        self._routes: dict[str, SinkRoute] = {}  # replaced, never changed: listeners read it
        self._retiring: list[SinkRoute] = []
        self._queues: Sequence[Queue] = ()  # as the last look found them; replaced, never changed
        self._unopened: dict[str, str] = {}
        self._supervisor = Loop("oncue-supervisor", self._supervise, clock)
        recurring = Loop("oncue-recurrer", self.recurrer.step, clock)
        self._bound_to_settings = (recurring, *self._collecting())
        self._upkeep = (
            *self._bound_to_settings,
            Loop("oncue-reclaimer", self._reclaim, clock, self.reclaimer.overslept),
            Loop("oncue-pruner", self.pruner.step, clock),
        )
        self._started = False
        self._wall_clock = WallClock(clock)
        self._unwatch: Callable[[], None] | None = None

    def _collecting(self) -> list[Loop]:
        """The loop of the collector, where the store has an inbox."""
        inbox: Inbox | None = getattr(self._store, "inbox", None)
        if inbox is None:
            return []
        self._collector = Collector(
            *(self.node, inbox, self._dispatcher_of, self.name, self.reclaimer.check_clock),
            self._ahead_seconds,
        )
        return [Loop("oncue-collector", self._collector.step, self._clock)]

    def _dispatcher_of(self, queue: str) -> Dispatcher | None:
        route = self._routes.get(queue)
        return None if route is None else route.dispatcher

    def start(self) -> None:
        self._started = True
        self._at_once = BATCHES_AT_ONCE
        self._unwatch = self._store.watch(self._woken, lambda: self._routes)
        self._start([*self._loops(), self._supervisor])

    def running(self) -> Running:
        """The parts that this process runs because of it."""
        return Running(engine=True, dispatches=tuple(self._routes))

    def _loops(self) -> list[Loop]:
        """All but the supervisor."""
        routes = (route.loop for route in self._routes.values())
        return [self.keeper.loop, *self._upkeep, *routes]

    def _start(self, loops: Iterable[Loop]) -> None:
        """Start threads, and replace those that died; not when steps are made by hand."""
        replaced = sum(loop.start() for loop in loops) if self._started else 0
        self._telemetry.count("threads_replaced", replaced)

    def stop(self, timeout: float | None = None) -> bool:
        """Finish the deliveries under way, settle them, and end. Whether all ended in time."""
        ends = None if timeout is None else self._clock.monotonic() + timeout
        if self._unwatch is not None:
            self._unwatch()
        ended = [self._supervisor.stop(self._left(ends))]
        routes = [*self._routes.values(), *self._retiring]
        loops = [*(route.loop for route in routes), *self._upkeep]
        for loop in loops:
            loop.stop(0)  # all of them end at the same time, not one after the other
        ended += [loop.stop(self._left(ends)) for loop in loops]
        ended += [route.dispatcher.finish(self._left(ends)) for route in routes]
        self._routes, self._queues, self._retiring = {}, (), routes
        self._retire(last=True)
        for route in routes:
            route.dispatcher.give_up()
        if self._collector is not None:
            self._collector.leave()
        ended.append(self.keeper.loop.stop(self._left(ends)))
        return all(ended)

    def step_all(self) -> float:
        """One step of everything, in the caller's thread. The shortest rest."""
        rests = [loop.step() for loop in (self._supervisor, *self._upkeep)]
        rests += [route.loop.step() for route in self._routes.values()]
        return min(rest for rest in rests if rest is not None)

    def tick(
        self,
        is_over: Callable[[], bool],
        *,
        around: Moment | None = None,
        only: Collection[str] | None = None,
    ) -> None:
        """Do everything that is due by the next tick, and end; for a process that does not live
        between two ticks. `is_over`: there is no time to begin more. `around`: the moment for which
        the tick was made. `only`: make no jobs, and deliver nothing but these queues. Trouble with
        one part does not keep the others from their work; the first is raised at the end."""
        tick = Tick(self._clock, is_over, self._tick_seconds)
        tick.work_off([self._supervise])
        routes = [one for name, one in self._routes.items() if only is None or name in only]
        collector = self._collector if only is None else None
        tick.work_off([self.reclaimer.step])
        if only is None:
            tick.work_off([self.recurrer.step, self.pruner.step])
        if collector is not None and around is not None:
            tick.work_off([lambda: float(collector.find_late(around) == 0)])
        self.keeper.loop.start()
        try:
            tick.deliver([one.dispatcher for one in routes], collector)
        finally:
            self.stop()
        tick.end()

    def publish(self, events: Sequence[Event]) -> Sequence[Published]:
        """Let the rules of the store decide on events. The only caller of the store's `publish`:
        it counts and logs the jobs that they fire."""
        published = self._store.publish(events, self._clock.now(), self.pruner.bounds)
        jobs = [job for one in published for job in one.jobs]
        self._telemetry.count("jobs_created", len(jobs))
        for job in jobs:
            rules_logger.info(
                "fired rule=%r job=%s instant=%s", job.rule, job.job_id, render(job.instant),
                extra={"job_id": job.job_id, "rule": job.rule},
            )  # fmt: skip
        return published

    def _publish_occurrences(self, schedule: Schedule, moments: Sequence[Moment]) -> None:
        self.publish([occurrence_event(schedule, at) for at in moments])

    def _left(self, ends: float | None) -> float | None:
        return None if ends is None else max(0.0, ends - self._clock.monotonic())

    def _woken(self, queue: str | None, due_at: Moment) -> None:
        if queue is None:
            self._policies.forget()
            self._supervisor.wake()
            self._wake_all()
        elif (found := self._routes.get(queue)) is not None:
            found.loop.wake_for(due_at)
        elif queue in BUILT_IN and queue not in (known.name for known in self._queues):
            self._supervisor.wake()  # it may have a sink by default

    def _wake_all(self) -> None:
        """All loops but those that look often enough by themselves."""
        for loop in (*self._bound_to_settings, *(one.loop for one in self._routes.values())):
            loop.wake()

    def _reclaim(self) -> float:
        """Supervisor and reclaimer, which both make a step every two seconds, look after each
        other."""
        self._start([self._supervisor])
        return self.reclaimer.step()

    def _supervise(self) -> float:
        """Replace threads that died; make the routes follow the queues' settings."""
        self._start(self._loops())
        if self._wall_clock.was_set():
            self._wake_all()  # rests were planned by the old time
        queues = self._store.queues()
        if queues != self._queues or self._unopened or self._retiring:
            self._follow_all(queues)
        return SUPERVISE_SECONDS

    def _follow_all(self, queues: Sequence[Queue]) -> None:
        for deleted in {one.name for one in self._queues} - {one.name for one in queues}:
            self._telemetry.forget(deleted)
        with_sink = {queue.name for queue in queues if queue.sink is not None}
        self._unopened = {name: why for name, why in self._unopened.items() if name in with_sink}
        routes = {}
        for queue in queues:
            if queue.sink is None:
                continue
            route = self._follow(queue, self._routes.get(queue.name))
            if route is not None:
                routes[queue.name] = route
        kept = {id(route.loop) for route in routes.values()}
        self._retiring += [r for r in self._routes.values() if id(r.loop) not in kept]
        # Known before they run: news that comes in between must find its route.
        former, self._routes = self._routes, routes
        for name in former.keys() - routes.keys():
            self._telemetry.circuit(name, is_open=None)
        self._start(self._loops())
        self._retire()
        self._queues = queues

    def _follow(self, queue: Queue, route: SinkRoute | None) -> SinkRoute | None:
        if route is None or route.queue.sink != queue.sink:
            return self._open(queue)
        if route.queue != queue:
            self._policies.forget()
            route.loop.wake()
        return route._replace(queue=queue)

    def _open(self, queue: Queue) -> SinkRoute | None:
        assert queue.sink is not None
        try:
            sink = self._open_sink(queue.sink)
        except BaseException as error:  # of this queue; the others go on
            if is_ctrl_c(error):
                raise
            if self._unopened.get(queue.name) != str(error):
                text, facts = "queue %s: its sink cannot be opened: %s", {"queue": queue.name}
                logger.error(text, queue.name, error, extra=facts)
            self._unopened[queue.name] = str(error)
            return None
        self._unopened.pop(queue.name, None)
        traits = traits_of(sink)
        if traits.is_elsewhere:
            return None
        self._policies.forget()
        queue_of = partial(self._policies, queue.name)
        name = f"{traits.mark}{self.name}:{secrets.token_hex(2)}"
        dispatcher = Dispatcher(
            *(self.node, queue_of, sink, name, self.keeper, self.reclaimer.check_clock),
            self._at_once,
            self._ahead_seconds,
        )
        self._telemetry.circuit(queue.name, is_open=False)
        loop = Loop(
            f"oncue-dispatcher-{queue.name}", dispatcher.step, self._clock, longest=self._longest
        )
        dispatcher.woken = loop.wake
        return SinkRoute(queue, sink, loop, dispatcher)

    def _longest(self) -> float:
        """The longest rest of a dispatcher. The store wakes it when there is work, so a look
        without that is only a precaution. Many dispatchers make many such looks, so each rests
        longer."""
        return LONGEST_REST_SECONDS * max(1.0, len(self._routes) / MANY_ROUTES)

    def _retire(self, *, last: bool = False) -> None:
        """Close the sinks of former routes whose last delivery has ended and was settled; the last
        time also if it could not be."""
        waiting = []
        for route in self._retiring:
            ended = route.loop.stop(0) and route.dispatcher.finish(0)
            if ended and (last or route.dispatcher.settled):
                _close(route)
            else:
                waiting.append(route)
        self._retiring = waiting


def _close(route: SinkRoute) -> None:
    """A sink that cannot be closed is left as it is: the other queues go on."""
    try:
        route.sink.close()
    except BaseException as error:
        if is_ctrl_c(error):
            raise
        # Foreign messages may quote payloads, so only the kind is logged.
        text, name = "queue %s: its sink cannot be closed: %s", route.queue.name
        logger.error(text, name, type(error).__name__, extra={"queue": name})
