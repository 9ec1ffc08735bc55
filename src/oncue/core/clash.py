"""New jobs whose id or key is there already, or may be soon."""

from __future__ import annotations

from typing import Literal

from oncue.core.job import NewJob
from oncue.core.lifecycle import State, Verb, allows

ClashKind = Literal["existing", "replaced", "id taken", "key taken"]


def of_same_id(new: NewJob, digest: bytes | None) -> ClashKind:
    """`digest` is that of the job that has the id. Two that are None are equal: both ids were
    minted, and a minted id that is there already means that the call was repeated."""
    is_former = digest is not None and digest == new.former_digest
    return "existing" if new.digest == digest or is_former else "id taken"


def of_same_key(new: NewJob, holder: State) -> ClashKind:
    """`holder` is the state of the unfinished job that has the key, as others see it. If it is
    `replaced`, it gets the new due time and payload."""
    if not new.replace:
        return "existing"
    return "replaced" if allows(holder, Verb.AMEND) else "key taken"


def why_held(new: NewJob, *, is_queue: bool) -> str:
    """Why it cannot be told whether a new job clashes: an open transaction has used its id or key
    or, with `is_queue`, has made its queue."""
    used = [] if new.digest is None else [f"the id {new.id!r}"]
    used += [] if new.key is None else [f"the key {new.key!r} of queue {new.queue}"]
    is_queue = is_queue or not used
    what = f"made the queue {new.queue}" if is_queue else f"used {' or '.join(used)}"
    step = " Nobody waits for a queue that was set before." if is_queue else ""
    return (
        f"a transaction of another session that is still open has {what}. The job is not stored. "
        f"End that transaction ('oncue doctor' names it) and call again.{step}"
    )
