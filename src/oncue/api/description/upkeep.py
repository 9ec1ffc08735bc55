"""For those who run the server."""

from __future__ import annotations

from typing import Any

from oncue.api import answers
from oncue.api.description.about import About, Answered
from oncue.wire.problems import ProblemKind

TAG = "Server"
HTML, CSS, SCRIPT = "text/html", "text/css", "text/javascript"

ABOUT = {
    ("GET", "/livez"): About(
        "isAlive",
        TAG,
        "The process answers. Restart it if it does not.",
        {200: Answered("It is.", answers.Alive, {"status": "alive", "version": "0.1.0"})},
        static=True,
    ),
    ("GET", "/readyz"): About(
        "isReady",
        TAG,
        "The store can be reached and its schema is the one this version wants. Send no traffic "
        "while it is not.",
        {
            200: Answered(
                "It can.", answers.Ready, {"status": "ready", "store": "sqlite", "schema": 3}
            )
        },
    ),
    ("GET", "/access"): About(
        "getAccess",
        TAG,
        "The scopes of the token that is sent; 'admin' includes the others. A server that has no "
        "tokens allows this machine everything.",
        {200: Answered("What is allowed.", answers.Allowed, {"scopes": ["read", "write"]})},
        problems=(401,),
    ),
    ("GET", "/metrics"): About(
        "getMetrics",
        TAG,
        "In the text format of Prometheus.",
        {
            200: Answered(
                "The measurements.",
                example='oncue_jobs{queue="mail",state="scheduled"} 12.0\n',
                media_type="text/plain",
            )
        },
    ),
    ("GET", "/problems/{kind}"): About(
        "getProblemKind",
        TAG,
        "Every problem's `type` is an address here.",
        {
            200: Answered(
                "What it means.",
                ProblemKind,
                {
                    "type": "/problems/fenced",
                    "title": "The claim is no longer the current one",
                },
            )
        },
        problems=(404,),
        static=True,
    ),
    ("GET", "/openapi.json"): About(
        "getDescription",
        TAG,
        "OpenAPI 3.1. With an `ETag`; send it back as `If-None-Match` to learn whether anything "
        "has changed.",
        {
            200: Answered("The description.", dict[str, Any], headers=("ETag",)),
            304: Answered("You have it already.", headers=("ETag",)),
        },
        static=True,
    ),
    ("GET", "/docs"): About(
        "getDocs",
        TAG,
        "One page, nothing from elsewhere.",
        {
            200: Answered("The page.", media_type=HTML, headers=("ETag",)),
            304: Answered("You have it already.", headers=("ETag",)),
        },
        static=True,
    ),
    ("GET", "/docs/style.css"): About(
        "getDocsStyle",
        TAG,
        "What the page looks like.",
        {
            200: Answered("The style sheet.", media_type=CSS, headers=("ETag",)),
            304: Answered("You have it already.", headers=("ETag",)),
        },
        static=True,
    ),
    ("GET", "/docs/script.js"): About(
        "getDocsScript",
        TAG,
        "Copies commands. The page can be read without it.",
        {
            200: Answered("The script.", media_type=SCRIPT, headers=("ETag",)),
            304: Answered("You have it already.", headers=("ETag",)),
        },
        static=True,
    ),
    ("GET", "/"): About(
        "getStart",
        TAG,
        "Leads to `/docs`.",
        {307: Answered("It is there.", headers=("Location",))},
        static=True,
    ),
}
