"""`python -m oncue_bench`: measure, and say what was found."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import replace
from importlib import import_module
from pathlib import Path

from oncue_bench.rendering import as_markdown, as_table, with_others
from oncue_bench.report import Report
from oncue_bench.run import ON, ModulesMissing, run
from oncue_bench.sizes import DEFAULT, FULL, QUICK, Sizes

SECTIONS = {
    "dynamodb": "dynamodb.section",
    "sqs": "sqs.section",
    "celery": "celery.work",
    "postgresql": "postgresql.section",
}
"""The module that writes the section of a store into the page."""


def main(arguments: Sequence[str] | None = None) -> int:
    parser = _parser()
    asked = parser.parse_args(arguments)
    wrong = _unmeasured(asked.only, asked.store)
    if wrong:
        parser.error(f"argument --only: {wrong}")
    quiet = asked.json and not sys.stderr.isatty()
    try:
        report = run(_sizes(asked), asked.only, _silent if quiet else _tell, asked.store)
    except ModulesMissing as missing:
        print(f"Error: {missing}", file=sys.stderr)
        return 1
    print(json.dumps(report.as_dict(), indent=2) if asked.json else as_table(report))
    if asked.write is not None:
        _write(report, asked.store, asked.write)
    return 0


def _write(report: Report, store: str, page: Path) -> None:
    """The page with what was measured; of another store than SQLite only its section."""
    section = SECTIONS.get(store.partition(":")[0])
    if section is not None:
        import_module(f"oncue_bench.{section}").write(report, page)
        return
    old = page.read_text("utf-8") if page.exists() else ""
    page.write_text(with_others(as_markdown(report), old), "utf-8")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("oncue bench", description="Measure oncue on this machine.")
    add = parser.add_argument
    add("--store", type=_store, default="sqlite", help=f"{', '.join(ON)} or a URL")
    add("--n", type=int, metavar="N", help="jobs in the large burst (default 1,000,000)")
    add("--quick", action="store_true", help="smaller and sooner: about four minutes")
    add(
        "--full",
        action="store_true",
        help="larger, where the default is small (stores other than SQLite)",
    )
    parts = [work for works in ON.values() for work in works]
    add("--only", action="append", default=[], choices=parts, help="one part; repeatable")
    add("--json", action="store_true", help="one JSON document instead of the table")
    add("--write", type=Path, metavar="FILE", help="also write docs/benchmarks.md, or its part")
    return parser


def _store(text: str) -> str:
    """A URL is one of DynamoDB or of PostgreSQL."""
    if text not in ON and not text.startswith(("dynamodb://", "postgresql://")):
        known = f"one of {', '.join(ON)}, or dynamodb://TABLE?…, or postgresql://…"
        raise argparse.ArgumentTypeError(known)
    return text


def _unmeasured(only: Sequence[str], store: str) -> str:
    """Why these parts cannot be measured on the store, if they cannot."""
    kind = store.partition(":")[0]
    wrong = [work for work in only if work not in ON[kind]]
    if not wrong:
        return ""
    [place] = [other for other, works in ON.items() if wrong[0] in works]
    known = f"{kind} has {', '.join(ON[kind])}"
    return f"{wrong[0]} is not measured on {kind}, but with --store {place} ({known})"


def _sizes(asked: argparse.Namespace) -> Sizes:
    sizes = QUICK if asked.quick else FULL if asked.full else DEFAULT
    return sizes if asked.n is None else replace(sizes, large=asked.n)


def _tell(text: str) -> None:
    print(f"… {text}", file=sys.stderr, flush=True)


def _silent(text: str) -> None:
    pass


if __name__ == "__main__":
    sys.exit(main())
