"""A store that writes down what is taken from it and written to it, with its answers."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any, TypeVar, cast

from oncue.core.fencing import Refused, Settlement
from oncue.core.job import Claimed
from oncue.core.lease import Touch
from oncue.core.moment import Moment
from oncue.core.queue import Queue
from oncue.ports.claims import RangeClaim, Settled
from oncue.ports.store import Store
from tests.proof.entries import Looked, Ranged, RangeWrote, Reclaimed, Taken, Wrote
from tests.stores.wrapped import Call, WrappedStore

T = TypeVar("T")

TOGETHER_SECONDS = 0.005  # so close together two clocks are read

Record = Callable[..., object]
"""Takes any number of entries, as `ReceiverLog.record` does."""


class Witness(WrappedStore):
    """Every write is written down before it is made and once more with its answer, so that a
    process may die in between. `holder` is who acts; None: whoever a claim names."""

    def __init__(self, store: Store, record: Record, holder: str | None = None) -> None:
        super().__init__(store)
        self._record = record
        self._holder = holder
        self._taken: set[tuple[str, int]] = set()
        self._open: defaultdict[str, list[RangeClaim]] = defaultdict(list)
        """By dispatcher: its range claims that are not settled."""

    def during(self, call: Call, go: Callable[[], T]) -> T:
        match call.method:
            case "claim":
                return self._claim(call, go)
            case "claim_range":
                return self._claim_range(call, go)
            case "touch" | "settle":
                return self._write(self._writes(call, self._since(call.args[1])), go)
            case "put_operation":
                job_id, epoch, _, now, *_ = call.args
                write = Wrote(job_id, epoch, "operation", None, self._since(now))
                return self._write([write], go)
            case "reclaim":
                return self._reclaim(call, go)
            case "extend_range" | "settle_range":
                return self._write_range(call, go)
        return go()

    def _claim(self, call: Call, go: Callable[[], T]) -> T:
        queues: dict[str, Queue] = {queue.name: queue for queue in call.args[0]}
        takers = call.args[1]
        since = self._since(call.args[2])
        self._record(*(Looked(queue, since) for queue in queues))
        answer = go()
        shares = cast(list[list[Claimed]], answer)
        self._record(
            *(
                Taken(
                    claim.id,
                    claim.epoch,
                    claim.attempt,
                    self._holder or taker.worker,
                    self._since(claim.claimed_at),
                    taker.lease_seconds or queues[claim.queue].lease_seconds,
                    claim.timeout_seconds or queues[claim.queue].timeout_seconds,
                    len(share),
                )
                for taker, share in zip(takers, shares, strict=True)
                for claim in share
                if self._is_new(claim)
            )
        )
        return answer

    def _is_new(self, claim: Claimed) -> bool:
        """Whether it was not written down when the same call was made before."""
        known = (claim.id, claim.epoch) in self._taken
        self._taken.add((claim.id, claim.epoch))
        return not known

    def _claim_range(self, call: Call, go: Callable[[], T]) -> T:
        since = self._since(call.args[3])
        self._record(Looked(call.args[0].name, since))
        claim = go()
        assert isinstance(claim, RangeClaim)
        self._note_unknown(claim, call.args[1], call.kwargs.get("in_flight", ()))
        if claim.jobs:
            ids = tuple(job.id for job in claim.jobs)
            lease = call.kwargs["lease_seconds"]
            holder = self._holder or call.args[1]
            self._record(Ranged(_range(claim), claim.fence, ids, holder, since, lease))
            self._open[call.args[1]].append(claim)
        return claim

    def _note_unknown(
        self, claim: RangeClaim, dispatcher: str, in_flight: Sequence[RangeClaim]
    ) -> None:
        """A dispatcher that claims again and does not name a claim never got the answer to that
        one: it holds the range no longer."""
        known = {(one.shard, one.fence) for one in in_flight}
        for one in list(self._open[dispatcher]):
            if one.queue != claim.queue or (one.shard, one.fence) in known:
                continue
            self._open[dispatcher].remove(one)
            self._record(RangeWrote(_range(one), one.fence, "forget", True, 0.0))

    def _writes(self, call: Call, since: float) -> list[Wrote]:
        if call.method == "settle":
            return [Wrote(one.id, one.epoch, _what(one), None, since) for one in call.args[0]]
        kinds = ["start" if one.start else "hold" for one in call.args[0]]
        return [
            Wrote(one.id, one.epoch, kind, None, since, self._lease_seconds(one))
            for kind, one in zip(kinds, call.args[0], strict=True)
        ]

    def _lease_seconds(self, touch: Touch) -> float | None:
        """To how many seconds the store should renew the lease."""
        if touch.lease_seconds is not None or not touch.renew:
            return touch.lease_seconds
        job = self.store.get(touch.id)
        name = "" if job is None else job.queue
        return next((one.lease_seconds for one in self.store.queues() if one.name == name), None)

    def _write(self, writes: Sequence[Wrote], go: Callable[[], T]) -> T:
        writes = [write._replace(writer=self._holder or "") for write in writes]
        self._record(*writes)
        answer = go()
        answers = _refusals(answer, len(writes))
        self._record(
            *(
                write._replace(accepted=position not in answers)
                for position, write in enumerate(writes)
            )
        )
        return answer

    def _reclaim(self, call: Call, go: Callable[[], T]) -> T:
        at = self.clock.monotonic()
        lapses = [verdict[0] for verdict in call.args[0]]
        answer = go()
        refused: Any = answer
        self._record(
            *(
                Reclaimed(lapse.id, lapse.epoch, self._holder or "", at)
                for position, lapse in enumerate(lapses)
                if position not in refused
            )
        )
        return answer

    def _write_range(self, call: Call, go: Callable[[], T]) -> T:
        claim: RangeClaim = call.args[0]
        if not claim.jobs:  # a shard is let go in which nothing is in flight
            return go()
        write = RangeWrote(_range(claim), claim.fence, "", None, 0.0)
        if call.method == "extend_range":
            write = write._replace(what="extend", until=self._since(call.args[1]))
        else:
            delivered = tuple(call.args[1])
            refused = tuple(job_id for job_id, why in call.args[2].items() if why.permanent)
            write = write._replace(what="settle", delivered=delivered, refused=refused)
            write = write._replace(batch=claim.jobs[0].id)
        self._record(write)
        answer = go()
        self._record(write._replace(accepted=answer is True))
        for claims in self._open.values() if write.what == "settle" else ():
            claims[:] = [one for one in claims if one != claim]
        return answer

    def _since(self, now: Moment) -> float:
        """A moment that a call names, by the monotonic clock. The process may be stopped between
        two looks at a clock: then they are taken again."""
        while True:
            began = self.clock.monotonic()
            ago = (self.clock.now() - now) / 1000
            if self.clock.monotonic() - began < TOGETHER_SECONDS:
                return began - ago


def _what(settlement: Settlement) -> str:
    """A failure may be tried again: the store decides it."""
    return "retry" if settlement.failure is not None else settlement.verb.value


def _refusals(answer: object, writes: int) -> set[int]:
    """The positions of what was refused, from the answers in their several forms."""
    if isinstance(answer, Refused):
        return {0}
    if isinstance(answer, list):
        return {position for position, one in enumerate(answer) if isinstance(one, Refused)}
    if isinstance(answer, Settled):
        return set(answer.refused)
    return set(answer) if isinstance(answer, dict) and writes else set()


def _range(claim: RangeClaim) -> str:
    return f"{claim.queue}#{claim.shard}"
