"""Every status that tells of a problem, with an example of each kind it comes in."""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec

from oncue.api.docs.samples import FENCED, ID
from oncue.api.problems import Problem, invalid, stopping
from oncue.api.routing import Route
from oncue.wire.problems import FieldProblem


class Refusal(NamedTuple):
    """`name` is that of the component in OpenAPI."""

    name: str
    text: str
    examples: tuple[Problem, ...]
    headers: tuple[str, ...] = ()

    def fields(self) -> dict[str, dict[str, Any]]:
        """The bodies, by kind."""
        told = {problem.kind: msgspec.to_builtins(problem.written()) for problem in self.examples}
        return told | ({"fenced": FENCED} if self.name == "Conflict" else {})


REFUSALS = {
    400: Refusal(
        "Malformed",
        "The request cannot be read: broken JSON, not UTF-8.",
        (Problem("malformed", "The body is not JSON in UTF-8: JSON is malformed."),),
    ),
    401: Refusal(
        "Unauthenticated",
        "An access token is needed.",
        (
            Problem(
                "unauthenticated",
                "Send Authorization: Bearer TOKEN with a token made by 'oncue token create'.",
            ),
        ),
        ("WWW-Authenticate",),
    ),
    403: Refusal(
        "Forbidden",
        "The access token lacks the scope; or, where no token is configured, the request comes "
        "from somewhere else than this machine.",
        (
            Problem(
                "forbidden",
                "This token lacks the scope 'write'. Make one that has it: "
                "oncue token create --scope write",
            ),
            Problem("refused-origin", "A page of another site may not change anything here."),
        ),
    ),
    404: Refusal(
        "NotFound",
        "There is no such thing.",
        (
            Problem(
                "not-found",
                f"there is no job '{ID}'; it may be finished and past retention.",
            ),
        ),
    ),
    408: Refusal(
        "RequestTimeout",
        "The body did not arrive in time.",
        (Problem("request-timeout", "The body did not arrive in time."),),
    ),
    409: Refusal(
        "Conflict",
        "The request is right, but not now. Nothing was changed.",
        (
            Problem(
                "illegal-state",
                f"cannot cancel job {ID}: it is succeeded.",
                state="succeeded",
            ),
            Problem(
                "id-taken",
                "a job with the id 'order-1001' exists and was created with other fields. Choose "
                "another id, or send the same fields to get that job.",
            ),
            Problem(
                "key-taken",
                f"the key 'digest-ada' belongs to job {ID}, which is executing and can no longer "
                "be replaced. Wait until it ends, or use another key.",
            ),
            Problem(
                "event-id-taken",
                "the event id '42' belongs to another event, with another type, resource or "
                "timestamp. Choose another id, or none; nothing was stored.",
            ),
            Problem(
                "conflict", f"job {ID}: this operation has another result already; it is kept."
            ),
        ),
    ),
    413: Refusal(
        "TooLarge",
        "A payload or a result beyond 256 KiB, or a body beyond what is read.",
        (Problem("too-large", "The body is too large; at most 2,097,152 bytes are read here."),),
    ),
    415: Refusal(
        "UnsupportedMediaType",
        "The body is not of a media type that is read here.",
        (
            Problem(
                "unsupported-media-type",
                "The body's media type is 'text/plain'; send Content-Type: application/json.",
            ),
        ),
    ),
    422: Refusal(
        "Invalid",
        "Well formed but not valid: `errors` names the places. Unknown fields and unknown query "
        "parameters are refused, too.",
        (
            invalid("must be a whole number from 0 to 9.", "/priority"),
            Problem(
                "idempotency-key-reused",
                "This Idempotency-Key was sent before with other fields. Use a new key for a new "
                "job.",
                errors=[FieldProblem("", "not the fields that this key was first sent with.")],
            ),
        ),
    ),
    503: Refusal(
        "StoreUnavailable",
        "The store cannot answer now, or the server ends. Try again in a moment; with `lasting`, "
        "somebody has to mend the store first.",
        (
            Problem(
                "store-unavailable",
                "The store cannot answer now; nothing was lost. Try again in a moment.",
            ),
            stopping(),
        ),
        ("Retry-After",),
    ),
}


def statuses(route: Route) -> list[int]:
    """The problems that a route can be answered with."""
    found = {403, 422, *route.problems}
    if "{" in route.path or route.sent or route.parameters:
        found.add(400)
    if route.scope is not None or route.claim:
        found.add(401)
    if route.sent is not None:
        found |= {408, 413, 415}
    if not route.static:
        found.add(503)
    return sorted(found)
