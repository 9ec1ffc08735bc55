"""The whole benchmark, from an empty folder to a report."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Collection, Iterator
from dataclasses import asdict
from time import perf_counter

from oncue.core.redaction import shown_url
from oncue_bench import (
    bulk,
    bursts,
    cold_imports,
    creating,
    events,
    growth,
    hostile,
    http,
    machine,
    precision,
    reclaiming,
    schedules,
)
from oncue_bench.celery import work as celery
from oncue_bench.dynamodb import work as dynamodb
from oncue_bench.postgresql import work as postgresql
from oncue_bench.processes import measure
from oncue_bench.report import Report, Row
from oncue_bench.rounds import Ground
from oncue_bench.sizes import Sizes
from oncue_bench.sqs import work as sqs

WORKS: dict[str, Callable[[Ground], Iterator[Row]]] = {
    "W1": creating.rows,
    "W2": bursts.rows,
    "W3": precision.rows,
    "W4": growth.rows,
    "W5": http.rows,
    "W6": events.rows,
    "W7": schedules.rows,
    "W8": reclaiming.rows,
    "W9": bulk.rows,
}

ON: dict[str, dict[str, Callable[[Ground], Iterator[Row]]]] = {
    "sqlite": WORKS,
    "hostile": {"W10": hostile.rows},
    "dynamodb": {"W11": dynamodb.rows},
    "lambda": {"W12": cold_imports.rows},
    "sqs": {"W13": sqs.rows},
    "celery": {"W14": celery.rows},
    "postgresql": {"W15": postgresql.rows},
}
"""What is measured on each store. Those of DynamoDB and PostgreSQL may be given as a URL; for the
functions of Lambda, nothing is stored."""


def run(
    sizes: Sizes,
    only: Collection[str] = (),
    progress: Callable[[str], None] = lambda text: None,
    store: str = "sqlite",
) -> Report:
    """Measure all works, or those of `only`. `progress` is told what is going on."""
    folder = machine.disk_folder()
    began = perf_counter()
    try:
        report = Report(machine.describe(folder), {**asdict(sizes), "store": shown_url(store)})
        ground = Ground(sizes, folder, measure("idle").peak_kib, progress, store)
        for work, rows in ON[store.partition(":")[0]].items():
            if not only or work in only:
                report.rows.extend(rows(ground))
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    report.seconds = perf_counter() - began
    return report
