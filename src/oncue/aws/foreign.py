"""`oncue.aws.reclaim`: a reclaim run as a Lambda function, over a DynamoDB table of another system
or, if the event names no table, over oncue's own store."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import msgspec

from oncue.aws import metrics, sandbox
from oncue.aws.agenda_endpoint import AgendaEndpoint
from oncue.aws.exchange import REQUEST_SECONDS, Exchange, checked_url
from oncue.aws.foreign_run import ForeignRun
from oncue.aws.identity import ENCRYPTED, Identity
from oncue.aws.sandbox import Context, Event
from oncue.clock import SystemClock
from oncue.core.duration import spoken
from oncue.core.errors import InvalidInput
from oncue.core.reclaim import NAMES, ForeignTable, ReclaimParameters, ReclaimReport
from oncue.engine.alarm import Alarm
from oncue.wire import reclaim as wire

IDENTITY_URL = "IDENTITY_URL"
USER = "IDM_USER"
ENDPOINT_URL = "AGENDA_PROGRESS_URL"
RESERVE_SECONDS = 5.0  # for the record in hand when the time is over, and the report
LEAST_PATIENCE_SECONDS = 0.1

clock = SystemClock()
logger = logging.getLogger("oncue.aws")


def reclaim(event: Event, context: Context) -> dict[str, Any]:
    """Parameters are those of a reclaim run; the answer is its report."""
    given = _parameters_in(event)
    parameters = wire.parameters(given)
    if parameters.is_foreign:
        if "mode" not in given:
            parameters = replace(parameters, mode="fail")
        report = _on_table(wire.foreign_table(parameters), parameters, context)
    else:
        report = _on_own_store(parameters, context)
    answer: dict[str, Any] = msgspec.to_builtins(wire.ReclaimReport.of(report))
    return answer


def _parameters_in(event: Any) -> Mapping[str, Any]:
    """An event of EventBridge has them in `detail`; else they are the event."""
    if isinstance(event, Mapping) and "detail-type" in event:
        event = event.get("detail") or {}
    if not isinstance(event, Mapping):
        raise InvalidInput("the parameters are a JSON object.")
    return event


def _on_own_store(parameters: ReclaimParameters, context: Context) -> ReclaimReport:
    parameters, warnings = _fitted(parameters, context)
    report = sandbox.scheduler().reclaim(**{name: getattr(parameters, name) for name in NAMES})
    for warning in warnings:
        logger.warning("reclaim run: %s", warning)
    report.warnings[:0] = warnings
    _emit({}, report)
    return report


def _on_table(
    table: ForeignTable, parameters: ReclaimParameters, context: Context
) -> ReclaimReport:
    identity, url = _settings(parameters)
    exchange = Exchange(lambda: _patience(context))
    fitted, warnings = _fitted(parameters, context)
    run = ForeignRun(table, fitted, AgendaEndpoint(url, identity, exchange), clock)
    for warning in warnings:
        run.warn(warning)
    alarm = Alarm(clock)
    try:
        while (rest := run.step()) is not None:
            alarm.pause(rest)
    finally:
        exchange.close()
        _emit({"table": table.name}, run.report)
    return run.report


def _settings(parameters: ReclaimParameters) -> tuple[Identity, str]:
    """Who signs in, and the endpoint; an error names all variables that are missing."""
    endpoint = parameters.agenda_progress_endpoint_url
    needed = [IDENTITY_URL, USER, ENCRYPTED, *([] if endpoint else [ENDPOINT_URL])]
    missing = [name for name in needed if not os.environ.get(name)]
    if missing:
        raise InvalidInput(
            f"the environment must have {', '.join(missing)} for a table of another system.",
            f"/{missing[0]}",
        )
    identity_url = checked_url(os.environ[IDENTITY_URL], IDENTITY_URL, may_have_query=True)
    if endpoint:
        url = checked_url(endpoint, "agendaProgressEndpointURL")
    else:
        url = checked_url(os.environ[ENDPOINT_URL], ENDPOINT_URL)
    return Identity(identity_url, os.environ[USER], os.environ[ENCRYPTED]), url


def _fitted(parameters: ReclaimParameters, context: Context) -> tuple[ReclaimParameters, list[str]]:
    """The parameters of a run that ends before the function does; and a warning, if it was asked
    for more time than the function has."""
    left, wanted = _left_seconds(context), parameters.maximum_execution_seconds
    most = left - min(RESERVE_SECONDS, left / 4)
    if wanted <= most:
        return parameters, []
    warnings = []
    if wanted > left:
        warnings.append(
            f"maximumExecutionSeconds is {wanted:g}, but the function has only {spoken(left)} "
            f"left: the run ends after {spoken(most)}. Give the function a longer timeout."
        )
    return replace(parameters, maximum_execution_seconds=most), warnings


def _left_seconds(context: Context) -> float:
    return max(0.0, context.get_remaining_time_in_millis() / 1000)


def _patience(context: Context) -> float:
    """How long a request may take, so that the report can still be given."""
    left = _left_seconds(context) - 2 * LEAST_PATIENCE_SECONDS
    return max(LEAST_PATIENCE_SECONDS, min(REQUEST_SECONDS, left))


def _emit(dimensions: Mapping[str, str], report: ReclaimReport) -> None:
    names = ("scanned", "reclaimed", "retried", "failed", "cancelled", "lost_races", "anomalies")
    values = {name: getattr(report, name) for name in (*names, "would_reclaim_count")}
    if report.errors is not None:
        values["errors"] = report.errors
    metrics.emit(dimensions, values, clock.now())
