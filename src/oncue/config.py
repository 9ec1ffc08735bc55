"""Settings: from the command line, the environment, or `oncue.toml`; and where each came from."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from oncue.core.errors import InvalidInput

PREFIX = "ONCUE_"
FILE = "oncue.toml"


class Setting(NamedTuple):
    name: str
    default: str | int
    help: str
    choices: tuple[str, ...] = ()
    """The values that are allowed, in capitals; empty: any."""

    @property
    def variable(self) -> str:
        return PREFIX + self.name.upper()


SETTINGS = (
    Setting("store", "sqlite:///oncue.db", "where jobs are kept: sqlite:///FILE or memory:"),
    Setting("concurrency", 1, "handlers that `oncue worker` runs side by side"),
    Setting(
        "log_level",
        "WARNING",
        "the least that is logged: DEBUG, INFO, WARNING or ERROR",
        ("DEBUG", "INFO", "WARNING", "ERROR"),
    ),
)
_BY_NAME = {setting.name: setting for setting in SETTINGS}


class Value(NamedTuple):
    value: Any
    origin: str


def read(
    given: Mapping[str, Any] | None = None,
    environment: Mapping[str, str] = os.environ,
    folder: Path | None = None,
) -> dict[str, Value]:
    """Every setting with its value and origin. Later wins: default, file, environment, option.

    Whatever is not a setting is refused: a misspelt one would be ignored silently."""
    values = {s.name: Value(s.default, "default") for s in SETTINGS}
    values |= _from_file((folder or Path.cwd()) / FILE)
    values |= _from_environment(environment)
    for name, value in (given or {}).items():
        if value is not None:
            option = "--" + name.replace("_", "-")
            values[name] = Value(_checked(_BY_NAME[name], value, option), "option")
    return values


def _from_file(path: Path) -> dict[str, Value]:
    try:
        text = path.read_text("utf-8")
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise InvalidInput(f"cannot be read: {error.strerror}.", FILE) from None
    except UnicodeDecodeError as error:
        raise InvalidInput(f"is not UTF-8: {error.reason} at byte {error.start}.", FILE) from None
    import tomllib

    try:
        members = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InvalidInput(f"is not TOML: {error}.", FILE) from None
    found = {}
    for name, value in members.items():
        place = f"{FILE}: {name}"
        if name not in _BY_NAME:
            raise InvalidInput(_unknown("setting", name, list(_BY_NAME)), place)
        found[name] = Value(_checked(_BY_NAME[name], value, place), FILE)
    return found


def _from_environment(environment: Mapping[str, str]) -> dict[str, Value]:
    known = {setting.variable: setting for setting in SETTINGS}
    found = {}
    for variable, value in environment.items():
        if not variable.startswith(PREFIX):
            continue
        if variable not in known:
            raise InvalidInput(_unknown("variable", variable, list(known)), variable)
        setting = known[variable]
        found[setting.name] = Value(_checked(setting, value, variable), variable)
    return found


def _checked(setting: Setting, value: Any, place: str) -> Any:
    if isinstance(setting.default, int):
        return _number(value, place)
    if not isinstance(value, str) or not value:
        raise InvalidInput("must be text, and not empty.", place)
    if not setting.choices:
        return value
    if value.upper() not in setting.choices:
        raise InvalidInput(f"{value!r} is none of {', '.join(setting.choices)}.", place)
    return value.upper()


def _number(value: Any, place: str) -> int:
    try:
        number = int(str(value))
    except ValueError:
        raise InvalidInput(f"{value!r} is not a whole number.", place) from None
    if number < 1:
        raise InvalidInput("must be at least 1.", place)
    return number


def _unknown(kind: str, name: str, known: list[str]) -> str:
    import difflib

    near = difflib.get_close_matches(name, known, n=1)
    hint = f"did you mean {near[0]}?" if near else f"known are {', '.join(known)}."
    return f"there is no such {kind}; {hint}"
