"""The brokers of Celery in tests: Redis and RabbitMQ, Debian packages that `make` installs."""

from __future__ import annotations

import shutil
from pathlib import Path
from urllib.parse import urlsplit

from tests.servers.emulators import NotInstalled
from tests.servers.session import begin, free_port

RABBITMQ = Path("/usr/lib/rabbitmq/bin/rabbitmq-server")
"""Not the one on the PATH, which changes to another user."""


def redis_url() -> str:
    """The session's Redis, in memory. Others have their keys there, too: prefix yours."""
    program = shutil.which("redis-server") or _missing("redis-server")
    options = ["--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--port"]
    return f"redis://{_listening('redis', [program, *options])}/0"


def rabbitmq_url() -> str:
    """The session's RabbitMQ. Others have their queues there, too: name yours uniquely."""
    epmd = shutil.which("epmd") or _missing("rabbitmq-server")
    if not RABBITMQ.exists():
        _missing("rabbitmq-server")
    of_epmd = ["env", "ERL_EPMD_ADDRESS=127.0.0.1", epmd, "-port"]
    names = _listening("epmd", of_epmd).rpartition(":")[2]
    folder = begin().folder / "rabbitmq"
    settings = {
        "HOME": folder,  # where Erlang keeps its cookie
        "ERL_EPMD_ADDRESS": "127.0.0.1",
        "ERL_EPMD_PORT": names,
        "RABBITMQ_NODENAME": "oncue@localhost",
        "RABBITMQ_NODE_IP_ADDRESS": "127.0.0.1",
        "RABBITMQ_MNESIA_BASE": folder / "mnesia",
        "RABBITMQ_LOG_BASE": folder,
        "RABBITMQ_LOGS": "-",
        "RABBITMQ_PID_FILE": folder / "pid",
        "RABBITMQ_FEATURE_FLAGS_FILE": folder / "feature_flags",
        "RABBITMQ_ENABLED_PLUGINS_FILE": folder / "plugins",
        "RABBITMQ_GENERATED_CONFIG_DIR": folder,
        "RABBITMQ_CONFIG_FILE": folder / "rabbitmq",
        "RABBITMQ_ADVANCED_CONFIG_FILE": folder / "advanced",
        "RABBITMQ_CONF_ENV_FILE": folder / "none",
        "RUNNING_UNDER_SYSTEMD": "1",  # the server takes the place of the script that starts it
    }
    folder.mkdir(exist_ok=True)
    start = ["env", *(f"{name}={value}" for name, value in settings.items())]
    start += [f"RABBITMQ_DIST_PORT={free_port()}"]
    address = begin().endpoint(
        "rabbitmq",
        lambda port: [*start, f"RABBITMQ_NODE_PORT={port}", str(RABBITMQ)],
        speaks_http=False,
    )
    return f"amqp://guest:guest@{urlsplit(address).netloc}//"


def _listening(name: str, start: list[str]) -> str:
    """The address of a server that is started with its port as the last argument."""
    address = begin().endpoint(name, lambda port: [*start, str(port)], speaks_http=False)
    return urlsplit(address).netloc


def _missing(package: str) -> str:
    raise NotInstalled(f"{package} is not installed: run `make brokers`")
