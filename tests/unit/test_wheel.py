"""What the wheel contains: the package, without benchmark, demonstration and tour."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def test_the_wheel_has_one_package() -> None:
    targets = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"][
        "targets"
    ]
    assert targets["wheel"] == {"packages": ["src/oncue"]}


@pytest.mark.parametrize("name", ["bench", "demo.py", "tour.py"])
def test_what_is_for_a_clone_is_not_in_it(name: str) -> None:
    assert not (ROOT / "src" / "oncue" / name).exists()


def test_only_the_command_bench_imports_what_is_not_in_it() -> None:
    found = [path for path in ROOT.glob("src/**/*.py") if "import oncue_bench" in path.read_text()]
    found += [path for path in ROOT.glob("src/**/*.py") if "from oncue_bench" in path.read_text()]
    assert [path.name for path in found] == ["bench.py"]
