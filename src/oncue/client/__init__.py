"""The scheduler from another machine: what `Scheduler` does, asked over HTTP."""

from oncue.client.client import Client

__all__ = ["Client"]
