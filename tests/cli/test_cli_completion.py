"""`oncue completion`: scripts that shells understand."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from .terminal import run


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_says_how_to_install_it(tmp_path: Path, shell: str) -> None:
    ended = run("completion", shell, cwd=tmp_path)
    assert (ended.code, ended.err) == (0, "")
    assert f"# Install: oncue completion {shell} > " in ended.out
    assert "_ONCUE_COMPLETE" in ended.out


def test_zsh_finds_its_own_first_line(tmp_path: Path) -> None:
    assert run("completion", "zsh", cwd=tmp_path).out.startswith("#compdef oncue\n")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_shell_can_read_it(tmp_path: Path, shell: str) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"there is no {shell} here")
    script = run("completion", shell, cwd=tmp_path).out
    subprocess.run([shell, "-n"], input=script, text=True, check=True)


@pytest.mark.parametrize(
    ("words", "completed"),
    [("oncue doc", "doctor"), ("oncue config sh", "show"), ("oncue dump --res", "--resume")],
)
def test_commands_and_options_are_completed(tmp_path: Path, words: str, completed: str) -> None:
    asked = {
        "_ONCUE_COMPLETE": "bash_complete",
        "COMP_WORDS": words,
        "COMP_CWORD": str(len(words.split()) - 1),
    }
    ended = run(cwd=tmp_path, env=asked)
    assert ended.code == 0
    assert ended.out == f"plain,{completed}\n"
