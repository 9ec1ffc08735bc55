"""A server to break."""

from tests.servers.fixtures import server as server
