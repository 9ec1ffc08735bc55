"""The program against a server (`--url`): the same answers as against a store."""

from __future__ import annotations

import re
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from oncue import Scheduler
from oncue.cli import server
from oncue.client import Client
from oncue.clock import FakeClock
from oncue.core.access import Scope
from oncue.usecases.tokens import Access
from tests.http.meddler import AWAY, Said, meddling
from tests.http.server import Server, running_server
from tests.program import Program

from .terminal import PATIENCE_SECONDS, Ended, Terminal, environment, put_off, run

AHEAD = datetime(2036, 2, 29, 8, 30, tzinfo=UTC)
NOWHERE = "http://127.0.0.1:1"


class Places:
    """A store in a folder, and a server on another store: alike, unless somebody makes a
    difference."""

    def __init__(self, folder: Path, server: Server) -> None:
        self.folder = folder
        self.server = server

    def prepare(self, make: Callable[[Scheduler], object]) -> None:
        """Do the same at both."""
        for url in (f"sqlite:///{self.folder}/oncue.db", self.server.store):
            with Scheduler(url) as cue:
                make(cue)

    def at_server(self, *arguments: str, stdin: str = "") -> Ended:
        return run(
            *arguments, cwd=self.server.folder, stdin=stdin, env={"ONCUE_URL": self.server.url}
        )

    def same(self, *arguments: str, stdin: str = "") -> Ended:
        """Run it at both, and expect the same: code, answer and remarks. The one of the server."""
        with ThreadPoolExecutor(1) as pool:
            asked = pool.submit(self.at_server, *arguments, stdin=stdin)
            here = run(*arguments, cwd=self.folder, stdin=stdin)
        there = asked.result()
        assert (there.code, plain(there.out)) == (here.code, plain(here.out))
        assert plain(there.err) == plain(here.err)
        return there


_VARYING = (
    (r"Created oncue.db, a new and empty store.\n", ""),
    (r"(\d{4}-\d\d-\d\d[T ])?\d\d:\d\d(:\d\d(\.\d+)?)?( UTC|Z)?", "TIME"),
    (r"\d[\d.]* (ms|s|min|h|d)\b", "LENGTH"),
    (r"(seconds\"?:?) +[\d.]+", r"\1 NUMBER"),
    (r"(cursor\"?:?) \S+", r"\1 CURSOR"),
    (r"(\"epoch\":) \d+", r"\1 NUMBER"),
    (r"[·█▏▎▍▌▋▊▉▁▂▃▄▅▆▇]+", "BAR"),
    (r" +", " "),
)


def plain(text: str) -> str:
    """Without what differs from one run to the next: times, and the width of columns."""
    for pattern, instead in _VARYING:
        text = re.sub(pattern, instead, text)
    return text


@pytest.fixture
def places(tmp_path: Path) -> Iterator[Places]:
    here, there = tmp_path / "here", tmp_path / "there"
    here.mkdir()
    there.mkdir()
    with running_server(there, "--no-engine") as server:
        yield Places(here, server)


# -- the same, command by command ------------------------------------------------------------------


def test_jobs_are_added_alike(places: Places) -> None:
    at = AHEAD.isoformat()
    for arguments in (
        ("{}", "--id=a", "--queue=mail", "--at", at, "--owner=ada", "--priority=3"),
        ("[1]", "--id=b", "--delay=2h", "--expires-at", at, "--max-attempts=5", "--timeout=90s"),
        ("1", "--id=c", "--json"),
        ("1", "--id=c"),
        ("2", "--id=c"),
        ("1", "--id=d", "--key=k", "--queue=mail", "--at", at),
        ("2", "--key=k", "--queue=mail", "--json"),
        ("3", "--key=k", "--queue=mail", "--if-exists=replace", "--at", at),
        ("{",),
        ("1", "--queue=no such"),
        ("1", "--at=yesterday"),
        ("1", "--at", at, "--delay=1"),
        ("1", "--priority=10"),
        ("1", "--max-attempts=0"),
        ("1", "--id=no/such"),
        ("1", "--key", ""),
    ):
        places.same("jobs", "add", *arguments)
    piped = places.same("jobs", "add", "--id=piped", stdin='{"n": 1}')
    assert piped.code == 0
    assert places.same("jobs", "list", "--json").json["items"][-1]["payload"] == 3


def test_jobs_are_listed_alike(places: Places) -> None:
    def make(cue: Scheduler) -> None:
        cue.set_queue("mail", max_attempts=7)
        cue.schedule_many({"id": f"m{n}", "queue": "mail", "at": AHEAD} for n in range(3))
        cue.schedule(1, id="v", queue="video", owner="ada", key="k", at=AHEAD, max_attempts=2)

    places.prepare(make)
    for arguments in (
        (),
        ("--json",),
        ("--queue=mail", "--limit=2"),
        ("--owner=ada",),
        ("--key=k", "--state=scheduled", "--json"),
        ("--state=failed",),
        ("--due-before", AHEAD.isoformat()),
        ("--due-after", AHEAD.isoformat()),
        ("--due-after=never",),
    ):
        places.same("jobs", "list", *arguments)
    wrong = places.at_server("jobs", "list", "--cursor=nonsense")
    assert (wrong.code, wrong.err.startswith("Error: --cursor: ")) == (2, True)
    first = places.at_server("jobs", "list", "--limit=3", "--json").json
    rest = places.at_server("jobs", "list", "--cursor", first["next_cursor"], "--json").json
    assert [job["id"] for job in first["items"] + rest["items"]] == ["m0", "m1", "m2", "v"]


def test_a_list_may_be_longer_than_a_page_of_the_server(places: Places) -> None:
    places.prepare(lambda cue: cue.schedule_many({"delay": 60} for _ in range(1100)))
    listed = places.at_server("jobs", "list", "--limit=1200", "--json").json
    assert len({job["id"] for job in listed["items"]}) == 1100
    assert listed["next_cursor"] is None


def history(cue: Scheduler) -> None:
    """Jobs to which something happened."""
    cue.set_queue("mail", max_attempts=1, lease_seconds=600)
    for name in ("retried", "failed", "running"):
        cue.schedule({"to": name}, id=name, queue="mail")
        [claimed] = cue.claim("mail", "mailer-1")
        token = cue.token(claimed)
        cue.operation(name, token, "draft", "succeeded", result="Dear")
        cue.heartbeat(name, token, message="half-way", percent=50)
        if name != "running":
            cue.fail(name, token, "no such address")
    cue.retry("retried")
    cue.schedule(id="ahead", queue="mail", at=AHEAD)


def test_what_happened_to_a_job_is_shown_and_explained_alike(places: Places) -> None:
    places.prepare(history)
    for command in ("show", "explain"):
        for name in ("retried", "failed", "running", "ahead", "unknown"):
            places.same("jobs", command, name)
        places.same("jobs", command, "retried", "--json")
    assert "0/1" in places.same("jobs", "list", "--state=scheduled").out
    shown = places.at_server("jobs", "show", "running").out
    assert "mailer-1" in shown
    assert "half-way" in shown
    assert "(1 more not counted)" in places.at_server("jobs", "show", "retried").out


def test_a_job_that_is_put_off_is_shown_alike(places: Places) -> None:
    places.prepare(lambda cue: put_off(cue, "audit", "stuck"))
    assert "refused once" in places.same("jobs", "show", "stuck").out
    places.same("jobs", "show", "stuck", "--json")


def test_jobs_are_changed_alike(places: Places) -> None:
    places.prepare(history)
    for arguments in (
        ("cancel", "--dry-run", "ahead", "running", "failed", "unknown"),
        ("cancel", "--dry-run", "--running", "running"),
        ("cancel", "running"),
        ("cancel", "--running", "running", "--json"),
        ("run", "--dry-run", "ahead", "failed"),
        ("run", "ahead"),
        ("cancel", "ahead", "ahead", "--yes"),
        ("retry", "--dry-run", "failed", "ahead", "running"),
        ("retry", "failed", "ahead", "running", "--yes"),
        ("run", "unknown"),
        ("cancel", "ahead", "failed"),
    ):
        places.same("jobs", *arguments)
    found = places.same("jobs", "list", "--json").json["items"]
    assert {job["id"]: job["state"] for job in found} == {
        "retried": "scheduled",
        "failed": "scheduled",
        "ahead": "scheduled",
        "running": "executing",
    }


def test_many_jobs_are_changed_alike(places: Places) -> None:
    places.prepare(
        lambda cue: cue.schedule_many(
            {"id": f"m{n:02}", "queue": "mail", "at": AHEAD, "owner": "ada"} for n in range(25)
        )
    )
    for arguments in (
        ("cancel", "--queue=mail", "--dry-run"),
        ("reprioritise", "--priority=3", "--owner=ada", "--yes"),
        ("move", "--to=letters", "--owner=ada", "--state=scheduled", "--yes", "--json"),
        ("cancel", "--queue=letters", "--due-before", AHEAD.isoformat(), "--yes"),
        ("cancel", "--all", "--yes"),
        ("retry", "--queue=letters", "--yes"),
        ("run", "--queue=letters", "--yes"),
        ("run", "--yes"),
        ("run", "--state=failed", "--yes"),
        ("run", "--queue=mail", "--cursor=nonsense", "--yes"),
    ):
        places.same("jobs", *arguments)
    found = places.same("jobs", "list", "--json").json["items"]
    assert {(job["queue"], job["priority"], job["state"]) for job in found} == {
        ("letters", 3, "scheduled")
    }


def test_queues_are_seen_and_changed_alike(places: Places) -> None:
    places.prepare(history)
    for arguments in (
        (
            "set",
            "video",
            "--max-attempts=5",
            "--lease=30s",
            "--rate=2.5",
            "--concurrency=4",
            "--poison-after=9",
        ),
        ("set", "video", "--sink=log:", "--retention=none", "--json"),
        ("set", "video", "--sink=log:", "--retention=none"),
        ("set", "video", "--max-attempts=0"),
        ("set", "video", "--retry-initial=0"),
        ("set", "video", "--timeout=5m", "--dry-run"),
        ("set", "no such"),
        ("pause", "mail"),
        ("pause", "mial"),
        ("list",),
        ("list", "--json"),
        ("show", "mail"),
        ("show", "mail", "--json"),
        ("show", "mai"),
        ("resume", "mail", "--json"),
        ("resume", "mail", "video"),
        ("resume", "mail", "nosuch"),
    ):
        places.same("queues", *arguments)


def test_the_server_refuses_a_sink_that_it_does_not_have(places: Places) -> None:
    refused = places.same("queues", "set", "mail", "--sink=nothing:")
    assert refused.code == 2
    assert "--sink: " in refused.err
    tried = places.at_server("queues", "set", "mail", "--sink=nothing:", "--dry-run")
    assert tried.code == 0
    assert "The sink was not tried" in tried.err


def ahead(cue: Scheduler) -> None:
    cue.schedule_many({"queue": "mail", "delay": 90 + n * 20} for n in range(100))
    cue.schedule_many({"queue": "video"} for _ in range(30))
    cue.schedule_many({"queue": "held", "delay": 600} for _ in range(5))
    cue.pause("held")


def test_top_tells_the_same_of_a_server(places: Places) -> None:
    places.prepare(ahead)
    here, there = run("top", cwd=places.folder), places.at_server("top")
    assert (here.code, there.code) == (0, 0)
    assert places.server.url in there.out
    without_title = [plain(seen.out).splitlines()[2:-1] for seen in (here, there)]
    assert without_title[0] == without_title[1]
    told = places.at_server("top", "--json").json
    assert (told["store"], told["url"]) == (None, places.server.url)
    assert {q["name"]: q["counts"]["scheduled"] for q in told["queues"]} == {
        "held": 5,
        "mail": 100,
        "video": 30,
    }
    [mail] = [queue for queue in told["queues"] if queue["name"] == "mail"]
    assert sum(minute["due"] for minute in mail["load"]) == 100


def test_a_forecast_tells_the_same_of_a_server(places: Places) -> None:
    places.prepare(ahead)
    for url in (f"sqlite:///{places.folder}/oncue.db", places.server.url):
        option = "--url" if url.startswith("http") else "--store"
        told = run("forecast", "--rate=0.1", "--json", option, url, cwd=places.folder).json
        assert told["overdue"] == 30
        assert told["paused"] == {"held": 5}
        assert sum(step["due"] for step in told["steps"]) == 130
        assert told["sentences"][0].endswith("at 0.1/s this backlog takes 5 min.")
    measured = places.at_server("forecast")
    assert measured.code == 0
    assert "measured just now on this machine, not on the server's" in measured.err


LINES = (
    '{"queue": "bulk", "payload": 1, "due_at": "2036-02-29T08:30:00Z"}\n'
    '{"queue": "no such"}\n'
    "\n"
    '{"queue": "bulk", "key": "k", "delay": 60}\n'
    '{"queue": "bulk", "key": "k", "delay": 60}\n'
    '{"id": "mine", "payload": {"to": "ada"}}\n'
    '{"id": "mine", "payload": {"to": "bob"}}\n'
    "nonsense\n"
    '{"at": "2036-02-29T08:30:00Z", "stage": 1}\n'
)


@pytest.mark.parametrize("options", [(), ("--json",)])
def test_files_are_loaded_alike_as_often_as_it_takes(
    places: Places, options: tuple[str, ...]
) -> None:
    first = places.same("jobs", "load", "-", "--batch=b", *options, stdin=LINES)
    assert first.code == 1
    assert "line 7: the id mine belongs to a job with other fields" in first.err
    again = places.same("jobs", "load", "-", "--batch=b", "--json", stdin=LINES).json
    assert (again["accepted"], again["existing"], again["rejected_count"]) == (4, 4, 4)
    assert len(places.same("jobs", "list", "--json").json["items"]) == 3


def test_a_load_that_was_begun_at_the_store_goes_on_at_its_server(places: Places) -> None:
    lines = '{"queue": "bulk", "delay": 60}\n' * 2500
    store = ("--store", places.server.store)
    begun = run("jobs", "load", "-", "--batch=b", *store, cwd=places.folder, stdin=lines[:31_000])
    assert begun.code == 0
    told = places.at_server("jobs", "load", "-", "--batch=b", "--json", stdin=lines).json
    assert (told["accepted"], told["existing"]) == (2500, 1000)


def test_more_refusals_than_a_server_describes_at_once_are_all_counted(places: Places) -> None:
    other = '{"queue": "bulk", "delay": 60}\n' * 1500
    places.at_server("jobs", "load", "-", "--batch=b", stdin=other)
    lines = '{"queue": "other", "delay": 60}\n' * 1500
    told = places.at_server("jobs", "load", "-", "--batch=b", "--json", stdin=lines).json
    assert (told["accepted"], told["rejected_count"], len(told["rejected"])) == (0, 1500, 1000)


def test_an_interrupted_load_says_what_is_stored_and_where_to_go_on(places: Places) -> None:
    url = places.server.url
    with Program(
        *("--url", url, "jobs", "load", "-", "--batch", "b"),
        cwd=places.folder,
        env=environment(),
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        process.stdin.write('{"queue": "bulk", "delay": 60}\n' * 2000)
        # Empty lines, more than a pipe holds: once they are written, the program has begun to read
        # them, so the jobs before them are stored and counted.
        process.stdin.write(f"{' ' * 1000}\n" * 1000)
        process.stdin.flush()
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE_SECONDS) == 130
        told = process.stderr.read()
    again = f"Continue with: oncue --url {url} jobs load - --batch b\n"
    assert f"Stopped; 2,000 jobs are stored. {again}" in told


# -- on a terminal ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("command", "first"),
    [
        (("top", "--interval=0.2"), "video"),
        (("jobs", "list", "--watch", "--key=newcomer"), "There are no such jobs."),
    ],
)
def test_what_redraws_itself_follows_the_server(
    places: Places, command: tuple[str, ...], first: str
) -> None:
    places.prepare(ahead)
    env = {"ONCUE_URL": places.server.url}
    with Terminal(*command, cwd=places.folder, columns=140, env=env) as terminal:
        terminal.expect(first)
        places.prepare(lambda cue: cue.schedule(queue="newcomer", key="newcomer"))
        terminal.expect("newcomer")
        terminal.type("q")
        assert terminal.end() == 0


# -- who may ---------------------------------------------------------------------------------------


@pytest.fixture
def guarded(tmp_path: Path) -> Iterator[tuple[Server, Callable[[str], str]]]:
    """A server that wants tokens, and what makes one."""
    with running_server(tmp_path, "--no-engine") as server, Scheduler(server.store) as cue:
        access = Access(cue.store, cue.clock)
        access.create("first", frozenset(Scope))

        def make(scope: str) -> str:
            return access.create(None, frozenset({Scope(scope)}))[1]

        yield server, make


READING: list[tuple[str, ...]] = [
    ("jobs", "list"),
    ("jobs", "show", "a"),
    ("jobs", "explain", "a"),
    ("queues", "list"),
    ("queues", "show", "default"),
    ("top",),
    ("forecast", "--rate=1"),
]
WRITING: list[tuple[str, ...]] = [
    ("jobs", "add", "1"),
    ("jobs", "run", "a"),
    ("jobs", "cancel", "a"),
    ("jobs", "retry", "a"),
    ("jobs", "load", "-"),
]
RULING: list[tuple[str, ...]] = [
    ("queues", "set", "mail"),
    ("queues", "pause", "mail"),
    ("queues", "resume", "mail"),
]


def test_every_command_needs_its_scope(guarded: tuple[Server, Callable[[str], str]]) -> None:
    server, make = guarded
    with Scheduler(server.store) as cue:
        cue.schedule(id="a", delay=60)
    for commands, lacking, needed in (
        (READING, "write", "read"),
        (WRITING, "read", "write"),
        (RULING, "write", "admin"),
    ):
        tokens = {scope: make(scope) for scope in (lacking, needed)}
        for command in commands:
            for scope, token in tokens.items():
                env = {"ONCUE_URL": server.url, "ONCUE_TOKEN": token}
                ended = run(*command, cwd=server.folder, env=env, stdin='{"queue": "mail"}')
                assert (ended.code == 6) is (scope == lacking), (command, scope, ended)
                assert "Traceback" not in ended.err


def test_a_refusal_says_who_refuses_and_what_to_do(
    guarded: tuple[Server, Callable[[str], str]],
) -> None:
    server, make = guarded
    url, cwd = server.url, server.folder
    none = run("jobs", "list", "--url", url, cwd=cwd)
    assert (none.code, none.out) == (6, "")
    assert none.err.startswith(f"Error: {url} refuses: it needs an access token")
    assert "'oncue token create'" in none.err
    assert "ONCUE_TOKEN" in none.err
    token = make("read")
    narrow = run("jobs", "add", "1", "--url", url, "--token", token, cwd=cwd)
    assert narrow.code == 6
    assert narrow.err.startswith(f"Error: {url} refuses the token of --token: ")
    assert "oncue token create --scope write" in narrow.err
    unknown = run("jobs", "list", cwd=cwd, env={"ONCUE_URL": url, "ONCUE_TOKEN": "oncue_other"})
    assert unknown.code == 6
    assert f"{url} refuses the token of ONCUE_TOKEN" in unknown.err
    for ended in (narrow, unknown):
        assert token not in ended.err
        assert "oncue_other" not in ended.err
    broken = run("jobs", "list", cwd=cwd, env={"ONCUE_URL": url, "ONCUE_TOKEN": "a b"})
    assert (broken.code, broken.err.count("\n")) == (2, 1)
    assert broken.err.startswith("Error: ONCUE_TOKEN: is not an access token")


def test_a_refusal_of_a_modules_own_client_is_not_blamed_on_the_store(
    guarded: tuple[Server, Callable[[str], str]],
) -> None:
    server, make = guarded
    (server.folder / "own.py").write_text(
        f"from oncue import Client\ncue = Client({server.url!r})\ncue.handler('mail')(print)\n"
    )
    ended = run("worker", "own:cue", cwd=server.folder, env={"ONCUE_TOKEN": make("read")})
    assert ended.code == 6
    assert "\nError: This token lacks the scope 'work'." in ended.err
    assert f"server {server.url}" in ended.err


# -- where -----------------------------------------------------------------------------------------


def test_a_server_that_is_not_there_is_told_at_once(tmp_path: Path) -> None:
    for command in (READING[0], WRITING[0], WRITING[-1], RULING[0]):
        ended = run(*command, "--url", NOWHERE, cwd=tmp_path, stdin="{}")
        assert ended.code == 5
        assert ended.out == ""
        assert f"{NOWHERE} cannot be reached. Start it with 'oncue serve'" in ended.err
    assert list(tmp_path.iterdir()) == []


@contextmanager
def answering(status: int, body: bytes, media_type: str, date: str) -> Iterator[str]:
    """Somebody at a URL who answers everything with this."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response_only(status)
            self.send_header("Date", date)
            self.send_header("Content-Type", media_type)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """To nobody."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@pytest.mark.parametrize(
    ("status", "body", "media_type"),
    [
        (200, b"<h1>It works!</h1>", "text/html"),
        (404, b"", "text/plain"),
        (200, b'{"hello": "world"}', "application/json"),
        (200, b"{", "application/json"),
        (302, b"", "text/html"),
    ],
)
def test_somebody_else_at_the_url_is_told_apart(
    tmp_path: Path, status: int, body: bytes, media_type: str
) -> None:
    with answering(status, body, media_type, "") as url:
        ended = run("jobs", "list", "--url", url, cwd=tmp_path)
        assert (ended.code, ended.out) == (5, "")
        assert ended.err.startswith(f"Error: {url} answers, but not as oncue does. Check the URL")
        assert ended.err.count("\n") == 1
        assert run("doctor", "--url", url, cwd=tmp_path).code == 1


ALIVE = Said(200, b'{"status": "alive", "version": "0"}', "application/json")


def test_a_command_that_waits_for_the_store_of_the_server_says_so(places: Places) -> None:
    places.prepare(lambda cue: cue.schedule(id="a", delay=60))
    with meddling(places.server.url) as proxy:
        command = ("jobs", "list", "--url", proxy.url)
        proxy.plan.extend([ALIVE, AWAY, AWAY])
        with Terminal(*command, cwd=places.folder, columns=140) as terminal:
            assert terminal.end() == 0
        says = r"the server says: The store cannot answer now; nothing was lost\. Trying again for"
        assert len(re.findall(says, terminal.screen)) == 1
        assert "scheduled" in terminal.screen
        proxy.plan.extend([ALIVE, AWAY])
        assert run(*command, cwd=places.folder).err == ""


@pytest.mark.parametrize(("seconds", "side"), [(600, "ahead of"), (-600, "behind"), (1, "")])
def test_a_clock_that_is_far_off_is_told(
    capsys: pytest.CaptureFixture[str], seconds: int, side: str
) -> None:
    clock = FakeClock(round(AHEAD.timestamp() * 1000))
    there = format_datetime(AHEAD + timedelta(seconds=seconds), usegmt=True)
    body = b'{"status": "alive", "version": "0"}'
    with (
        answering(200, body, "application/json", there) as url,
        Client(url, clock=clock) as cue,
    ):
        server.warn_of_skew(server.greet(cue), url)
    told = capsys.readouterr().err
    assert (f"The clock of {url} is 10 min {side} this machine's" in told) is bool(side)
    assert bool(told) is bool(side)


@pytest.mark.parametrize("url", ["nonsense", "ftp://x", "http://", "http://a:b@c", "http://x:y"])
def test_a_url_that_is_none_is_refused_where_it_was_written(tmp_path: Path, url: str) -> None:
    assert run("jobs", "list", "--url", url, cwd=tmp_path).err.startswith("Error: --url: ")
    ended = run("jobs", "list", cwd=tmp_path, env={"ONCUE_URL": url})
    assert ended.code == 2
    assert ended.err.startswith("Error: ONCUE_URL: ")


@pytest.mark.parametrize(
    "arguments",
    [
        ("--store=memory:", "--url", NOWHERE, "jobs", "list"),
        ("--store=memory:", "jobs", "list", "--url", NOWHERE),
        ("jobs", "list", "--url", NOWHERE, "--store=memory:"),
    ],
)
def test_a_store_and_a_url_together_are_refused(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    ended = run(*arguments, cwd=tmp_path)
    assert ended.code == 2
    assert "--store and --url name two places; give one of them." in ended.err


def test_an_option_beats_what_the_environment_says_of_the_other(places: Places) -> None:
    places.prepare(lambda cue: cue.schedule(id="a", delay=60))
    store = "sqlite:///oncue.db"
    here = run("jobs", "list", "--store", store, cwd=places.folder, env={"ONCUE_URL": NOWHERE})
    assert here.code == 0
    env = {"ONCUE_STORE": "sqlite:///missing.db"}
    assert run("jobs", "list", "--url", places.server.url, cwd=places.folder, env=env).code == 0
    (places.folder / "oncue.toml").write_text(f'url = "{places.server.url}"\n')
    assert run("jobs", "list", cwd=places.folder).code == 0
    assert run("jobs", "list", cwd=places.folder, env=env).code == 5


def test_a_token_without_a_server_is_a_mistake(tmp_path: Path) -> None:
    ended = run("jobs", "list", "--store=memory:", "--token=x", cwd=tmp_path)
    assert ended.code == 2
    assert "--token goes with --url" in ended.err
    env = {"ONCUE_TOKEN": "x"}
    assert run("jobs", "list", "--store=memory:", cwd=tmp_path, env=env).code == 0


@pytest.mark.parametrize(
    "command",
    [
        ("dump",),
        ("restore", "-"),
        ("token", "create"),
        ("token", "list"),
        ("token", "revoke", "a"),
        ("serve",),
        ("bench", "--quick"),
    ],
    ids=" ".join,
)
def test_what_needs_the_store_itself_says_so(tmp_path: Path, command: tuple[str, ...]) -> None:
    for arguments, env, written in (
        ((*command, "--url", NOWHERE), {}, "--url"),
        (("--url", NOWHERE, *command), {}, "--url"),
        (command, {"ONCUE_URL": NOWHERE}, "ONCUE_URL"),
    ):
        ended = run(*arguments, cwd=tmp_path, env=env)
        assert (ended.code, ended.out) == (2, "")
        assert f"needs the store itself, and {written} names a server." in ended.err
        assert "with --store instead" in ended.err
    assert list(tmp_path.iterdir()) == []


# -- doctor ----------------------------------------------------------------------------------------


def test_the_doctor_looks_at_the_server(places: Places) -> None:
    told = places.at_server("doctor", "--json")
    assert told.code == 0
    server = told.json["server"]
    assert (server["url"], server["store"]) == (places.server.url, "sqlite")
    assert server["scopes"] == ["read", "write", "work", "admin"]
    assert [(one["level"], one["name"]) for one in told.json["findings"]] == [
        ("ok", "server"),
        ("ok", "version"),
        ("ok", "readiness"),
        ("ok", "token"),
        ("ok", "server's clock"),
        ("ok", "clock"),
        ("ok", "nodes"),
        ("ok", "schedules"),
        ("ok", "lateness"),
        ("ok", "paused queues"),
    ]


def test_the_doctor_sees_work_that_waits_at_the_server(places: Places) -> None:
    with Scheduler(places.server.store) as real:
        ago = FakeClock(real.clock.now() - 600_000)
    with Scheduler(places.server.store, clock=ago) as cue:
        cue.schedule(queue="late")
        cue.schedule(queue="held")
        cue.pause("held")
    told = places.at_server("doctor", "--json").json
    warned = {one["name"] for one in told["findings"] if one["level"] == "warn"}
    assert warned == {"lateness", "paused queues"}


def test_the_doctor_tells_what_a_token_allows(
    guarded: tuple[Server, Callable[[str], str]],
) -> None:
    server, make = guarded
    for token, code, level, text in (
        (None, 1, "bad", "it needs an access token"),
        (make("read"), 0, "ok", "this is allowed: read."),
        (make("write"), 1, "bad", "this is allowed: write."),
        (make("admin"), 0, "ok", "this is allowed: read, write, work, admin."),
    ):
        env = {"ONCUE_URL": server.url, "ONCUE_TOKEN": token}
        ended = run("doctor", "--json", cwd=server.folder, env=env)
        [found] = [one for one in ended.json["findings"] if one["name"] == "token"]
        assert (ended.code, found["level"]) == (code, level)
        assert text in found["text"]


def test_the_doctor_accepts_a_scope_that_only_a_newer_server_knows(tmp_path: Path) -> None:
    body = b'{"version": "9", "store": "sqlite", "schema": 99, "scopes": ["read", "audit"]}'
    with answering(200, body, "application/json", "") as url:
        found = run("doctor", "--json", "--url", url, cwd=tmp_path).json["findings"]
    [token] = [one for one in found if one["name"] == "token"]
    assert (token["level"], token["text"]) == ("ok", "this is allowed: read, audit.")


def test_the_doctor_tells_of_a_server_that_is_not_there(tmp_path: Path) -> None:
    ended = run("doctor", "--json", "--url", NOWHERE, cwd=tmp_path)
    assert (ended.code, ended.err) == (1, "")
    [found] = ended.json["findings"]
    assert (found["level"], found["name"]) == ("bad", "server")
