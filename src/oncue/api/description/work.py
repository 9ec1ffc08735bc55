"""Workers of pulled queues: claim, report, settle."""

from __future__ import annotations

from oncue.api.description.about import About, Answered, json
from oncue.api.description.samples import FENCED, ID, OPERATION, TAKEN, TOKEN
from oncue.wire import claims as wire
from oncue.wire.jobs import JobOperation

TAG = "Workers"
_LEASE = "2026-12-01T12:01:00.004Z"
_CLAIM = {"token": TOKEN, "lease_until": _LEASE, "attempt_timeout_seconds": 900.0}
_HELD = {"lease_until": _LEASE, "cancel_requested": False}
_CLAIMS = {"items": [{**TAKEN, **_CLAIM, "operations": []}]}
_PROVED = "Authorised by the token of the claim. Repeating it with the same token is harmless."

ABOUT = {
    ("POST", "/queues/{queue}/claim"): About(
        "claimJobs",
        TAG,
        "Takes due jobs under a lease, for work on them to be reported with their tokens. With "
        "`wait_seconds` the answer waits for the first due job, at most so long. Nothing to do is "
        "an empty list. Work that was taken back from a lost claim is handed out first, one job "
        "at a time. If the client has left before it is answered, the jobs are released at once.",
        {200: Answered("What was taken.", wire.Claims, _CLAIMS)},
        json(wire.Claim, {"limit": 10, "wait_seconds": 20, "worker": "mailer-1"}),
    ),
    ("POST", "/claim"): About(
        "claimJobsOfQueues",
        TAG,
        "As for one queue; the queues take turns.",
        {200: Answered("What was taken.", wire.Claims, _CLAIMS)},
        json(
            wire.ClaimAny,
            {"queues": ["mail", "letters"], "limit": 10, "wait_seconds": 20, "worker": "mailer-1"},
            required=True,
        ),
    ),
    ("POST", "/jobs/{id}/start"): About(
        "startJob",
        TAG,
        f"Optional: any other report implies it. {_PROVED}",
        {200: Answered("Begun.", wire.Started, {"id": ID, "state": "executing", **_HELD})},
        json(wire.Start, {"token": TOKEN}, required=True),
        problems=(404, 409),
        claim=True,
    ),
    ("POST", "/jobs/{id}/heartbeat"): About(
        "heartbeatJob",
        TAG,
        "Renews the lease. Send one every third of a lease, and stop working when "
        f"`cancel_requested` is true or the answer is a problem. {_PROVED}",
        {
            200: Answered(
                "The claim holds.",
                wire.Touched,
                _HELD,
            )
        },
        json(
            wire.Heartbeat,
            {"token": TOKEN, "message": "3 of 10 letters", "percent": 30},
            required=True,
        ),
        problems=(404, 409),
        claim=True,
    ),
    ("PUT", "/jobs/{id}/operations/{name}"): About(
        "reportOperation",
        TAG,
        "A step that has succeeded is not done again by the next attempt, which is given its "
        "result with the claim. Another result than the first is refused. The result of a step "
        "that has not succeeded is kept until a later report replaces it, and the next attempt is "
        "given it. "
        f"{_PROVED}",
        {200: Answered("The step.", JobOperation, OPERATION)},
        json(
            wire.OperationReport,
            {"token": TOKEN, "state": "succeeded", "result": {"receipt": 1001}, "percent": 100},
            required=True,
        ),
        problems=(404, 409),
        claim=True,
    ),
    ("POST", "/jobs/{id}/complete"): About(
        "completeJob",
        TAG,
        "With the token of the claim; without one, with an access token of scope `admin`, which "
        f"vouches for the present claim. {_PROVED}",
        {200: Answered("Done.", wire.JobState, {"id": ID, "state": "succeeded"})},
        json(wire.Complete, {"token": TOKEN, "result": {"message_id": "a1"}}),
        problems=(404, 409),
        claim=True,
    ),
    ("POST", "/jobs/{id}/fail"): About(
        "failJob",
        TAG,
        "Due again after a pause while attempts remain, else failed. `retry_after` replaces the "
        f"queue's back-off. {_PROVED}",
        {200: Answered("What became of the job.", wire.JobState, {"id": ID, "state": "scheduled"})},
        json(
            wire.Fail,
            {"token": TOKEN, "error": "the mail server did not answer", "retry_after": 30},
            required=True,
        ),
        problems=(404, 409),
        claim=True,
    ),
    ("POST", "/jobs/{id}/release"): About(
        "releaseJob",
        TAG,
        f"For a clean shutdown: due again at once, the attempt does not count. {_PROVED}",
        {200: Answered("What became of the job.", wire.JobState, {"id": ID, "state": "scheduled"})},
        json(wire.Release, {"token": TOKEN}, required=True),
        problems=(404, 409),
        claim=True,
    ),
    ("POST", "/settle"): About(
        "settleJobs",
        TAG,
        "Up to 1,000 ends in one request. Each is applied or refused by itself.",
        {
            200: Answered(
                "An answer for each, in order.",
                wire.SettledItems,
                {
                    "items": [
                        {"id": ID, "state": "succeeded"},
                        {"id": "order-7", "problem": FENCED},
                    ]
                },
            )
        },
        json(
            wire.Settle,
            {"items": [{"id": ID, "token": TOKEN, "outcome": "complete", "result": 42}]},
            required=True,
        ),
    ),
    ("POST", "/heartbeat"): About(
        "heartbeatJobs",
        TAG,
        "Up to 1,000 signs of life in one request. Each is applied or refused by itself.",
        {
            200: Answered(
                "An answer for each, in order.",
                wire.BeatenItems,
                {"items": [{"id": ID, **_HELD}]},
            )
        },
        json(wire.Heartbeats, {"items": [{"id": ID, "token": TOKEN}]}, required=True),
    ),
}
