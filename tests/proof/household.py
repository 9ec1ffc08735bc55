"""Everything else that nodes do on a store: schedules make jobs, events fire a rule, settings and
access tokens come and go, jobs are dumped and restored, changed in bulk, looked at and pruned.

One chore after the other. A chore that got no answer is done once more, as its user would: what it
had done by then must not be harmed by that."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import count

from oncue.core.errors import Conflict, NotFound, NotSupported
from oncue.core.event import Bounds
from oncue.core.job import Diagnostic, Job, JobFilter
from oncue.core.moment import from_datetime, to_datetime
from oncue.core.nodes import NodeReport
from oncue.core.schedule import occurrence_id
from oncue.core.stamp import SECOND
from oncue.engine.node import Node
from oncue.engine.pruner import Pruner
from oncue.engine.recurrer import Recurrer
from oncue.ports.claims import ClaimFilter
from oncue.ports.store import Store
from oncue.scheduler import Scheduler
from oncue.usecases.tokens import Access
from tests.contract.board import time_based
from tests.contract.promises import every, exported, listed
from tests.proof.history import History

RHYTHM_SECONDS = 5
TICK, BELL = "tick", "bell"
BELLS = [{"type": "TIME_BASED", "resourceId": BELL, "lifeDuration": 0}]
AT_A_TIME = 5  # chores in one step
FAR_MS = 10 * 86_400_000


class Household:
    """`store` may be in trouble; `truth` is the same data without it. The jobs of the schedule and
    of the rule go into `queue`."""

    def __init__(self, store: Store, truth: Store, queue: str) -> None:
        self._store = store
        self._truth = truth
        self._cue = Scheduler(store)
        self._tokens = Access(store, store.clock)
        with_ease = Scheduler(truth)
        with_ease.every(RHYTHM_SECONDS, name=TICK, queue=queue, catch_up="all")
        with_ease.put_rule(BELL, BELLS, queue=queue)
        self._published = 0
        self._numbers = count()
        self._chores = self._in_turn()
        self._chore = next(self._chores)

    def step(self) -> None:
        for _ in range(AT_A_TIME):
            self._chore()
            self._chore = next(self._chores)

    def close(self, history: History) -> list[str]:
        """End the schedule, and say what it and the rule did not do, or did twice. From here on,
        their jobs are jobs that somebody asked for."""
        recurrer = Recurrer(Node.of(self._truth, self._truth.clock))
        while recurrer.step() == 0.0:
            continue
        cue = Scheduler(self._truth)
        schedule = cue.schedule_named(TICK)
        assert schedule.last_at is not None
        rhythm = RHYTHM_SECONDS * 1000
        first, last = from_datetime(schedule.created_at) + rhythm, from_datetime(schedule.last_at)
        due = {occurrence_id(TICK, at): at for at in range(first, last + 1, rhythm)}
        ticks = {job.id for job in self._jobs() if job.schedule == TICK}
        missing = [f"{TICK}: {job_id}" for job_id in sorted({*due} ^ ticks)]
        rung = [job for job in self._jobs() if job.rule == BELL]
        instants = {job.instant for job in rung}
        if len(rung) not in (self._published, self._published + 1) or len(instants) < len(rung):
            missing.append(f"{self._published} events made {len(rung)} jobs")
        due |= {job.id: from_datetime(job.created_at) for job in rung}
        cue.delete_schedule(TICK)
        for job in self._jobs():
            if job.id in due:
                history.invoked(job.id, due[job.id], due[job.id])
                history.acknowledged(job.id)
        return missing

    def _jobs(self) -> list[Job]:
        return listed(self._truth, JobFilter(), 1000)

    def _in_turn(self) -> Iterator[Callable[[], None]]:
        """The recurrer and the bell most often: what they did is checked most closely."""
        others = (
            *(self._set_queue, self._put_rule, self._put_schedule, self._put_token),
            *(self._restore, self._cancel_all, self._look, self._look_at_claims, self._prune),
            self._report,
        )
        while True:
            for first, second in zip(others[::2], others[1::2], strict=True):
                yield from (self._recur, first, self._ring, second)

    def _recur(self) -> None:
        Recurrer(Node.of(self._store, self._store.clock)).step()

    def _ring(self) -> None:
        event = time_based(BELL, self._published * SECOND)
        self._store.publish([event], self._store.clock.now(), Bounds())
        self._published += 1

    def _set_queue(self) -> None:
        now = self._store.clock.now()
        self._cue.set_queue("spare", lease_seconds=20 + next(self._numbers) % 5)
        self._cue.stats("spare")
        with suppress(NotSupported):
            self._cue.due_counts("spare", now, now + 60_000, 1000)
        with suppress(NotFound):
            self._cue.delete_queue("spare")

    def _put_rule(self) -> None:
        self._cue.put_rule("short", BELLS, enabled=False)
        assert "short" in {rule.name for rule in self._cue.rules()}
        self._cue.explain_rule("short")
        assert not self._cue.rule("short").enabled
        list(self._cue.events(rule="short"))
        with suppress(NotFound):
            self._cue.delete_rule("short")

    def _put_schedule(self) -> None:
        self._cue.put_schedule("short", every_seconds=3600)
        assert "short" in {schedule.name for schedule in self._cue.schedules()}
        assert not self._cue.schedule_outcomes("short")
        with suppress(NotFound):
            self._cue.delete_schedule("short")

    def _put_token(self) -> None:
        with suppress(Conflict):
            self._tokens.create(f"token {next(self._numbers)}")
        for token in self._tokens.tokens():
            with suppress(NotFound):
                self._tokens.revoke(token.id)

    def _restore(self) -> None:
        """What is there already is left alone; what is new is there once."""
        found = exported(self._store)
        events = every(self._store.export_events)
        rules = [self._store.sightings(BELL, 0)]
        self._store.admit_rules([rule for rule in rules if rule], events)
        cancelled = [one for one in found if one.job.id.startswith("parked") and not one.hidden]
        if cancelled:
            number = next(self._numbers)
            moved = replace(cancelled[0], job=cancelled[0].job._replace(id=f"museum-{number}"))
            self._store.admit([moved])
            assert self._truth.get(moved.job.id) is not None

    def _cancel_all(self) -> None:
        at = to_datetime(self._store.clock.now() + FAR_MS)
        job_id = f"parked-{next(self._numbers)}"
        self._cue.schedule({}, id=job_id, queue="parked", at=at, owner="household")
        self._cue.cancel_all(owner="household")
        job = self._truth.get(job_id)
        assert job is not None
        assert job.state == "cancelled"
        self._store.note(job_id, [Diagnostic(at, "seen", "It was seen.", 0, 0)])
        assert self._store.history(job_id).diagnostics

    def _look(self) -> None:
        self._store.describe()
        self._store.live_count()
        self._store.has_leases_astray(self._store.clock.now())
        list(self._cue.jobs(owner="household"))

    def _look_at_claims(self) -> None:
        found = every(partial(self._store.live_claims, ClaimFilter()))
        self._store.interruptions([(claim.id, claim.epoch) for claim in found])

    def _report(self) -> None:
        now = to_datetime(self._store.clock.now())
        self._store.report_node(NodeReport("house", "host", 1, "1", now, now, engine=True))
        assert [node.id for node in self._store.nodes(self._store.clock.now())] == ["house"]

    def _prune(self) -> None:
        Pruner(Node.of(self._store, self._store.clock)).step()
