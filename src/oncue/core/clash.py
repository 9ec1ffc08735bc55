"""New jobs whose id or key is there already."""

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
