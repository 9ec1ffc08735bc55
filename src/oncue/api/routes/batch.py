"""`POST /jobs/batch`: many jobs in one request, as a stream.

The body is read block by block and never as a whole: a block is split, taken in and stored before
the next is asked for, so memory does not grow with the body and a client that is too fast waits. A
thread of its own does that; the loop goes on answering others.
"""

from __future__ import annotations

import codecs
import logging
from collections.abc import AsyncIterator, Iterator
from typing import TYPE_CHECKING, Annotated, Any

from msgspec import Meta

from oncue.api import problems as problems
from oncue.api.elements import LIMIT, Elements, Lines, Splitter
from oncue.api.problems import Problem
from oncue.api.request import (
    JSON_TYPE,
    UNREADABLE,
    Answer,
    Gone,
    Request,
    json_answer,
    read_json,
)
from oncue.api.routes.jobs import derived_id, idempotency_key, key_reused, new_job
from oncue.api.routing import Routes
from oncue.api.unreadable import unreadable
from oncue.core.access import Scope
from oncue.core.errors import IdTaken, InvalidInput, StoreError, StoreUnusable, TooLarge
from oncue.core.job import NewJob
from oncue.scheduler import Scheduler
from oncue.usecases.jobs import CHUNK, IDS_KEPT
from oncue.wire import jobs as wire

if TYPE_CHECKING:
    from oncue.api.app import Service

LINE_TYPES = ("application/x-ndjson", "application/jsonl", "application/jsonlines")
BLOCK = 512 * 1024  # bytes that are taken in at once
REJECTED_KEPT = 1000

logger = logging.getLogger("oncue.http")

routes = Routes("Jobs")


@routes.add(
    "POST /jobs/batch",
    Scope.WRITE,
    wire.BatchReport,
    {
        LINE_TYPES[0]: Annotated[str, Meta(description="A `NewJob` a line.")],
        JSON_TYPE: list[wire.NewJob],
    },
    headers=("Idempotency-Key",),
)
async def create_jobs(service: Service, request: Request) -> Answer:
    """Create many jobs, streamed.

    A job a line (NDJSON), or an array. Not atomic: each is stored or rejected by itself. What was
    accepted is durable when the answer arrives. With an `Idempotency-Key` a batch can be sent
    again: only what is missing is stored.
    """
    key = idempotency_key(request)
    _refuse_encoded(request)
    arriving: Arriving | None = None
    try:
        async for block in _blocks(request):
            if arriving is None:
                arriving = Arriving(service.cue, _splitter(request), key)
                block = block.removeprefix(codecs.BOM_UTF8)
            await service.take_in(arriving.take, block)
        arriving = arriving or Arriving(service.cue, Lines(), key)
        await service.take_in(arriving.end)
    except StoreError as error:
        logger.error("%s: %s", request.id, error, extra={"request_id": request.id})
        raise _interrupted(arriving, error) from None
    except Problem as problem:  # the rest of the body did not come
        problem.written.accepted = 0 if arriving is None else arriving.accepted
        raise
    return json_answer(arriving.report())


async def _blocks(request: Request) -> AsyncIterator[bytes]:
    """The body in large blocks. When the client leaves, what had arrived comes first."""
    parts: list[bytes] = []
    size = 0
    try:
        async for part in request.parts():
            parts.append(part)
            size += len(part)
            if size >= BLOCK:
                yield b"".join(parts)
                parts, size = [], 0
    except Gone:
        if parts:
            yield b"".join(parts)
        raise
    if parts:
        yield b"".join(parts)


def _splitter(request: Request) -> Splitter:
    given = request.require_media_type((*LINE_TYPES, JSON_TYPE))
    return Elements() if given == JSON_TYPE else Lines()


def _refuse_encoded(request: Request) -> None:
    encoding = (request.header(b"content-encoding") or "identity").strip().lower()
    if encoding != "identity":
        raise Problem(
            "unsupported-media-type",
            f"The body's Content-Encoding is {encoding!r}; send it as it is.",
            headers={"accept-encoding": "identity"},
        )


def _interrupted(arriving: Arriving | None, error: StoreError) -> Problem:
    accepted = 0 if arriving is None else arriving.accepted
    lasting: dict[str, Any] = {"lasting": True} if isinstance(error, StoreUnusable) else {}
    return Problem(
        "store-unavailable",
        f"The store cannot answer now. {accepted:,} jobs of this batch are stored for certain. "
        "With an Idempotency-Key, send the whole batch again: it stores only what is missing.",
        headers={"retry-after": "1"},
        accepted=accepted,
        **lasting,
    )


class Arriving:
    """A batch under way, and what has become of its lines so far."""

    def __init__(self, cue: Scheduler, splitter: Splitter, key: str | None) -> None:
        """`key`: the idempotency key, if there is one."""
        self.accepted = 0
        self.existing = 0
        self.rejected_count = 0
        self.rejected: list[wire.BatchProblem] = []
        self._ids: dict[int, str | None] = {}  # by line; None for rejected
        self._jobs_seen = 0
        self._cue = cue
        self._splitter = splitter
        self._key = key
        self._line = 0

    def take(self, block: bytes) -> None:
        """Store the jobs that this block completes."""
        self._store_all(self._splitter.feed(block))

    def end(self) -> None:
        """The body is complete."""
        self._store_all(self._splitter.end())
        if self._splitter.trouble is not None:
            self._line += 1
            self._count({self._line: _malformed(self._splitter.trouble)}, {})

    def report(self) -> wire.BatchReport:
        return wire.BatchReport(
            accepted=self.accepted,
            existing=self.existing,
            rejected_count=self.rejected_count,
            rejected=self.rejected,
            ids=[self._ids[line] for line in sorted(self._ids)],
        )

    def _store_all(self, texts: list[bytes | None]) -> None:
        for start in range(0, len(texts), CHUNK):
            refused: dict[int, Problem] = {}
            jobs = dict(self._taken_in(texts[start : start + CHUNK], refused))
            stored = self._cue.store_jobs(list(jobs.values()))
            lines = list(jobs) if stored.refused else []
            for position, error in stored.refused.items():
                reused = self._key is not None and isinstance(error, IdTaken)
                refused[lines[position]] = key_reused() if reused else problems.of(error)
            self.existing += stored.existing
            self._count(refused, dict(zip(jobs, stored.ids, strict=True)))

    def _taken_in(
        self, texts: list[bytes | None], refused: dict[int, Problem]
    ) -> Iterator[tuple[int, NewJob]]:
        """The jobs by their lines; those that are none go to `refused`."""
        now, key = self._cue.clock.now(), self._key
        line = self._line
        self._line += len(texts)
        for text in texts:
            line += 1
            try:
                if text is None:
                    raise TooLarge(f"longer than {LIMIT:,} bytes.")
                yield line, new_job(read_json(text), now, key and derived_id(key, line))
            except InvalidInput as problem:
                refused[line] = problems.of(problem)
            except UNREADABLE as problem:
                assert text is not None
                if text.strip() or not self._splitter.ignores_blank:
                    refused[line] = _unreadable(text, problem)

    def _count(self, refused: dict[int, Problem], ids: dict[int, str | None]) -> None:
        """`ids` are those of the lines that were jobs; None where the job was refused."""
        self.accepted += sum(one is not None for one in ids.values())
        self.rejected_count += len(refused)
        for line in sorted(refused)[: REJECTED_KEPT - len(self.rejected)]:
            problem = refused[line]
            self.rejected.append(wire.BatchProblem(line, problem.status, problem.detail))
        if self.accepted + self.rejected_count <= IDS_KEPT:
            self._ids |= ids | dict.fromkeys(refused)
        else:
            self._ids.clear()


def _unreadable(text: bytes, problem: Exception) -> Problem:
    told = unreadable(text, problem)
    if told.status != 400 or isinstance(problem, RecursionError):
        return told
    return _malformed(f"not JSON in UTF-8: {str(problem).rstrip('.')}.")


def _malformed(detail: str) -> Problem:
    return Problem("malformed", detail)
