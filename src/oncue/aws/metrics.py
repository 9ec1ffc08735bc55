"""Metrics in the embedded format of CloudWatch: a line of JSON in the log of a function, from which
CloudWatch makes metrics."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from oncue.core.moment import Moment

NAMESPACE = "oncue"
UNITS = {"lateness": "Milliseconds", "duration": "Milliseconds"}

Value = float | Sequence[float]


def emit(dimensions: Mapping[str, str], values: Mapping[str, Value], now: Moment) -> None:
    """Print metrics with the same dimensions, such as the queue. A metric is one value, or up to
    a hundred of which CloudWatch makes a distribution."""
    metrics = [{"Name": name, "Unit": UNITS.get(name, "Count")} for name in values]
    directive = {"Namespace": NAMESPACE, "Dimensions": [list(dimensions)], "Metrics": metrics}
    head = {"_aws": {"Timestamp": now, "CloudWatchMetrics": [directive]}}
    print(json.dumps({**head, **dimensions, **values}), flush=True)
