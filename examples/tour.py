"""A first look: `python examples/tour.py` starts a server with a few jobs and says what to try."""

from __future__ import annotations

import sys

from oncue import __version__, config
from oncue.api.server import check_free
from oncue.cli import main as program
from oncue.core.errors import InvalidInput, OncueError
from oncue.core.redaction import shown_url
from oncue.scheduler import Scheduler
from oncue.usecases.tasks import as_job

JSON = "-H 'Content-Type: application/json'"


def schedule(cue: Scheduler) -> None:
    """Store three jobs: one to claim by hand, one that is delivered to a sink, one for a date. A
    second start finds those that still exist."""
    cue.set_queue("tour.log", sink="log:")
    cue.schedule({"to": "ada", "text": "tea is ready"}, queue="tour", key="tour")
    cue.schedule({"text": "fifteen seconds are over"}, queue="tour.log", delay=15, key="tour")
    follow_up = {"userId": "1234", "afterDays": 15, "text": "how do you like it?"}
    cue.schedule(**as_job(follow_up, cue.clock.now()), key="tour")


def told(url: str, store: config.Value) -> str:
    shown = shown_url(str(store.value))
    top = "oncue top" if store.origin == "default" else f"oncue top --store '{shown}'"
    if shown != str(store.value):
        top += "    (with the password, or better ONCUE_STORE)"
    return f"""oncue {__version__} starts on {url}, with the jobs in {shown}

  {url}/docs       every request, with examples
  {url}/metrics    figures for Prometheus
  {url}/jobs       the jobs of the store; three were added for you

Try, in another terminal:

  curl -s {url}/jobs -d '{{"payload": {{"to": "bob"}}, "queue": "tour", "delay": 5}}' {JSON}
  curl -s {url}/queues/tour/claim -d '{{"wait_seconds": 10, "worker": "me"}}' {JSON}
  curl -s {url}/jobs/ID/complete -d '{{"token": "TOKEN"}}' {JSON}
  curl -s {url}/tasks/1234
  .venv/bin/{top}

The second command takes a job: first the one that was added for you, then, when it is due, yours.
It prints the ID and the TOKEN for the third. After fifteen seconds a job is delivered to the log,
below. Ctrl-C stops the server.
"""


def main() -> None:
    settings = config.read()
    host, port = settings["host"].value, settings["port"].value
    try:
        check_free(host, port)
        with Scheduler(str(settings["store"].value)) as cue:
            schedule(cue)
    except OncueError as error:
        sys.exit(f"Error: {error.detail if isinstance(error, InvalidInput) else error}")
    print(told(f"http://{host}:{port}", settings["store"]), flush=True)
    sys.argv[1:] = ["serve"]
    program()


if __name__ == "__main__":
    main()
