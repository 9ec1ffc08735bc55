"""Settings for all property tests.

By default hypothesis fails a test whose example takes 200 ms, or whose examples are made slowly: on
a busy machine both happen to a test that is right. Examples are the same in every run, so that a
red run can be repeated and a green one means the same everywhere.
"""

from __future__ import annotations

from hypothesis import HealthCheck, settings

settings.register_profile(
    "oncue",
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("oncue")
