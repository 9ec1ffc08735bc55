"""How long to rest before looking again for work that is due and could not be taken.

Another process is about to take it, or a limit keeps it. The store says how long a look is worth
waiting for (`Traits.poll_seconds`): where each look costs a request, it is longer.
"""

from __future__ import annotations

import random
from collections.abc import Callable

POLL_SECONDS = 0.05
"""If the store says nothing else."""


def about(seconds: float, chance: Callable[[], float] = random.random) -> float:
    """A rest of so long, or up to a quarter shorter: processes that found the same job taken at the
    same moment do not look again at the same moment."""
    return seconds * (0.75 + chance() / 4)
