"""pgbouncer before the session's PostgreSQL, a Debian package that `make` installs."""

from __future__ import annotations

import shutil
from urllib.parse import urlsplit

from tests.servers.emulators import NotInstalled
from tests.servers.postgres import as_nobody, postgres_url
from tests.servers.session import begin

APART = "apart"
"""Another name of the database, with connections of its own: what a test prepares there is met by
no other test."""
SETTINGS = """\
[databases]
{apart} = host={host} port={port} user=postgres dbname=postgres
* = host={host} port={port} user=postgres
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {own}
unix_socket_dir =
auth_type = any
pool_mode = transaction
max_client_conn = 2000
default_pool_size = 50
"""


def pgbouncer_url(version: str = "18") -> str:
    """Of the session's server of that version, through a pooler that gives each transaction another
    connection."""
    program = shutil.which("pgbouncer", path="/usr/sbin:/usr/bin")
    if program is None:
        raise NotInstalled("pgbouncer is not installed: run `make brokers`")
    server = urlsplit(postgres_url(version))
    name = f"pgbouncer-{version}"

    def command(port: int) -> list[str]:
        settings = begin().folder / f"{name}.ini"
        place = {"host": server.hostname, "port": server.port}
        settings.write_text(SETTINGS.format(apart=APART, own=port, **place))
        return [*as_nobody(), program, "--quiet", str(settings)]

    address = begin().endpoint(name, command, speaks_http=False)
    return server._replace(netloc=f"postgres@{urlsplit(address).netloc}").geturl()
