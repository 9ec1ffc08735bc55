"""Settings: from the command line, the environment, or `oncue.toml`; and where each came from."""

from __future__ import annotations

import os
import shlex
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from oncue.core.errors import InvalidInput
from oncue.core.event import DEFAULT_BOUNDS, Bounds
from oncue.core.moment import HORIZON_MS
from oncue.core.operations import DEFAULT_LIMITS, OperationLimits
from oncue.core.redaction import HIDDEN as PASSWORD
from oncue.core.redaction import shown_url

PREFIX = "ONCUE_"
_LONGEST_SECONDS = HORIZON_MS // 1000
OF_OTHERS = ("ONCUE_SINK_", "ONCUE_INBOX_SHARDS", "ONCUE_POLL_SECONDS")
"""How the names of variables begin that only Lambda functions use (`aws/sandbox.py`), or programs
that poll (`integrations/`)."""
SHOWN_OF_OTHERS = ("ONCUE_SINK_<QUEUE>", "ONCUE_INBOX_SHARDS", "ONCUE_POLL_SECONDS")
FILE = "oncue.toml"


class Setting(NamedTuple):
    name: str
    default: str | int | None
    help: str
    choices: tuple[str, ...] = ()
    """The values that are allowed, in whatever case they are given; empty: any."""
    least: int = 1
    """The smallest that is allowed, of a number."""
    most: int | None = None
    """The largest."""
    secret: bool = False
    """Never shown: what can be seen of it is that it is set."""
    is_url: bool = False
    """Shown without the password that it may hold."""

    @property
    def variable(self) -> str:
        return PREFIX + self.name.upper()


SETTINGS = (
    Setting(
        "store",
        "sqlite:///oncue.db",
        "where jobs are kept: sqlite:///FILE, postgresql://USER@HOST/DATABASE, "
        "dynamodb://TABLE?region=… or memory:",
        is_url=True,
    ),
    Setting("url", None, "the server to ask instead of a store: http://HOST:PORT", is_url=True),
    Setting("token", None, "the access token that the server asks for", secret=True),
    Setting("host", "127.0.0.1", "the address that `oncue serve` listens on"),
    Setting("port", 8420, "the port of `oncue serve`; 0: any free one", least=0, most=65535),
    Setting(
        "max_connections",
        10_000,
        "connections that `oncue serve` keeps; fewer if the system allows fewer open files",
    ),
    Setting(
        "max_unread_mib",
        256,
        "MiB that `oncue serve` keeps of answers that nobody reads, and again of arriving bodies",
    ),
    Setting("rules", None, "the file of rules that the Flask application loads when it starts"),
    Setting(
        "gateway_scopes",
        None,
        "the scopes that a gateway's authoriser grants every caller of the Lambda function "
        "`oncue.aws.api`, such as read,write; without it, callers need an access token",
    ),
    Setting(
        "operations_per_job",
        DEFAULT_LIMITS.operations,
        "the most operations that one job may have",
        most=2000,
    ),
    Setting(
        "operation_bytes_per_job",
        DEFAULT_LIMITS.result_bytes,
        "the most bytes that the results of one job's operations may have together",
        most=64 * 1024 * 1024,
    ),
    Setting(
        "events_ahead_seconds",
        DEFAULT_BOUNDS.ahead_seconds,
        "an event that lies further ahead of the clock is refused",
        least=0,
        most=_LONGEST_SECONDS,
    ),
    Setting(
        "events_late_seconds",
        DEFAULT_BOUNDS.late_seconds,
        "an event that is older than the newest one of its rule by more than this and the longest "
        "lifeDuration is too late",
        least=0,
        most=_LONGEST_SECONDS,
    ),
    Setting(
        "events_loose_seconds",
        DEFAULT_BOUNDS.loose_seconds,
        "how long an event on which no rule decided is kept",
        least=0,
        most=_LONGEST_SECONDS,
    ),
    Setting("concurrency", 1, "handlers that `oncue worker` runs side by side"),
    Setting(
        "log_level",
        "WARNING",
        "log this level and above: DEBUG, INFO, WARNING or ERROR",
        ("DEBUG", "INFO", "WARNING", "ERROR"),
    ),
    Setting("log_format", "text", "the form of the log: text or json", ("text", "json")),
)
_BY_NAME = {setting.name: setting for setting in SETTINGS}
_PLACES = {_BY_NAME[name].variable for name in ("store", "url")}


HIDDEN = "(hidden)"


class Value(NamedTuple):
    value: Any
    origin: str

    def shown(self, setting: Setting) -> Any:
        """The value as it may be printed."""
        if setting.is_url and self.value is not None:
            return shown_url(str(self.value))
        return HIDDEN if setting.secret and self.value is not None else self.value


def read(
    given: Mapping[str, Any] | None = None,
    environment: Mapping[str, str] = os.environ,
    folder: Path | None = None,
) -> dict[str, Value]:
    """Every setting with its value and origin. Later wins: default, file, environment, option.

    `store` and `url` exclude each other: a later store also undoes an earlier URL, and of two with
    the same origin the URL is used. Unknown settings are refused: a misspelt one would be ignored
    silently."""
    values = {s.name: Value(s.default, "default") for s in SETTINGS}
    for found in (
        _from_file((folder or Path.cwd()) / FILE),
        _from_environment(environment),
        {k: Value(value, "option") for k, value in (given or {}).items() if value is not None},
    ):
        if "store" in found:
            values["url"] = Value(None, "default")
        for name, value in found.items():
            checked = _checked(_BY_NAME[name], value.value, written(value, name))
            values[name] = Value(checked, value.origin)
    return values


def operation_limits(settings: Mapping[str, Value]) -> OperationLimits:
    count, result_bytes = settings["operations_per_job"], settings["operation_bytes_per_job"]
    return OperationLimits(count.value, result_bytes.value)


def event_bounds(settings: Mapping[str, Value]) -> Bounds:
    names = ("events_ahead_seconds", "events_late_seconds", "events_loose_seconds")
    return Bounds(*(settings[name].value for name in names))


def written(value: Value, name: str) -> str:
    """Where a setting was written: the option, the variable, or the file and the name in it."""
    if value.origin == "option":
        return "--" + name.replace("_", "-")
    return f"{FILE}: {name}" if value.origin == FILE else value.origin


class FileSecrets(NamedTuple):
    """Settings of `oncue.toml` that have something in them that others should not see."""

    names: list[str]
    mode: int
    """Of the file: who may read it."""

    @property
    def are_exposed(self) -> bool:
        """Whether others than the owner of the file may read it."""
        return bool(self.mode & 0o044)


def secrets_in_file(folder: Path | None = None) -> FileSecrets:
    path = (folder or Path.cwd()) / FILE
    found = _from_file(path)
    names = [name for name, one in found.items() if one.shown(_BY_NAME[name]) != one.value]
    return FileSecrets(names, path.stat().st_mode if names else 0)


def store_options(url: str | None) -> tuple[str, ...] | None:
    """The options with which a command finds the store of a program, to be printed. None: no
    command finds it, as it is in memory, or was not named by a URL."""
    if url is None or url.startswith("memory:"):
        return None
    if url == _BY_NAME["store"].default and not _PLACES & os.environ.keys():
        return ()
    return "--store", shown_url(url)


def typed(options: Sequence[str], *words: str) -> str:
    """A command with options that may hold a hidden password, to be printed for a shell."""
    hint = " (with the password instead of ***)" if PASSWORD in "".join(options) else ""
    return shlex.join(["oncue", *options, *words]) + hint


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
        fields = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InvalidInput(f"is not TOML: {error}.", FILE) from None
    _refuse_unknown("setting", fields, _BY_NAME, f"{FILE}: ")
    return {name: Value(value, FILE) for name, value in fields.items()}


def _from_environment(environment: Mapping[str, str]) -> dict[str, Value]:
    refuse_unknown_variables(environment)
    known = {setting.variable: setting.name for setting in SETTINGS}
    ours = {name: value for name, value in environment.items() if name in known}
    return {known[variable]: Value(value, variable) for variable, value in ours.items()}


def refuse_unknown_variables(environment: Iterable[str]) -> None:
    """A name that is misspelt would be left out without a word."""
    ours = (
        name for name in environment if name.startswith(PREFIX) and not name.startswith(OF_OTHERS)
    )
    known = [setting.variable for setting in SETTINGS]
    _refuse_unknown("variable", ours, [*known, *SHOWN_OF_OTHERS])


def _checked(setting: Setting, value: Any, place: str) -> Any:
    if isinstance(setting.default, int):
        return _number(value, place, setting)
    if not isinstance(value, str) or not value:
        raise InvalidInput("must be text, and not empty.", place)
    if not setting.choices:
        return value
    for choice in setting.choices:
        if value.upper() == choice.upper():
            return choice
    raise InvalidInput(f"{value!r} is none of {', '.join(setting.choices)}.", place)


def _number(value: Any, place: str, setting: Setting) -> int:
    try:
        number = int(str(value))
    except ValueError:
        raise InvalidInput(f"{value!r} is not a whole number.", place) from None
    if number < setting.least:
        raise InvalidInput(f"must be at least {setting.least}.", place)
    if setting.most is not None and number > setting.most:
        raise InvalidInput(f"must be at most {setting.most}.", place)
    return number


def _refuse_unknown(
    kind: str, names: Iterable[str], known: Collection[str], place: str = ""
) -> None:
    for name in sorted(set(names).difference(known)):
        import difflib

        near = difflib.get_close_matches(name, known, n=1)
        hint = f"did you mean {near[0]}?" if near else f"known are {', '.join(known)}."
        raise InvalidInput(f"there is no such {kind}; {hint}", place + name)
