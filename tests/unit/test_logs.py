"""The log: its two formats, its fields, and what is never in it."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from oncue.core.errors import Fenced
from oncue.core.job import Claimed
from oncue.core.token import sign
from oncue.telemetry import logs
from oncue.telemetry.logs import JsonFormatter
from oncue.testing import HandDriven
from oncue.worker.job import HandledJob

CANARY = "canary-7f3a"


@contextmanager
def unset_log() -> Iterator[logging.Logger]:
    """The root logger as it is in a process that has just begun."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    root.handlers.clear()
    try:
        yield root
    finally:
        root.handlers[:] = handlers
        root.setLevel(level)


def record(message: str, *args: Any, **extra: Any) -> logging.LogRecord:
    made = logging.getLogger("oncue.test").makeRecord(
        "oncue.test", logging.WARNING, "place.py", 1, message, args, None, extra=extra
    )
    made.created = 1_700_000_000.1239
    return made


def line(made: logging.LogRecord) -> dict[str, Any]:
    text = JsonFormatter().format(made)
    assert "\n" not in text
    found: dict[str, Any] = json.loads(text)
    return found


def test_a_line_of_json_has_moment_level_logger_message_and_the_extra_fields() -> None:
    assert line(record("job %s: gone", "j1", job_id="j1", attempt=2)) == {
        "at": "2023-11-14T22:13:20.123Z",
        "level": "WARNING",
        "logger": "oncue.test",
        "message": "job j1: gone",
        "job_id": "j1",
        "attempt": 2,
    }


def test_line_breaks_and_odd_characters_stay_within_the_line() -> None:
    text = "first\nsecond \u2028 \ud800 ü"
    assert JsonFormatter().format(record(text)).isascii()
    assert line(record(text))["message"] == text


def test_an_extra_field_cannot_pretend_to_be_another() -> None:
    found = line(record("true", level="DEBUG", logger="root", at="never"))
    assert (found["level"], found["logger"]) == ("WARNING", "oncue.test")
    assert found["at"].startswith("2023")


def test_values_that_json_cannot_say_become_text() -> None:
    found = line(record("odd", pair=(1, 2), ratio=float("nan"), gone=None, fine=0.5))
    assert found["pair"] == "(1, 2)"
    assert found["ratio"] == "nan"
    assert found["gone"] is None
    assert found["fine"] == 0.5


def test_what_was_raised_is_a_field_of_the_same_line() -> None:
    try:
        raise KeyError("where")
    except KeyError as error:
        made = record("unexpected")
        made.exc_info = (type(error), error, error.__traceback__)
    found = line(made)
    assert found["trace"].startswith("Traceback")
    assert "KeyError" in found["trace"]


def test_json_is_logged_from_the_level_on_once_configured() -> None:
    stream = io.StringIO()
    with unset_log():
        logs.configure("INFO", "json", stream)
        logging.getLogger("oncue.engine").info("seen", extra={"queue": "mail"})
        logging.getLogger("oncue.engine").debug("not seen")
    [text] = stream.getvalue().splitlines()
    assert json.loads(text)["queue"] == "mail"


def test_text_is_logged_as_a_line_for_people() -> None:
    stream = io.StringIO()
    with unset_log():
        logs.configure("WARNING", "text", stream)
        logging.getLogger("oncue.engine").warning("job %s: gone", "j1", extra={"job_id": "j1"})
    assert stream.getvalue().endswith(" WARNING job j1: gone\n")


def test_a_log_that_is_set_up_already_is_left_alone() -> None:
    mine = logging.NullHandler()
    with unset_log() as root:
        root.addHandler(mine)
        logs.configure("DEBUG", "json")
        assert root.handlers == [mine]


class Life:
    """Jobs that carry a canary through everything that can happen to them."""

    def __init__(self) -> None:
        self.cue = HandDriven()
        self.tokens: list[str] = []
        payload = {"secret": CANARY}
        self.cue.set_queue("logged", sink="log:")
        self.cue.set_queue("handed", sink="log:", completion="worker")
        self.cue.set_queue("handled", max_attempts=2)
        self.cue.handler("handled")(self.handle)
        for queue in ("logged", "handed", "handled", "pulled", "lost"):
            self.cue.schedule(payload, queue=queue, id=f"{queue}-1")
        self.cue.schedule(payload, queue="pulled", id="pulled-2")

    def handle(self, job: HandledJob) -> None:
        job.step("read", lambda: job.payload)
        job.progress(50, "half")
        raise ValueError(f"cannot use {job.payload}")

    def claim(self, queue: str, lease_seconds: float = 60) -> tuple[Claimed, str]:
        [claimed] = self.cue.claim(queue, "ada", lease_seconds=lease_seconds)
        self.tokens.append(self.cue.token(claimed))
        return claimed, self.tokens[-1]

    def live(self) -> None:
        one, token = self.claim("pulled")
        self.cue.start(one.id, token)
        self.cue.fail(one.id, token, f"failed at {CANARY}", retryable=False)
        two, token = self.claim("pulled")
        self.cue.operation(two.id, token, "pay", "succeeded", result={"paid": CANARY})
        self.cue.complete(two.id, token, {"result": CANARY})
        lost, token = self.claim("lost", lease_seconds=1)
        self.cue.advance(900)
        with pytest.raises(Fenced):
            self.cue.complete(lost.id, token, {"result": CANARY})
        handed = self.cue.job("handed-1")  # its token went to the sink
        self.tokens.append(sign(self.cue.store.secret, handed.id, handed.epoch))


def test_neither_payloads_nor_results_nor_tokens_nor_what_was_raised_are_ever_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG)
    life = Life()
    life.live()
    formatter = JsonFormatter()
    lines = [formatter.format(made) for made in caplog.records]
    whole = "\n".join([*lines, *(str(vars(made)) for made in caplog.records)])
    for forbidden in (CANARY, *life.tokens):
        assert forbidden not in whole
    assert {"logged-1", "handed-1", "handled-1", "lost-1"} <= {
        json.loads(text).get("job_id") for text in lines
    }


def test_every_line_that_names_a_job_carries_its_id_as_a_field(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG)
    Life().live()
    ids = [f"{queue}-1" for queue in ("logged", "handed", "handled", "pulled", "lost")]
    naming = [
        (job_id, vars(made).get("job_id"))
        for made in caplog.records
        for job_id in ids
        if job_id in made.getMessage()
    ]
    assert naming
    assert all(named == field for named, field in naming)
