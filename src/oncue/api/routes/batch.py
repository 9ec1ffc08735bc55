"""`POST /jobs/batch`: many jobs in one request, as a stream.

The body is read block by block and never as a whole: a block is split, taken in and stored before
the next is asked for, so memory does not grow with the body and a client that is too fast waits. A
thread of its own does that; the loop goes on answering others.
"""

from __future__ import annotations

import codecs
import logging
from collections.abc import AsyncIterator, Iterator
from typing import TYPE_CHECKING, Annotated

from msgspec import Meta

from oncue.api import problems
from oncue.api.elements import LIMIT, Elements, Lines, Splitter
from oncue.api.inflating import Inflating
from oncue.api.problems import HttpProblem
from oncue.api.request import JSON_TYPE, Gone, HttpAnswer, Request, json_answer
from oncue.api.routes.jobs import derived_id, idempotency_key, key_reused, new_job
from oncue.api.routing import Routes
from oncue.api.unreadable import UNREADABLE, read_json, unreadable
from oncue.core.access import Scope
from oncue.core.errors import IdTaken, InvalidInput, StoreError, TooLarge
from oncue.core.job import NewJob
from oncue.core.text import why_not_json
from oncue.scheduler import Scheduler
from oncue.usecases.storing import IDS_KEPT
from oncue.wire import jobs as wire

if TYPE_CHECKING:
    from oncue.api.app import Service

LINE_TYPES = ("application/x-ndjson", "application/jsonl", "application/jsonlines")
BLOCK = 512 * 1024  # bytes that are taken in at once
STEP = 1000  # jobs stored by one transaction, for which other writers wait
INFLATED_LIMIT = 256 * 1024 * 1024  # bytes of a compressed body; a plain one has no limit
REJECTED_KEPT = 1000

logger = logging.getLogger("oncue.http")

routes = Routes("Jobs")


@routes.add(
    "POST /jobs/batch",
    Scope.WRITE,
    wire.BatchReport,
    {
        LINE_TYPES[0]: Annotated[str, Meta(description="One `NewJob` per line.")],
        JSON_TYPE: list[wire.NewJob],
    },
    headers=("Idempotency-Key",),
)
async def create_jobs(service: Service, request: Request) -> HttpAnswer:
    """Create many jobs, streamed.

    One job per line (NDJSON), or an array. Not atomic: each is stored or rejected separately.
    Accepted jobs are durable when the answer arrives. With an `Idempotency-Key` a batch can be sent
    again: only the missing jobs are stored. The body may be sent with `Content-Encoding: gzip`.
    """
    batch = BatchIntake(service.cue, idempotency_key(request))
    try:
        async for block in _blocks(request):
            if batch.splitter is None:
                batch.inflating = request.inflating(INFLATED_LIMIT)
                batch.splitter = _splitter(request)
            pieces = batch.pieces(block)
            while await service.take_in(batch.take, pieces):
                if request.is_gone:  # a small block may stand for very many jobs
                    raise Gone
        await service.take_in(batch.end)
    except StoreError as error:
        logger.error("%s: %s", request.id, error, extra={"request_id": request.id})
        raise _interrupted(batch.report.accepted, error) from None
    except HttpProblem as problem:  # the rest of the body did not come
        problem.fields.accepted = batch.report.accepted
        raise
    return json_answer(batch.report)


async def _blocks(request: Request) -> AsyncIterator[bytes]:
    """The body in large blocks. When the client leaves, the rest that had arrived comes first."""
    parts: list[bytes] = []
    size = 0
    left: Gone | None = None
    try:
        async for part in request.parts():
            parts.append(part)
            size += len(part)
            if size >= BLOCK:
                yield b"".join(parts)
                parts, size = [], 0
    except Gone as gone:
        left = gone
    if parts:
        yield b"".join(parts)
    if left is not None:
        raise left


def _splitter(request: Request) -> Splitter:
    given = request.require_media_type((*LINE_TYPES, JSON_TYPE))
    return Elements() if given == JSON_TYPE else Lines()


def _interrupted(accepted: int, error: StoreError) -> HttpProblem:
    problem = problems.of(error)
    problem.fields.accepted = accepted
    problem.fields.detail = (
        f"The store cannot answer now. {accepted:,} jobs of this batch are stored for certain. "
        "With an Idempotency-Key, send the whole batch again: it stores only what is missing."
    )
    return problem


class BatchIntake:
    """A batch that is arriving, and the report on its lines so far."""

    def __init__(self, cue: Scheduler, key: str | None) -> None:
        """`key`: the idempotency key, if there is one."""
        self.report = wire.BatchReport(accepted=0, existing=0)
        self.splitter: Splitter | None = None
        """None: nothing of the body has arrived."""
        self.inflating: Inflating | None = None
        """None: the body is not compressed."""
        self._cue = cue
        self._key = key
        self._begun = False
        self._line = 0
        self._ids: dict[int, str | None] = {}  # by line, of those that were jobs

    def pieces(self, block: bytes) -> Iterator[bytes]:
        """What this block of the body stands for."""
        return iter((block,)) if self.inflating is None else self.inflating.feed(block)

    def take(self, pieces: Iterator[bytes]) -> bool:
        """Store the jobs that the next piece completes. Whether another piece may follow."""
        assert self.splitter is not None
        piece = next(pieces, None)
        if piece is None:
            return False
        if not self._begun:
            self._begun, piece = True, piece.removeprefix(codecs.BOM_UTF8)
        self._store_all(self.splitter.feed(piece))
        return self.inflating is not None

    def end(self) -> None:
        """The body is complete."""
        if self.splitter is None:
            return
        if self.inflating is not None:
            self.inflating.end()
        self._store_all(self.splitter.end())
        if self.splitter.trouble is not None:
            self._line += 1
            self._count({self._line: _malformed(self.splitter.trouble)}, {})
        if self._line <= IDS_KEPT:
            self.report.ids = [self._ids.get(line) for line in range(1, self._line + 1)]

    def _store_all(self, texts: list[bytes | None]) -> None:
        for start in range(0, len(texts), STEP):
            some = texts[start : start + STEP]
            if isinstance(self.splitter, Lines) and set(some) == {b""}:
                self._line += len(some)
                continue
            refused: dict[int, HttpProblem] = {}
            jobs = dict(self._taken_in(some, refused))
            stored = self._cue.store_jobs(list(jobs.values()))
            lines = list(jobs) if stored.refused else []
            for position, error in stored.refused.items():
                reused = self._key is not None and isinstance(error, IdTaken)
                refused[lines[position]] = key_reused() if reused else problems.of(error)
            self.report.existing += stored.existing
            self._count(refused, dict(zip(jobs, stored.ids, strict=True)))

    def _taken_in(
        self, texts: list[bytes | None], refused: dict[int, HttpProblem]
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
                if text.strip() or not isinstance(self.splitter, Lines):
                    refused[line] = _unreadable(text, problem)

    def _count(self, refused: dict[int, HttpProblem], ids: dict[int, str | None]) -> None:
        """`ids` are those of the lines that were jobs; None where the job was refused."""
        report = self.report
        report.accepted += sum(one is not None for one in ids.values())
        report.rejected_count += len(refused)
        for line in sorted(refused)[: REJECTED_KEPT - len(report.rejected)]:
            problem = refused[line].fields
            report.rejected.append(wire.BatchProblem(line, problem.status, problem.detail))
        if self._line <= IDS_KEPT:
            self._ids |= ids
        else:
            self._ids.clear()


def _unreadable(text: bytes, problem: Exception) -> HttpProblem:
    found = unreadable(text, problem)
    if found.fields.status != 400 or isinstance(problem, RecursionError):
        return found
    return _malformed(f"not JSON in UTF-8: {why_not_json(problem)}.")


def _malformed(detail: str) -> HttpProblem:
    return HttpProblem("malformed", detail)
