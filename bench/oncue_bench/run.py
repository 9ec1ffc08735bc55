"""The whole benchmark, from an empty folder to a report."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Collection, Iterator
from dataclasses import asdict
from importlib import import_module
from importlib.util import find_spec
from time import perf_counter

from oncue.core.redaction import shown_url
from oncue_bench import machine
from oncue_bench.processes import measure
from oncue_bench.report import Report, Row
from oncue_bench.rounds import Ground
from oncue_bench.sizes import Sizes

WORKS = {
    "W1": "creating",
    "W2": "bursts",
    "W3": "precision",
    "W4": "growth",
    "W5": "http",
    "W6": "events",
    "W7": "schedules",
    "W8": "reclaiming",
    "W9": "bulk",
}
"""The module of each work. It is imported when the work is measured: other stores need more."""

ON = {
    "sqlite": WORKS,
    "hostile": {"W10": "hostile"},
    "dynamodb": {"W11": "dynamodb.work"},
    "lambda": {"W12": "cold_imports"},
    "sqs": {"W13": "sqs.work"},
    "celery": {"W14": "celery.work"},
    "postgresql": {"W15": "postgresql.work"},
}
"""What is measured on each store. Those of DynamoDB and PostgreSQL may be given as a URL; for the
functions of Lambda, nothing is stored."""

_NEEDS = {
    "W5": {"uvicorn": "uvicorn"},
    "W11": {"boto3": "boto3"},
    "W12": {"boto3": "boto3"},
    "W13": {"boto3": "boto3"},
    "W14": {"celery": "'celery[redis]'"},
    "W15": {"psycopg": "'psycopg[binary]'", "psycopg_pool": "psycopg-pool"},
}
"""Modules that a work needs besides those of oncue, and what pip calls them."""


class ModulesMissing(Exception):
    """What is to be measured needs modules that are not installed; the text says what to do."""


def run(
    sizes: Sizes,
    only: Collection[str] = (),
    progress: Callable[[str], None] = lambda text: None,
    store: str = "sqlite",
) -> Report:
    """Measure all works, or those of `only`. `progress` is told what is going on."""
    works = {
        work: module
        for work, module in ON[store.partition(":")[0]].items()
        if not only or work in only
    }
    _require(works)
    folder = machine.disk_folder()
    began = perf_counter()
    try:
        report = Report(machine.describe(folder), {**asdict(sizes), "store": shown_url(store)})
        ground = Ground(sizes, folder, measure("idle").peak_kib, progress, store)
        for module in works.values():
            report.rows.extend(_rows(module)(ground))
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    report.seconds = perf_counter() - began
    return report


def _rows(module: str) -> Callable[[Ground], Iterator[Row]]:
    rows: Callable[[Ground], Iterator[Row]] = import_module(f"oncue_bench.{module}").rows
    return rows


def _require(works: Collection[str]) -> None:
    """Refuse to begin what would end after minutes for want of a module."""
    lacking = {
        name: package
        for work in works
        for name, package in _NEEDS.get(work, {}).items()
        if find_spec(name) is None
    }
    if not lacking:
        return
    needing = [work for work in works if lacking.keys() & _NEEDS.get(work, {}).keys()]
    are = "are" if len(lacking) > 1 else "is"
    others = ". Other parts can be measured without it: --only" if WORKS.keys() & needing else ""
    raise ModulesMissing(
        f"{', '.join(needing)} of the benchmark needs {' and '.join(lacking)}, which {are} not "
        f"installed. 'make bench' installs what it needs; for this Python: pip install "
        f"{' '.join(lacking.values())}{others}"
    )
