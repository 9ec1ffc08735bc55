"""The package of the Lambda functions: what is in it, how large it is, and that it is enough."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import tomllib
from importlib.metadata import distribution
from pathlib import Path
from zipfile import ZipFile

import pytest

from oncue.aws import HANDLERS, package
from oncue.aws.package import Runtime
from tests.aws.gateway import Gateway
from tests.aws.test_cold_import import ABSENT, INVOKED

ROOT = Path(__file__).parents[2]
LARGEST_BYTES = 5_000_000
RUNTIME = ["boto3", "botocore", "dateutil", "jmespath", "s3transfer", "six.py"]
"""What Lambda's runtime has of boto3; its urllib3 is left out, since the package has one."""
LEFT_OUT = {*ABSENT, "boto3"}
_NAME = re.compile(r"[A-Za-z0-9-]+")


def names(requirements: list[str]) -> list[str]:
    return [found[0].lower() for one in requirements if (found := _NAME.match(one))]


def required() -> list[str]:
    lines = package.REQUIREMENTS.read_text().splitlines()
    return [line for line in lines if line and not line.startswith("#")]


def as_installed(folder: Path, runtime: Runtime) -> None:
    """Instead of pip: what is installed here, which takes no time and no network."""
    left = names(required())
    while left:
        found = distribution(left.pop())
        left += names([one for one in found.requires or [] if "extra" not in one])
        for file in found.files or []:
            if ".." not in file.parts and "__pycache__" not in file.parts:
                target = folder / file
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(str(file.locate()), target)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("package")
    package.build(folder, Runtime(), as_installed)
    return folder


def test_it_needs_what_oncue_needs_except_what_is_left_out() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    kept = [one for one in project["dependencies"] if not set(names([one])) & LEFT_OUT]
    assert sorted(required()) == sorted(kept)


def test_it_has_the_handlers_and_nothing_that_is_left_out(built: Path) -> None:
    found = {path.name.lower() for path in built.iterdir()}
    assert {"oncue", "msgspec", "markupsafe"} <= found
    assert not {name for name in found for absent in LEFT_OUT if name.startswith(absent)}
    assert not (built / "oncue" / "cli").exists()
    for module in HANDLERS.values():
        assert (built / module.replace(".", "/")).with_suffix(".py").exists()


def test_it_is_small_and_always_the_same(built: Path, tmp_path: Path) -> None:
    package.zip_folder(built, tmp_path / "one.zip")
    assert (tmp_path / "one.zip").stat().st_size <= LARGEST_BYTES
    again = tmp_path / "again"
    package.build(again, Runtime(), as_installed)
    package.zip_folder(again, tmp_path / "two.zip")
    assert (tmp_path / "one.zip").read_bytes() == (tmp_path / "two.zip").read_bytes()
    with ZipFile(tmp_path / "one.zip") as zipped:
        assert "oncue/aws/gateway.py" in zipped.namelist()


def test_its_byte_code_is_used_whatever_the_time_of_the_source(built: Path) -> None:
    cached = next((built / "oncue" / "aws" / "__pycache__").glob("gateway.*.pyc"))
    assert cached.read_bytes()[4:8] == b"\x01\x00\x00\x00"  # by hash, unchecked
    assert b"/var/task/oncue/aws/gateway.py" in cached.read_bytes()


def test_another_version_of_python_has_no_byte_code(tmp_path: Path) -> None:
    package.build(tmp_path, Runtime(python="3.99"), lambda folder, runtime: None)
    assert not list(tmp_path.rglob("*.pyc"))


@pytest.fixture(scope="module")
def runtime(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """boto3 as in Lambda's runtime."""
    folder = tmp_path_factory.mktemp("runtime")
    installed = Path(str(distribution("boto3").locate_file("")))
    for name in RUNTIME:
        (folder / name).symlink_to(installed / name)
    return folder


def run(built: Path, runtime: Path, program: str, *arguments: str) -> str:
    """A program that finds nothing but the package, boto3 and Python itself."""
    paths = f"import sys; sys.path[:0] = {[str(built), str(runtime)]}\n"
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-B", "-c", paths + program, *arguments],
        env={},
        cwd="/",
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("name", HANDLERS)
def test_a_handler_is_imported_from_the_package_alone(
    built: Path, runtime: Path, name: str
) -> None:
    program = f"import boto3, oncue.stores.dynamodb.store; from oncue.aws import {name}\n"
    program += f"print({name}.__name__, sys.modules['oncue'].__file__)"
    assert run(built, runtime, program).split() == [name, str(built / "oncue" / "__init__.py")]


def test_the_api_function_answers_from_the_package_alone(built: Path, runtime: Path) -> None:
    asked = ["/jobs?limit=1", "/docs", "/openapi.json", "/metrics", "/schedules"]
    events = [Gateway().event("GET", target) for target in asked]
    lines = run(built, runtime, INVOKED, json.dumps(events)).splitlines()
    assert [one for one in lines if not one.startswith("{")] == ["200"] * len(asked)


def test_pip_is_asked_for_wheels_of_the_functions_machine(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    asked: list[str] = []
    monkeypatch.setattr(subprocess, "run", lambda command, check: asked.extend(command))
    package.by_pip(tmp_path, Runtime("x86_64", "3.12"))
    assert {"--platform=manylinux2014_x86_64", "--platform=manylinux_2_28_x86_64"} <= set(asked)
    assert asked[asked.index("--python-version") + 1] == "3.12"
    assert asked[-1] == str(package.REQUIREMENTS)
    # Python 3.11 runs on Amazon Linux 2, whose C library is older.
    assert Runtime("arm64", "3.11").platforms == [
        *("manylinux2014_aarch64", "manylinux_2_17_aarch64")
    ]


@pytest.mark.parametrize("python", ["3.9", "3.11.7", "python3.12", "4"])
def test_a_version_on_which_the_functions_cannot_run_is_refused(
    python: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        package.main(["oncue.zip", "--python", python])
    assert "must be a version such as 3.12, and not older than 3.11" in capsys.readouterr().err


def test_if_pip_fails_the_program_ends_with_a_sentence(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(command: list[str], check: bool) -> None:
        raise subprocess.CalledProcessError(1, command)

    monkeypatch.setattr(subprocess, "run", fail)
    assert package.main([str(tmp_path / "oncue.zip")]) == 1
    assert "pip could not install the libraries" in capsys.readouterr().err
