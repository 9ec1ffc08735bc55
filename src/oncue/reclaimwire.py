"""A reclaim run as JSON: its parameters and its report, over HTTP and on the terminal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from oncue.core.errors import InvalidInput
from oncue.core.lifecycle import State
from oncue.core.moment import parse, to_datetime
from oncue.core.reclaim import NAMES, Finding, ReclaimParameters, ReclaimReport
from oncue.core.reclaim import parameters as by_name
from oncue.wire.converting import time_text as rfc3339


def camel(name: str) -> str:
    """`scan_delay_millis` → `scanDelayMillis`; URL stays in capitals."""
    first, *others = name.split("_")
    return first + "".join("URL" if word == "url" else word.capitalize() for word in others)


NAME_SHOWN = 80  # characters of a name that nobody knows
PARAMETERS = {camel(name): name for name in NAMES}


def parameters(members: Any) -> ReclaimParameters:
    """From the members of a JSON object; what is wrong is told in their names."""
    if not isinstance(members, Mapping):
        raise InvalidInput("the parameters are a JSON object.")
    given: dict[str, Any] = {}
    for member, value in members.items():
        if member not in PARAMETERS:
            known = ", ".join(PARAMETERS)
            place = str(member)[:NAME_SHOWN].replace("~", "~0").replace("/", "~1")
            raise InvalidInput(f"there is no such parameter; known are {known}.", f"/{place}")
        given[PARAMETERS[member]] = value
    try:
        return by_name(given)
    except InvalidInput as problem:
        raise InvalidInput(problem.detail, "/" + camel(problem.pointer[1:])) from None


def members(parameters: ReclaimParameters) -> dict[str, Any]:
    """All that were given: None is not said."""
    told = {member: getattr(parameters, name) for member, name in PARAMETERS.items()}
    return {member: value for member, value in told.items() if value is not None}


def report_members(report: ReclaimReport) -> dict[str, Any]:
    told: dict[str, Any] = {
        "scanned": report.scanned,
        "reclaimed": report.reclaimed,
        "retried": report.retried,
        "failed": report.failed,
        "cancelled": report.cancelled,
        "lostRaces": report.lost_races,
        "anomalies": report.anomalies,
    }
    if report.would_reclaim is not None:
        told["wouldReclaimCount"] = report.would_reclaim_count
        told["wouldReclaim"] = [_finding_members(one) for one in report.would_reclaim]
    return told | {"warnings": report.warnings, "endedBy": report.ended_by}


def report(members: Mapping[str, Any]) -> ReclaimReport:
    """Read again what `report_members` wrote."""
    would = members.get("wouldReclaim")
    return ReclaimReport(
        scanned=members["scanned"],
        retried=members["retried"],
        failed=members["failed"],
        cancelled=members["cancelled"],
        lost_races=members["lostRaces"],
        anomalies=members["anomalies"],
        would_reclaim=None if would is None else [_finding(one) for one in would],
        would_reclaim_count=members.get("wouldReclaimCount", 0),
        warnings=list(members["warnings"]),
        ended_by=members["endedBy"],
    )


def _finding_members(one: Finding) -> dict[str, Any]:
    return {
        "id": one.id,
        "queue": one.queue,
        "state": one.state.value,
        "attempt": one.attempt,
        "worker": one.worker,
        "updatedTime": rfc3339(one.updated_at),
        "ageSeconds": one.age_seconds,
        "decision": one.decision,
        "code": one.code,
        "why": one.why,
    }


def _finding(members: Mapping[str, Any]) -> Finding:
    return Finding(
        id=members["id"],
        queue=members["queue"],
        state=State(members["state"]),
        attempt=members["attempt"],
        worker=members["worker"],
        updated_at=to_datetime(parse(members["updatedTime"])),
        age_seconds=members["ageSeconds"],
        decision=members["decision"],
        code=members["code"],
        why=members["why"],
    )
