"""Rules and events in Flask: an application of its own, or a part of yours.

    flask --app oncue.integrations.flask run

answers `POST /events`, loads its rules when it starts and logs the jobs that they create. In an
application of your own: `app.register_blueprint(blueprint(scheduler))`.
"""

from __future__ import annotations

import atexit
import logging
from importlib.resources import files
from pathlib import Path
from urllib.parse import quote, unquote

from flask import Blueprint, Flask, Response, request
from werkzeug.exceptions import NotFound
from werkzeug.routing import BaseConverter

from oncue import config
from oncue.api.guard import Guard
from oncue.api.inline import InlineService, whole_request
from oncue.api.problems import HttpProblem
from oncue.api.request import BODY_LIMIT, WITHOUT_CONTENT, HttpAnswer, Request, problem_answer
from oncue.api.routes.rules import routes
from oncue.api.routing import Route
from oncue.core.errors import InvalidInput
from oncue.core.rule import Rule
from oncue.scheduler import Scheduler
from oncue.telemetry import logs
from oncue.transfer import declared
from oncue.usecases.tokens import Access, KnownTokens

METHODS = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"]  # those not taken: 405
EXTENSION = "oncue"
EXAMPLES = "example_rules.json"

_EVENTS = [one for one in routes if (one.method, one.path) == ("POST", "/events")]
_RULES = [one for one in routes if one.path.startswith("/rules")]


def create_app(store: str | None = None, rules: str | None = None) -> Flask:
    """An application that answers `POST /events` and nothing else, and whose process delivers the
    jobs that come of it. `store` and `rules`, a file, are as ONCUE_STORE and ONCUE_RULES say if
    they are not given; without any rules, three examples are used. Rules that the store has under
    other names stay. Access is as in the HTTP interface on a loopback address: see `Guard`."""
    settings = config.read({"store": store, "rules": rules})
    if settings["url"].value is not None:
        place = config.written(settings["url"], "url")
        raise InvalidInput("names a server, and this application needs a store of its own.", place)
    wanted = _rules(settings["rules"])
    _show_deliveries(settings)

    bounds = config.event_bounds(settings)
    cue = Scheduler(str(settings["store"].value), event_bounds=bounds)
    declared.apply(cue, declared.compare(cue, wanted))
    access = Access(cue.store, cue.clock)

    async def tokens(token_id: str | None) -> KnownTokens:
        return access.known(token_id)

    guard = Guard(tokens, open_to_all=True)
    cue.run_loops()
    atexit.register(cue.close)
    app = Flask("oncue")
    app.extensions[EXTENSION] = cue
    # A server may load the application first and fork its workers then, so each request makes sure
    # that the loops run in its own process.
    app.before_request(cue.run_loops)
    app.register_blueprint(_blueprint(InlineService(cue, _EVENTS, guard), _EVENTS))
    app.register_error_handler(NotFound, _nothing_here)
    return app


def blueprint(scheduler: Scheduler, *, rules: bool = False) -> Blueprint:
    """`POST /events` for your own application, and `/rules` as in the HTTP interface if wanted.
    Who may call them is for the application to say; whether jobs are delivered in its process,
    too: `scheduler.run_loops()`."""
    wanted_routes = [*_EVENTS, *(_RULES if rules else [])]
    return _blueprint(InlineService(scheduler, wanted_routes), wanted_routes)


def _blueprint(service: InlineService, wanted_routes: list[Route]) -> Blueprint:
    """Passes on every request to the paths of these routes, or below. The service refuses methods
    that they do not have."""
    parts = Blueprint(EXTENSION, __name__)

    def answer(root: str, rest: str | None = None) -> Response:
        path = f"/{root}" if rest is None else f"/{root}/{rest}"
        return _response(service.answer(_whole(_as_sent(path))))

    parts.record(lambda state: state.app.url_map.converters.update({EXTENSION: Rest}))
    for root, below in sorted({one.path.partition("/{")[:2] for one in wanted_routes}):
        parts.add_url_rule(
            f"{root}/<{EXTENSION}:rest>" if below else root,
            endpoint=root[1:],
            view_func=answer,
            defaults={"root": root[1:]},
            methods=METHODS,
            provide_automatic_options=False,
            merge_slashes=False,
        )
    return parts


class Rest(BaseConverter):
    """Everything below a path; unlike Flask's `path` also with slashes at its ends."""

    part_isolating = False
    regex = ".+"


def _as_sent(path: str) -> str:
    """The percent-encoded form of a path at the end of the request's. WSGI decodes paths, and `/`
    in the name of a rule would then divide it; most servers hand over the original as well."""
    sent: str = request.environ.get("RAW_URI") or request.environ.get("REQUEST_URI") or ""
    sent = sent.partition("?")[0]
    tails = (sent[at:] for at, letter in enumerate(sent) if letter == "/")
    return next((tail for tail in tails if unquote(tail) == path), quote(path))


def _whole(path: str) -> Request:
    headers = {
        name.lower().encode("latin-1"): value.encode("latin-1") for name, value in request.headers
    }
    body = request.stream.read(BODY_LIMIT + 1)
    return whole_request(request.method, path, request.query_string, headers, body)


def _response(answer: HttpAnswer) -> Response:
    response = Response(answer.body, answer.status, dict(answer.headers))
    if answer.status in WITHOUT_CONTENT:
        del response.headers["content-type"]
    else:
        response.content_type = answer.media_type
    return response


def _nothing_here(_: NotFound) -> Response:
    text = "There is nothing at this path; this application takes POST /events."
    return _response(problem_answer(HttpProblem("no-such-route", text)))


def _rules(setting: config.Value) -> list[declared.Declared[Rule]]:
    if setting.value is None:
        examples = files("oncue.integrations").joinpath(EXAMPLES).read_bytes()
        return declared.read(declared.RULES, examples, EXAMPLES)
    try:
        text = Path(setting.value).read_bytes()
    except OSError as error:
        place = config.written(setting, "rules")
        raise InvalidInput(f"{setting.value} cannot be read: {error.strerror}.", place) from None
    return declared.read(declared.RULES, text, setting.value)


def _show_deliveries(settings: dict[str, config.Value]) -> None:
    """On the console, unless the process has a log of its own: triggering a job is logging it."""
    logs.configure(settings["log_level"].value, settings["log_format"].value)
    if settings["log_level"].origin == "default":
        for name in ("oncue.rules", "oncue.sink.log"):
            logging.getLogger(name).setLevel(logging.INFO)
