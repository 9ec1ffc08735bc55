"""`oncue jobs load`: many jobs from a file, in bounded memory, as often as it takes."""

from __future__ import annotations

import codecs
import hashlib
import os
import secrets
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import click
import msgspec

from oncue.cli import output
from oncue.cli.app import App, common
from oncue.cli.failures import EXIT_FAILED
from oncue.cli.nouns import answer
from oncue.cli.progress import ProgressBar
from oncue.core.errors import InvalidInput, ServerError, StoreError
from oncue.core.text import why_not_json
from oncue.usecases.jobs import JobVerbs, chunks

CHUNK_JOBS = 2000
CHUNK_BYTES = 8 * 1024 * 1024
LINE_BYTES = 2 * 1024 * 1024  # a payload of 256 KiB, every character escaped, and the rest
REJECTED_KEPT = 1000
REJECTED_SHOWN = 20


@click.command()
@click.argument("file", type=click.File("rb"))
@click.option(
    "--batch",
    metavar="NAME",
    help="Ids are made of this and the line number. Default: the file's name.",
)
@common
def load(app: App, file: BinaryIO, batch: str | None) -> None:
    """Store one job per line, a JSON object with the fields payload, queue, due_at, delay,
    expires_at, owner, priority, key, if_exists, max_attempts, timeout_seconds, id; at is another
    word for due_at.

    Bad lines are reported by number and do not stop the others; if there are any, the program ends
    with 1. A line that names no id gets one made of the batch and its number. So after an
    interruption, or after bad lines were corrected in place, repeat the command: it stores only the
    missing jobs. This works until a day after the jobs have finished.

    $ oncue jobs load jobs.ndjson
    $ zcat big.ndjson.gz | oncue jobs load - --batch 2026-12-01
    $ echo '{"queue": "mail", "delay": 60, "payload": {"to": "ada"}}' | oncue jobs load -
    """
    app.may_create = True
    # A pipe that a shell puts in the place of a file has a name that means nothing.
    piped = file is sys.stdin.buffer or not Path(file.name).is_file()
    batch = batch or (secrets.token_hex(4) if piped else Path(file.name).name)
    name = "-" if piped else file.name
    again = app.typed("jobs", "load", name, "--batch", batch)
    size = None if piped else Path(file.name).stat().st_size
    report = LoadReport()
    try:
        with ProgressBar("Loading", size) as bar:
            _load(app.cue, file, batch, report, bar)
    except (KeyboardInterrupt, StoreError, ServerError):
        output.note(f"Stopped; {report.accepted:,} jobs are stored. Continue with: {again}")
        raise
    _tell(app, report, batch)


@dataclass(slots=True)
class LoadReport:
    accepted: int = 0
    """Stored now or there already."""
    existing: int = 0
    key_held: int = 0
    """Of the existing: another job has the line's key, so the line itself is not stored."""
    rejected_count: int = 0
    rejected: list[dict[str, Any]] = field(default_factory=list)
    """The first thousand."""

    def reject(self, line: int, detail: str) -> None:
        self.rejected_count += 1
        if len(self.rejected) < REJECTED_KEPT:
            self.rejected.append({"line": line, "detail": detail})


class ReadyLine(NamedTuple):
    """A line that describes a job. `job` is ready to be stored."""

    number: int
    job_id: str
    job: Any
    size: int


def _load(
    cue: JobVerbs[Any], file: BinaryIO, batch: str, report: LoadReport, bar: ProgressBar
) -> None:
    """Lines in, chunks of jobs out. Repeating it stores nothing twice, as every job has an id."""
    prefix = hashlib.blake2b(os.fsencode(batch), digest_size=10).hexdigest()
    lines = _lines(cue, file, prefix, report)
    for chunk in chunks(lines, lambda line: line.size, CHUNK_JOBS, CHUNK_BYTES):
        _store(cue, chunk, report)
        bar.update(file.tell() if bar.total else 0, f"{report.accepted:,} jobs")
    report.rejected.sort(key=lambda bad: int(bad["line"]))


def _lines(
    cue: JobVerbs[Any], file: BinaryIO, prefix: str, report: LoadReport
) -> Iterator[ReadyLine]:
    for number, text in _numbered(file):
        if not text.strip():
            continue
        try:
            fields = _fields(text)
            job_id = fields.setdefault("id", f"{prefix}-{number}")
            yield ReadyLine(number, job_id, cue.ready(fields), len(text))
        except InvalidInput as problem:
            report.reject(number, str(problem))


def _store(cue: JobVerbs[Any], lines: list[ReadyLine], report: LoadReport) -> None:
    stored = cue.store_jobs([line.job for line in lines])
    for position, error in stored.refused.items():
        line = lines[position]
        report.reject(line.number, _refusal(line.job_id, str(error)))
    report.accepted += len(lines) - len(stored.refused)
    report.existing += stored.existing
    pairs = zip(lines, stored.ids, strict=True)
    report.key_held += sum(found not in (None, line.job_id) for line, found in pairs)


def _refusal(job_id: str, detail: str) -> str:
    if repr(job_id) not in detail:
        return detail
    return (
        f"the id {job_id} belongs to a job with other fields: this line was another one "
        "when it was loaded before. Use another --batch for another file."
    )


def _fields(text: bytes) -> dict[str, Any]:
    if len(text) > LINE_BYTES:
        raise InvalidInput(f"is longer than {LINE_BYTES:,} bytes.")
    try:
        fields = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as problem:
        raise InvalidInput(f"is not JSON: {why_not_json(problem)}.") from None
    if not isinstance(fields, dict):
        raise InvalidInput("is not a JSON object.")
    return {name: value for name, value in fields.items() if value is not None}


def _numbered(file: BinaryIO) -> Iterator[tuple[int, bytes]]:
    """Lines from 1. Of one that is too long only as much is kept as shows that."""
    number = 0
    while text := file.readline(LINE_BYTES + 1):
        number += 1
        rest = text
        while len(rest) > LINE_BYTES and not rest.endswith(b"\n"):
            rest = file.readline(LINE_BYTES + 1)
        yield number, text.removeprefix(codecs.BOM_UTF8) if number == 1 else text


def _tell(app: App, report: LoadReport, batch: str) -> None:
    stored = f"{report.accepted - report.existing:,} stored, {report.existing:,} there already"
    rejected = f"{report.rejected_count:,} rejected (batch {batch})"
    answer(app, {"batch": batch, **asdict(report)}, f"{stored}, {rejected}")
    if report.key_held:
        output.note(
            f"{report.key_held:,} of those there already are other jobs that have a line's key; "
            "those lines are not stored."
        )
    for bad in report.rejected[:REJECTED_SHOWN]:
        output.note(f"line {bad['line']}: {output.clean(bad['detail'])}")
    if report.rejected_count > REJECTED_SHOWN:
        output.note(f"… and {report.rejected_count - REJECTED_SHOWN:,} more rejected lines")
    if report.rejected_count:
        raise click.exceptions.Exit(EXIT_FAILED)
