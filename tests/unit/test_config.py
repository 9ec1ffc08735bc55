"""Settings: where they come from, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from oncue import config
from oncue.core.errors import InvalidInput
from oncue.core.event import Bounds


def read(
    folder: Path, toml: str | None = None, given: dict[str, object] | None = None, **variables: str
) -> dict[str, config.Value]:
    if toml is not None:
        (folder / "oncue.toml").write_text(toml, "utf-8")
    return config.read(given, variables, folder)


def test_without_anything_every_setting_has_its_default(tmp_path: Path) -> None:
    found = read(tmp_path)
    assert found["store"] == ("sqlite:///oncue.db", "default")
    assert set(found) == {setting.name for setting in config.SETTINGS}


def test_an_option_beats_the_environment_and_that_beats_the_file(tmp_path: Path) -> None:
    toml = 'store = "sqlite:///file.db"\nconcurrency = 2\nlog_level = "INFO"\n'
    found = read(
        tmp_path, toml, {"store": "memory:"}, ONCUE_STORE="sqlite:///env.db", ONCUE_CONCURRENCY="3"
    )
    assert found["store"] == ("memory:", "option")
    assert found["concurrency"] == (3, "ONCUE_CONCURRENCY")
    assert found["log_level"] == ("INFO", "oncue.toml")


def where(values: dict[str, config.Value]) -> object:
    """The place that the settings decide for."""
    return values["url"].value or values["store"].value


@pytest.mark.parametrize(
    ("toml", "given", "variables", "place"),
    [
        ("", {}, {"ONCUE_URL": "http://env"}, "http://env"),
        ("url = 'http://file'", {}, {"ONCUE_STORE": "env:"}, "env:"),
        ("store = 'file:'", {}, {"ONCUE_URL": "http://env"}, "http://env"),
        ("", {"store": "option:"}, {"ONCUE_URL": "http://env"}, "option:"),
        ("url = 'http://file'", {"store": "option:"}, {}, "option:"),
        ("", {"url": "http://option"}, {"ONCUE_STORE": "env:"}, "http://option"),
        ("", {}, {"ONCUE_URL": "http://env", "ONCUE_STORE": "env:"}, "http://env"),
        ("store = 'file:'\nurl = 'http://file'", {}, {}, "http://file"),
    ],
)
def test_a_store_and_a_url_are_two_answers_to_one_question_and_the_later_wins(
    tmp_path: Path, toml: str, given: dict[str, object], variables: dict[str, str], place: str
) -> None:
    assert where(read(tmp_path, toml, given, **variables)) == place


def test_an_option_that_was_not_given_changes_nothing(tmp_path: Path) -> None:
    assert read(tmp_path, given={"store": None})["store"].origin == "default"


def test_a_level_may_be_written_small(tmp_path: Path) -> None:
    assert read(tmp_path, ONCUE_LOG_LEVEL="debug")["log_level"].value == "DEBUG"


def test_a_format_may_be_written_large(tmp_path: Path) -> None:
    assert read(tmp_path, ONCUE_LOG_FORMAT="JSON")["log_format"].value == "json"


@pytest.mark.parametrize(
    ("variables", "said"),
    [
        ({"ONCUE_STOR": "x"}, "did you mean ONCUE_STORE"),
        ({"ONCUE_TEST_KILL": "after-claim:1"}, "there is no such variable"),
        ({"ONCUE_CONCURRENCY": "many"}, "ONCUE_CONCURRENCY: 'many' is not a whole number"),
        ({"ONCUE_CONCURRENCY": "0"}, "at least 1"),
        ({"ONCUE_PORT": "99999"}, "at most 65535"),
        ({"ONCUE_LOG_LEVEL": "LOUD"}, "none of DEBUG, INFO, WARNING, ERROR"),
        ({"ONCUE_LOG_FORMAT": "xml"}, "ONCUE_LOG_FORMAT: 'xml' is none of text, json"),
        ({"ONCUE_STORE": ""}, "not empty"),
    ],
)
def test_wrong_variables_are_refused(tmp_path: Path, variables: dict[str, str], said: str) -> None:
    with pytest.raises(InvalidInput, match=said):
        config.read(None, variables, tmp_path)


@pytest.mark.parametrize(
    ("toml", "said"),
    [
        ("stroe = 'x'", "oncue.toml: stroe: there is no such setting; did you mean store"),
        ("[server]\nport = 1", "oncue.toml: server: there is no such setting"),
        ("store = 3", "oncue.toml: store: must be text"),
        ("concurrency = true", "not a whole number"),
        ("concurrency = 1.5", "not a whole number"),
        ("store = ", "oncue.toml: is not TOML"),
    ],
)
def test_wrong_files_are_refused(tmp_path: Path, toml: str, said: str) -> None:
    with pytest.raises(InvalidInput, match=said):
        read(tmp_path, toml)


def test_a_file_that_is_no_text_is_refused(tmp_path: Path) -> None:
    (tmp_path / "oncue.toml").write_bytes(b"store = '\xff'")
    with pytest.raises(InvalidInput, match="not UTF-8"):
        read(tmp_path)


def test_a_folder_in_the_place_of_the_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "oncue.toml").mkdir()
    with pytest.raises(InvalidInput, match="cannot be read"):
        read(tmp_path)


def test_the_sinks_of_lambda_functions_are_variables_of_any_name(tmp_path: Path) -> None:
    assert read(tmp_path, ONCUE_SINK_MAIL="sqs://mail")["store"].origin == "default"
    with pytest.raises(InvalidInput, match="there is no such variable"):
        read(tmp_path, ONCUE_SINKS="x")


def test_the_scopes_of_a_gateway_are_a_setting(tmp_path: Path) -> None:
    found = read(tmp_path, ONCUE_GATEWAY_SCOPES="read,write")["gateway_scopes"]
    assert found == ("read,write", "ONCUE_GATEWAY_SCOPES")


def test_how_far_off_events_may_lie_is_a_setting(tmp_path: Path) -> None:
    (tmp_path / "oncue.toml").write_text("events_loose_seconds = 0\n")
    settings = read(tmp_path, ONCUE_EVENTS_LATE_SECONDS="60")
    assert config.event_bounds(settings) == Bounds(late_seconds=60, loose_seconds=0)
    with pytest.raises(InvalidInput, match="at least 0"):
        read(tmp_path, ONCUE_EVENTS_AHEAD_SECONDS="-1")


def test_other_peoples_variables_are_none_of_our_business(tmp_path: Path) -> None:
    assert read(tmp_path, PATH="/bin", _ONCUE_COMPLETE="x")["store"].origin == "default"


@pytest.mark.parametrize(
    ("url", "variable", "command"),
    [
        ("sqlite:///oncue.db", "ONCUE_CONCURRENCY", "oncue top"),
        ("sqlite:///oncue.db", "ONCUE_STORE", "oncue --store sqlite:///oncue.db top"),
        ("sqlite:///oncue.db", "ONCUE_URL", "oncue --store sqlite:///oncue.db top"),
        ("sqlite:////var/jobs.db", "ONCUE_STORE", "oncue --store sqlite:////var/jobs.db top"),
        ("dynamodb://jobs?region=a", "", "oncue --store 'dynamodb://jobs?region=a' top"),
        (
            "postgresql://oncue:geheim@h/jobs",
            "",
            "oncue --store 'postgresql://oncue:***@h/jobs' top (with the password instead of ***)",
        ),
    ],
)
def test_a_command_on_the_store_of_a_program_is_printed_without_the_password(
    url: str, variable: str, command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("ONCUE_STORE", "ONCUE_URL"):
        monkeypatch.delenv(name, raising=False)
    if variable:
        monkeypatch.setenv(variable, "any")
    options = config.store_options(url)
    assert options is not None
    assert config.typed(options, "top") == command


@pytest.mark.parametrize("url", [None, "memory:"])
def test_no_command_finds_a_store_in_memory_or_one_that_no_url_names(url: str | None) -> None:
    assert config.store_options(url) is None
