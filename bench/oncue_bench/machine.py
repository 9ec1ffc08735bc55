"""The machine that the figures belong to, and a place on its disk."""

from __future__ import annotations

import os
import platform
import resource
import tempfile
from pathlib import Path
from typing import Any

import apsw
import msgspec

from oncue.stores.sqlite.connection import file_system

_IN_MEMORY = ("tmpfs", "ramfs")


def describe(folder: Path) -> dict[str, Any]:
    return {
        "processor": _processor(),
        "cores": os.cpu_count(),
        "memory_gib": _memory_gib(),
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "sqlite": apsw.sqlite_lib_version(),
        "msgspec": msgspec.__version__,
        "file_system": file_system(folder / "any"),
        "load": round(os.getloadavg()[0], 2),
    }


def disk_folder() -> Path:
    """A new temporary folder on a real disk, if there is one."""
    places = [tempfile.gettempdir(), "/var/tmp", os.getcwd()]
    on_disk = [place for place in places if file_system(Path(place) / "any") not in _IN_MEMORY]
    return Path(tempfile.mkdtemp(prefix="oncue-bench-", dir=(on_disk or places)[0]))


def peak_kib() -> int:
    """The most memory this process ever held. The kernel's own figure where it gives one:
    `ru_maxrss` also counts the parent's memory at the moment of the fork."""
    return _status("VmHWM") or resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def rss_kib() -> int:
    """The memory this process holds now; where the kernel does not tell, the most it ever held."""
    return _status("VmRSS") or peak_kib()


def _status(name: str) -> int | None:
    try:
        status = Path("/proc/self/status").read_text("ascii", "replace")
    except OSError:
        return None
    lines = (line.split() for line in status.splitlines())
    return next((int(line[1]) for line in lines if line[:1] == [f"{name}:"]), None)


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text("utf-8", "replace").splitlines()
    except OSError:
        return platform.processor()
    return next((line.partition(":")[2].strip() for line in lines if "model name" in line), "")


def _memory_gib() -> float:
    return round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1)
