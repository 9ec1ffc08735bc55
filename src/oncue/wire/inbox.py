"""The inbox as JSON."""

from __future__ import annotations

from msgspec import Raw

from oncue.core.moment import render
from oncue.ports import inbox as ports
from oncue.wire.formats import Answer


class InboxItem(Answer):
    """What a producer put into the inbox."""

    pk: str
    sk: str
    id: str
    queue: str
    due_at: str
    payload: Raw
    problem: str | None
    """Why it cannot be a job."""

    @classmethod
    def of(cls, item: ports.InboxItem) -> InboxItem:
        pk, sk = item.place
        return cls(
            pk=pk,
            sk=sk,
            id=item.id,
            queue=item.queue,
            due_at=render(item.due_at),
            payload=Raw(item.payload),
            problem=item.problem,
        )


class InboxItems(Answer):
    """In the order of their due times."""

    items: list[InboxItem]
    next_cursor: None = None
