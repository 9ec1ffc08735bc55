"""A screen that redraws itself until q or Ctrl-C, and gives the terminal back as it was."""

from __future__ import annotations

import os
import select
import shutil
import signal
import sys
import termios
import tty
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from oncue.cli.output import fit
from oncue.cli.terminal import visible

ENTER = b"\x1b[?1049h\x1b[?25l"  # the alternate screen, no cursor
LEAVE = b"\x1b[?25h\x1b[?1049l"
EXIT_TERMINATED = 143

Frame = Callable[[int, int], list[str]]
"""The lines to show on so many columns and lines."""


def possible() -> bool:
    """Whether standard output is a terminal that can be drawn on."""
    return sys.stdout.isatty() and os.environ.get("TERM", "dumb") != "dumb"


def show(frame: Frame, interval_seconds: float) -> None:
    """Draw frames until q or Ctrl-C is pressed. Neither is a failure."""
    keys = sys.stdin.fileno() if sys.stdin is not None and sys.stdin.isatty() else None
    try:
        drawn = _drawn(frame)  # before the screen is taken: there may be no store to look at
        with _screen(keys):
            _write(drawn)
            while _pressed(keys, interval_seconds) not in (b"q", b"Q"):
                _write(_drawn(frame))
    except KeyboardInterrupt:
        return


def _drawn(frame: Frame) -> bytes:
    columns, lines = shutil.get_terminal_size()
    shown = [visible(fit(line, columns)) for line in frame(columns, lines)[: lines - 1]]
    text = "\x1b[H" + "".join(f"{line}\x1b[K\r\n" for line in shown) + "\x1b[J"
    return text.encode(sys.stdout.encoding, "replace")


def _write(data: bytes) -> None:
    """Past the buffers, so that a signal handler may do it too."""
    while data:
        data = data[os.write(sys.stdout.fileno(), data) :]


def _pressed(keys: int | None, seconds: float) -> bytes:
    """The next key, or nothing once the time is over."""
    ready = select.select([] if keys is None else [keys], [], [], seconds)[0]
    return os.read(ready[0], 1) if ready else b""


@contextmanager
def _screen(keys: int | None) -> Iterator[None]:
    modes = None if keys is None else termios.tcgetattr(keys)

    def enter() -> None:
        if keys is not None:
            tty.setcbreak(keys, termios.TCSADRAIN)  # what was typed meanwhile stays
        _write(ENTER)

    def leave() -> None:
        _write(LEAVE)
        if keys is not None and modes is not None:
            termios.tcsetattr(keys, termios.TCSADRAIN, modes)

    def suspend(*_: object) -> None:
        leave()
        os.kill(os.getpid(), signal.SIGSTOP)
        enter()

    def end(*_: object) -> None:
        sys.exit(EXIT_TERMINATED)

    handlers = {signal.SIGTSTP: suspend, signal.SIGTERM: end}
    before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
    try:
        enter()
        yield
    finally:
        leave()
        for number, handler in before.items():
            signal.signal(number, handler)
