"""Fencing: how claims end, which writes repeat an end, and the texts for writes that come late."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from typing import NamedTuple

from oncue.core.lifecycle import Verb
from oncue.core.moment import Moment

OUTCOMES = {
    Verb.COMPLETE: "succeeded",
    Verb.FAIL: "failed",
    Verb.RETRY: "retried",
    Verb.DROP: "cancelled",
    Verb.RELEASE: "released",
}
"""By the verb that settled it: how an attempt ended. One that was taken away is `reclaimed`."""

_REASONS = {"succeeded": "completed", "retried": "failed"}


def reason_of(outcome: str) -> str:
    """Why a claim is over, as a late writer is told."""
    return _REASONS.get(outcome, outcome)


class Write(NamedTuple):
    """A worker's write that settles a claim. The same write again is a repetition."""

    kind: str
    """`complete`, `fail` or `release`: what the worker said, whatever was decided upon it."""
    content: bytes | str | None = None
    """The result, or the error."""


def write_behind(outcome: str, result: bytes | None, error: str | None) -> Write | None:
    """The worker's write that ended an attempt so; None: it was reclaimed."""
    match outcome:
        case "succeeded":
            return Write("complete", result)
        case "failed" | "retried":
            return Write("fail", error)
        case "released":
            return Write("release")
        case "cancelled":  # a failure or a release of a job whose cancel had been requested
            return Write("release") if error is None else Write("fail", error)
    return None


def write_of(verb: Verb, result: bytes | None, error: str | None) -> Write:
    """The worker's write that a settlement applies."""
    write = write_behind(OUTCOMES[verb], result, error)
    assert write is not None  # only reclaims have none
    return write


def objection(
    verb: Verb, updated_at: Moment, expected: Moment | None, *, cancel_unseen: bool
) -> str | None:
    """Why a settlement of the current claim is not applied; None: it is. `expected` is the last
    update that the settlement was decided upon, if it depends on one. `cancel_unseen`: a cancel was
    requested, and the settlement was decided without knowing of it."""
    if expected not in (None, updated_at):
        return "moved on"
    if cancel_unseen and verb in (Verb.RETRY, Verb.RELEASE):
        return "cancel requested"
    return None


def words(ids: Sequence[str], epoch: int, write: Write) -> str:
    """Settled claims on jobs that are gone, as a store remembers them: a word for each, with a
    space behind it. All of them were settled by the same write."""
    content = write.content
    digest = ""
    if content is not None:
        body = content.encode() if isinstance(content, str) else content
        digest = blake2b(body, digest_size=8).hexdigest()
    ending = f":{epoch}:{write.kind}:{digest} "
    return ending.join([*ids, ""])


def settled_facts(verb: Verb, worker: str | None, error: str | None) -> dict[str, str]:
    """Facts of the diagnostic that a settlement leaves; those that are not known are left out."""
    facts = {"worker": worker, "error": error, "decision": verb.value}
    return {name: fact for name, fact in facts.items() if fact}


EXPIRED = "Expired: it was not taken in time."
"""The error of a job that expired, and the detail of its diagnostic."""


def refused_for_good(dispatcher: str | None, error: str | None) -> tuple[str, dict[str, str]]:
    """Detail and facts of the diagnostic of a job that its sink will never take."""
    return f"The sink refused it for good: {error}", settled_facts(Verb.FAIL, dispatcher, error)


def late_write(write: str, reason: str) -> tuple[str, dict[str, str]]:
    """Detail and facts of the diagnostic that records a refused write."""
    detail = f"Refused a late {write}: this claim had ended ({reason})."
    return detail, {"write": write, "reason": reason}
