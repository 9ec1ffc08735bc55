"""oncue on the terminal."""

from oncue.cli.app import main

__all__ = ["main"]
