"""Runs the program: `run` as a script does, `Terminal` as a person does, in a pty.

    ended = run("jobs", "list", cwd=tmp_path)            # ended.code, ended.out, ended.err
    with Terminal("top", cwd=tmp_path, columns=100) as terminal:
        terminal.expect("mail")                          # until the screen shows it
        terminal.type("q")
        assert terminal.end() == 0
    terminal.screen                                      # what is left on the screen
    terminal.output                                      # every byte it wrote, escapes and all

Both use the store `sqlite:///oncue.db` in `cwd` unless told otherwise, and the time zone UTC.
Every wait ends after `PATIENCE_SECONDS`; a program that is still there is killed.
"""

from __future__ import annotations

import codecs
import fcntl
import os
import re
import select
import signal
import struct
import subprocess
import termios
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from oncue.clock import SystemClock
from oncue.ports.sink import Refusal
from oncue.scheduler import Scheduler
from tests import program
from tests.program import PROGRAM as PROGRAM
from tests.program import Program

PATIENCE_SECONDS = 30.0
SOURCE = Path(__file__).parents[2] / "src"
LOOK_SECONDS = 0.02
_NEVER = threading.Event()


@dataclass(frozen=True, slots=True)
class Ended:
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return msgspec.json.decode(self.out)


def scheduler(cwd: Path) -> Scheduler:
    """On the store that the program uses in that folder; close it."""
    return Scheduler(f"sqlite:///{cwd}/oncue.db")


def wait_until(holds: Callable[[], bool]) -> None:
    """Ask again and again, though not forever."""
    clock = SystemClock()
    give_up = clock.monotonic() + PATIENCE_SECONDS
    while not holds():
        assert clock.monotonic() < give_up, "it never came to that"
        _NEVER.wait(LOOK_SECONDS)


def environment(changes: Mapping[str, str | None] | None = None) -> dict[str, str]:
    """That of a fresh login: nothing of ours set, unless `changes` says so; None removes."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("ONCUE_", "PYTEST", "COLUMNS", "LINES", "NO_COLOR", "FORCE_COLOR"))
    }
    fresh = {"TERM": "xterm-256color", "TZ": "UTC", "LC_ALL": "C.UTF-8", "PYTHONPATH": str(SOURCE)}
    wanted: dict[str, str | None] = {**kept, **fresh, **(changes or {})}
    return {name: value for name, value in wanted.items() if value is not None}


def run(
    *arguments: str,
    cwd: Path,
    stdin: str | bytes = b"",
    env: Mapping[str, str | None] | None = None,
) -> Ended:
    """The program without a terminal, to its end."""
    given = stdin.encode() if isinstance(stdin, str) else stdin
    ended = program.run(
        *arguments, cwd=cwd, env=environment(env), stdin=given, timeout=PATIENCE_SECONDS
    )
    return Ended(ended.returncode, ended.stdout, ended.stderr)


def shell(line: str, *, cwd: Path, env: Mapping[str, str | None] | None = None) -> Ended:
    """A line of bash in which `oncue` is the program: for pipes. The code is the pipe's worst."""
    program = " ".join(PROGRAM)
    script = f'set -o pipefail; oncue() {{ {program} "$@"; }}; {line}'
    ended = subprocess.run(
        ["bash", "-c", script],
        cwd=cwd,
        env=environment(env),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )
    return Ended(ended.returncode, ended.stdout.decode(), ended.stderr.decode())


class Terminal:
    """The program in a terminal of its own: standard input, output and error are all the pty."""

    def __init__(
        self,
        *arguments: str,
        cwd: Path,
        columns: int = 100,
        lines: int = 30,
        env: Mapping[str, str | None] | None = None,
        child: bool = False,
    ) -> None:
        """With `child`, it is a child of this process, which `os.waitpid` can wait for."""
        self._ours, theirs = os.openpty()
        size = struct.pack("HHHH", lines, columns, 0, 0)
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, size)
        self.attributes_before = termios.tcgetattr(self._ours)
        self._screen = Screen(columns, lines)
        self._decode = codecs.getincrementaldecoder("utf-8")("replace").decode
        self._clock = SystemClock()
        self.output = ""
        self.process: Program | subprocess.Popen[bytes]
        if child:
            self.process = _child(theirs, arguments, cwd, environment(env))
        else:
            self.process = Program(
                *arguments,
                cwd=cwd,
                env=environment(env),
                stdout=theirs,  # keeps the terminal open until it has been taken
                terminal=os.ttyname(theirs),
            )
        os.close(theirs)

    @property
    def screen(self) -> str:
        """What a person sees now, without trailing blanks."""
        return self._screen.text

    @property
    def attributes(self) -> list[Any]:
        """The terminal's modes now, to compare with `attributes_before`."""
        return termios.tcgetattr(self._ours)

    def expect(self, text: str) -> str:
        """Wait until the screen shows this; the whole screen then."""
        give_up = self._clock.monotonic() + PATIENCE_SECONDS
        while text not in self.screen:
            if not self._read(give_up):
                raise AssertionError(f"{text!r} never appeared; the screen is:\n{self.screen}")
        return self.screen

    def type(self, text: str) -> None:
        os.write(self._ours, text.encode())

    def interrupt(self) -> None:
        """Ctrl-C, as a key."""
        self.type("\x03")

    def interrupt_waiting(self) -> None:
        """Ctrl-C at a prompt, or while nobody reads what is written, again if need be: Python
        misses one that comes just before it begins to read or to write."""
        for _ in range(10):
            self.interrupt()
            soon = self._clock.monotonic() + 2.0
            while self._read(soon):
                pass
            if self.process.poll() is not None:
                return

    def resize(self, columns: int, lines: int) -> None:
        fcntl.ioctl(self._ours, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
        self._screen.resize(columns, lines)

    def end(self) -> int:
        """Wait until the program has ended; its code."""
        give_up = self._clock.monotonic() + PATIENCE_SECONDS
        while self._read(give_up):
            pass
        try:
            return self.process.wait(max(0.0, give_up - self._clock.monotonic()))
        except subprocess.TimeoutExpired:
            raise AssertionError(f"it did not end; the screen is:\n{self.screen}") from None

    def _read(self, give_up: float) -> bool:
        """Take in what it writes next. False: it has closed the terminal, or time is up."""
        left = give_up - self._clock.monotonic()
        if left <= 0 or not select.select([self._ours], [], [], left)[0]:
            return False
        try:
            data = os.read(self._ours, 65_536)
        except OSError:  # EIO: nobody has the other end open any more
            return False
        text = self._decode(data)
        self.output += text
        self._screen.feed(text)
        return bool(data)

    def __enter__(self) -> Terminal:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGKILL)
            self.process.wait(PATIENCE_SECONDS)
        os.close(self._ours)


def _child(
    terminal: int, arguments: tuple[str, ...], cwd: Path, env: Mapping[str, str]
) -> subprocess.Popen[bytes]:
    # A session leader's first terminal becomes its own, so that Ctrl-C reaches it.
    leader = ["sh", "-c", 'exec "$@" <"$0" >"$0" 2>&1', os.ttyname(terminal)]
    return subprocess.Popen(
        [*leader, *PROGRAM, *arguments],
        cwd=cwd,
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=terminal,
        start_new_session=True,
    )


def put_off(cue: Scheduler, queue: str, job_id: str) -> None:
    """A job that the sink of its queue refused for now, for at least half an hour."""
    slow = {"initial_seconds": 3600, "max_seconds": 3600}
    settings = cue.set_queue(queue, sink="log:", retry=slow)
    cue.schedule(queue=queue, id=job_id)
    now = cue.clock.now()
    claim = cue.store.claim_range(settings, "d1", 1, now, lease_seconds=30)
    assert cue.store.settle_range(claim, [], {job_id: Refusal("busy", False)}, now)


def see(
    *arguments: str,
    cwd: Path,
    keys: str = "",
    columns: int = 100,
    lines: int = 30,
    env: Mapping[str, str | None] | None = None,
) -> Ended:
    """The program in a terminal, to its end: `out` is what the screen then shows."""
    with Terminal(*arguments, cwd=cwd, columns=columns, lines=lines, env=env) as terminal:
        if keys:
            terminal.type(keys)
        code = terminal.end()
        return Ended(code, terminal.screen, "")


_ESCAPE = re.compile(r"\x1b\[(\??)([\d;]*)([A-Za-z])")


class Screen:
    """As much of a terminal as our output needs: lines that wrap and scroll, cursor home, clearing,
    the alternate screen. Colours are ignored, other sequences shown as they are."""

    def __init__(self, columns: int, lines: int) -> None:
        self.columns, self.lines = columns, lines
        self.alternate = False
        self._saved: tuple[list[list[str]], int, int] = ([], 0, 0)
        self._rows: list[list[str]] = [[]]
        self._row = self._column = 0
        self._pending = ""

    @property
    def text(self) -> str:
        return "\n".join("".join(row).rstrip() for row in self._rows).rstrip("\n")

    def resize(self, columns: int, lines: int) -> None:
        self.columns, self.lines = columns, lines

    def feed(self, text: str) -> None:
        text, self._pending = self._pending + text, ""
        place = 0
        while place < len(text):
            match = _ESCAPE.match(text, place)
            if match is not None:
                self._obey(match[1] + match[3], match[2])
                place = match.end()
            elif text[place] == "\x1b" and len(text) - place < 16:
                self._pending = text[place:]  # the rest of the sequence is still on its way
                return
            else:
                self._put(text[place])
                place += 1

    def _obey(self, command: str, argument: str) -> None:
        if command == "H":
            row, _, column = argument.partition(";")
            self._row, self._column = int(row or 1) - 1, int(column or 1) - 1
        elif command == "J" and argument == "2":
            self._rows = [[]]
        elif command == "J":
            del self._rows[self._row + 1 :]
            self._clear_line()
        elif command == "K":
            self._clear_line()
        elif command in ("?h", "?l") and argument == "1049":
            self._switch(command == "?h")
        while len(self._rows) <= self._row:
            self._rows.append([])

    def _clear_line(self) -> None:
        if self._row < len(self._rows):
            del self._rows[self._row][self._column :]

    def _switch(self, alternate: bool) -> None:
        if alternate and not self.alternate:
            self._saved = (self._rows, self._row, self._column)
            self._rows, self._row, self._column = [[]], 0, 0
        elif self.alternate and not alternate:
            self._rows, self._row, self._column = self._saved
        self.alternate = alternate

    def _put(self, character: str) -> None:
        if character == "\r":
            self._column = 0
        elif character == "\n":
            self._next_row()
        elif character == "\b":
            self._column = max(0, self._column - 1)
        elif character != "\a":
            if self._column >= self.columns:
                self._column = 0
                self._next_row()
            row = self._rows[self._row]
            row.extend(" " * (self._column + 1 - len(row)))
            row[self._column] = character
            self._column += 1

    def _next_row(self) -> None:
        """Down by one. What scrolls off the top is kept, so that tests can read it; only the
        alternate screen, which has no memory, loses it."""
        self._row += 1
        if self._row == len(self._rows):
            self._rows.append([])
        if self.alternate and self._row >= self.lines:
            del self._rows[0]
            self._row -= 1
