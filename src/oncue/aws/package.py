"""The package of the Lambda functions: oncue with what its handlers need (`requirements.txt`).

    python -m oncue.aws.package oncue.zip
    python -m oncue.aws.package "$(ARTIFACTS_DIR)"

The second form fills a folder, as a Makefile of SAM wants it. oncue is copied from where it is
installed, since pip would install all of its dependencies with it; pip installs the others.
"""

from __future__ import annotations

import argparse
import compileall
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from py_compile import PycInvalidationMode
from tempfile import TemporaryDirectory
from typing import NamedTuple
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

import oncue

REQUIREMENTS = Path(__file__).with_name("requirements.txt")
DEPLOYED = "/var/task"  # the folder of a function's package
LEFT_OUT = ("__pycache__", "bin", "cli")  # compiled anew; programs; the terminal
_MACHINES = {"arm64": "aarch64", "x86_64": "x86_64"}


OLDEST = "3.11"
NOT_A_RUNTIME = f"must be a version such as 3.12, and not older than {OLDEST}"


class Runtime(NamedTuple):
    """Where the functions run."""

    architecture: str = "arm64"
    python: str = f"{sys.version_info.major}.{sys.version_info.minor}"

    @property
    def platforms(self) -> list[str]:
        """Of wheels, by the version of the C library: Amazon Linux 2023 came with Python 3.12."""
        newer = ["manylinux_2_28", "manylinux_2_34"]
        known = ["manylinux2014", "manylinux_2_17"] + (newer if self.minor >= 12 else [])
        return [f"{one}_{_MACHINES[self.architecture]}" for one in known]

    @property
    def minor(self) -> int:
        return int(self.python.partition(".")[2])


def is_runtime(python: str) -> bool:
    """Whether the functions can run on this version of Python."""
    return re.fullmatch(r"3\.[1-9]\d", python) is not None and python >= OLDEST


Install = Callable[[Path, Runtime], None]
"""Puts what `requirements.txt` names into a folder."""


def by_pip(folder: Path, runtime: Runtime) -> None:
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet", "install"]
    pip += ["--target", str(folder), "--no-compile", "--only-binary", ":all:"]
    pip += ["--implementation", "cp", "--python-version", runtime.python]
    pip += [f"--platform={one}" for one in runtime.platforms]
    subprocess.run([*pip, "--requirement", str(REQUIREMENTS)], check=True)


def build(folder: Path, runtime: Runtime, install: Install = by_pip) -> None:
    """Fill a folder, which need not exist."""
    folder.mkdir(parents=True, exist_ok=True)
    install(folder, runtime)
    ignored = shutil.ignore_patterns(*LEFT_OUT)
    shutil.rmtree(folder / "bin", ignore_errors=True)
    shutil.copytree(
        Path(oncue.__file__).parent, folder / "oncue", ignore=ignored, dirs_exist_ok=True
    )
    if runtime.python == Runtime().python:
        # A function cannot write to its folder: without byte code, each cold start would compile
        # everything. It is never compared with the source, whose time a zip file does not keep.
        compileall.compile_dir(
            folder,
            quiet=1,
            force=True,
            stripdir=folder,
            prependdir=DEPLOYED,
            invalidation_mode=PycInvalidationMode.UNCHECKED_HASH,
        )


def zip_folder(folder: Path, file: Path) -> None:
    """The same content makes the same file, so that nothing is deployed in vain."""
    with ZipFile(file, "w", ZIP_DEFLATED, compresslevel=9) as zipped:
        for path in sorted(folder.rglob("*")):
            if path.is_file():
                entry = ZipInfo(path.relative_to(folder).as_posix(), (1980, 1, 1, 0, 0, 0))
                entry.compress_type, entry.external_attr = ZIP_DEFLATED, 0o644 << 16
                zipped.writestr(entry, path.read_bytes())


def main(arguments: Sequence[str] | None = None) -> int:
    asked = _parser().parse_args(arguments)
    runtime = Runtime(asked.architecture, asked.python)
    try:
        _write(asked.target, runtime)
    except subprocess.CalledProcessError:
        print("pip could not install the libraries; it says above why.", file=sys.stderr)
        return 1
    if runtime.python != Runtime().python:
        text = f"without byte code, as this is not Python {runtime.python}: cold starts are slower"
        print(text, file=sys.stderr)
    return 0


def _write(target: Path, runtime: Runtime) -> None:
    if target.suffix != ".zip":
        build(target, runtime)
        return
    with TemporaryDirectory(prefix="oncue-package-") as folder:
        build(Path(folder), runtime)
        zip_folder(Path(folder), target)
    print(f"{target}: {target.stat().st_size / 1_000_000:.1f} MB", file=sys.stderr)


def _runtime(python: str) -> str:
    if not is_runtime(python):
        raise argparse.ArgumentTypeError(NOT_A_RUNTIME)
    return python


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        "python -m oncue.aws.package", description="Build the package of the Lambda functions."
    )
    parser.add_argument("target", type=Path, help="a file that ends in .zip, or a folder")
    parser.add_argument("--architecture", choices=list(_MACHINES), default="arm64")
    parser.add_argument(
        "--python",
        type=_runtime,
        default=Runtime().python,
        help="the version of the functions' runtime",
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
