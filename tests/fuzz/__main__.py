"""Hostile input with fresh seeds: python -m tests.fuzz, a minute for each part.

bytes       anything at the socket of a server
requests    the examples of the description, changed in a few places
json        well-formed requests whose JSON follows the shapes, with hostile values in it
dumps       files for `restore`
cron        cron expressions and time zones
rules       files of rules, and events for them

A server must stay alive, answer every request with a well-formed answer, errors with a problem and
none with 500, write no traceback to its log and stay within its memory. The others may only raise
the errors of `core/errors.py`.

What fails is printed in its smallest form and written to tests/fuzz/corpus, where the tests find it
from then on. From the environment: FUZZ_SECONDS (60, for each part), FUZZ_PARTS (all, separated by
commas), FUZZ_SEED (fresh).
"""

from __future__ import annotations

import hashlib
import os
import random
import sys
import tempfile
import time
from contextlib import AbstractContextManager
from pathlib import Path

from tests.fuzz.parts import CORPUS, PARTS, Fire, fire

ROUND = 100  # inputs that have one seed


class Last:
    """Gives inputs to a check, and remembers the last that failed."""

    def __init__(self, check: Fire) -> None:
        self._check = check
        self.failed = b""

    def __call__(self, data: bytes) -> None:
        try:
            self._check(data)
        except BaseException:
            self.failed = data
            raise


def main() -> int:
    first = int(os.environ.get("FUZZ_SEED", random.SystemRandom().randrange(1_000_000)))
    seconds = float(os.environ.get("FUZZ_SECONDS", 60))
    wanted = os.environ.get("FUZZ_PARTS", ",".join(PARTS)).split(",")
    print(f"seed {first}, {seconds:g} s for each of {', '.join(wanted)}", flush=True)
    green = [play(part, first, seconds) for part in wanted]
    return 0 if all(green) else 1


def play(part: str, first: int, seconds: float) -> bool:
    """Rounds until the time is over."""
    ends, number = time.monotonic() + seconds, first
    with tempfile.TemporaryDirectory() as folder:
        opened: AbstractContextManager[Fire] = PARTS[part].opened(Path(folder))
        try:
            with opened as check:
                last = Last(check)
                while time.monotonic() < ends:
                    try:
                        fire(part, number, ROUND, last)
                    except Exception as error:
                        tell(part, number, last.failed, error)
                        return False
                    number += 1
        except AssertionError as error:  # at the end: the log, the memory
            print(f"BROKEN: {part}, seeds {first} to {number - 1}: {error}", flush=True)
            return False
    print(f"GREEN: {part}, {(number - first) * ROUND:,} inputs", flush=True)
    return True


def tell(part: str, number: int, data: bytes, error: Exception) -> None:
    name = hashlib.blake2b(data, digest_size=6).hexdigest()
    (CORPUS / part).mkdir(parents=True, exist_ok=True)
    (CORPUS / part / name).write_bytes(data)
    print(f"BROKEN: {part}\n{data[:2000]!r}\n{type(error).__name__}: {error}")
    print(f"kept: tests/fuzz/corpus/{part}/{name}, which tests/fuzz/test_fuzz.py sends again")
    print(f"again: make fuzz FUZZ_PARTS={part} FUZZ_SEED={number}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
