"""How much is measured: the whole thing, the quick look, or whatever a test asks for."""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class Sizes:
    rounds: int = 4
    """Raw and product take turns so many times; medians are reported."""
    single: int = 200
    """W1: jobs scheduled one by one, in many short rounds: the disk's mood lasts for seconds."""
    single_rounds: int = 30
    crowds: tuple[int, ...] = (64, 512)
    """W1: concurrent asynchronous callers."""
    crowd_jobs: int = 25_000
    bulk: int = 200_000
    burst: int = 100_000
    """W2: jobs due at one instant."""
    large: int | None = 1_000_000
    """W2 again, with so many; None: not."""
    large_rounds: int = 2
    pending: tuple[int, ...] = (100_000, 1_000_000)
    """W3: jobs waiting far ahead."""
    timed: int = 500
    """W3: jobs due at distinct moments, over `timed_seconds`."""
    timed_seconds: float = 5.0
    timed_rounds: int = 3
    lead_seconds: float = 1.7
    """W3: how far ahead the first of them is scheduled."""
    idle_seconds: float = 10.0
    """W3: how long the idle process is looked at, in all rounds together."""
    few: int = 10_000
    """W4: jobs in the file at first."""
    many: int = 1_000_000
    """W4: jobs pending, and as many finished, in the end."""
    posts: int = 8_000
    """W5: jobs created by a request each, over so many connections."""
    connections: int = 64
    batch: int = 150_000
    """W5: jobs created by one request."""
    worked: int = 8_000
    """W5: jobs claimed and completed."""
    waiters: tuple[int, ...] = (1, 1_000)
    """W5: connections that wait for work, and how many jobs they get over `waited_seconds`."""
    waited: int = 100
    waited_seconds: float = 4.0
    rules: tuple[int, ...] = (10, 1_000, 100_000)
    """W6: rules in the store, of which one matches."""
    events_single: int = 50
    """W6: events published one by one, in `single_rounds` turns."""
    events_listed: int = 10_000
    schedules: tuple[int, ...] = (1_000, 100_000)
    """W7: schedules that fall due at the same minute."""
    schedule_rounds: int = 2
    stuck: int = 10_000
    """W8: jobs whose workers fell silent, among `many` others."""
    beaters: int = 1_000
    """W8: workers that send so many heartbeats each."""
    beats: int = 10
    cancelled: int = 1_000_000
    """W9: jobs cancelled by a filter."""
    table_lives: int = 500
    """W11: jobs of each life that is counted."""
    table_jobs: int = 20_000
    """W11: jobs inserted, and drained."""
    table_due: int = 100_000
    """W11: jobs drained while memory is looked at."""
    table_date: int = 100_000
    """W11: jobs due on one date, in 1 shard and in 50."""
    table_pending: tuple[int, int] = (1_000, 20_000)
    """W11: jobs that wait meanwhile: few, and many."""
    sqs_messages: int = 5_000
    """W13: messages sent in each round."""
    sqs_own: int = 200_000
    """W13: messages that an SQS in the same process takes at once."""
    sqs_tasks: int = 10_000
    """W13: tasks of one date."""
    sqs_due: int = 20_000
    """W13: due jobs that one tick sends."""
    sqs_timed: int = 300
    """W13: jobs due at random moments, over `sqs_seconds`."""
    sqs_seconds: float = 15.0
    sqs_sent: int = 300
    """W13: messages that SQS delays itself, in each round."""
    sqs_captured: int = 50_000
    """W13: messages that wait longer than SQS can delay them."""
    celery_sent: int = 500
    """W14: tasks below the threshold, in each round."""
    celery_captured: int = 10_000
    """W14: tasks that wait."""
    pg_rounds: int = 3
    """W15: as `rounds`, `single_rounds`, `crowd_jobs`, `bulk`, `burst`, `large` and `pending`."""
    pg_single_rounds: int = 10
    pg_crowd_jobs: int = 10_000
    pg_bulk: int = 100_000
    pg_burst: int = 100_000
    pg_large: int | None = None
    pg_shared: int = 150_000
    """W15: jobs that two processes drain."""
    pg_pending: int = 100_000
    pg_idle_seconds: float = 5.0
    pg_gone: int = 20_000
    """W15: jobs that came and went while a transaction was open, and the claims after that."""
    pg_claims: int = 300
    pg_far: int = 100_000
    """W15: jobs that are far ahead, and as many that are finished."""


DEFAULT = Sizes()
FULL = replace(
    DEFAULT,
    table_due=1_000_000,
    table_pending=(10_000, 200_000),
    sqs_tasks=100_000,
    sqs_due=50_000,
    sqs_captured=1_000_000,
    celery_captured=1_000_000,
    pg_large=1_000_000,
    pg_pending=1_000_000,
    pg_far=5_000_000,
)
"""Larger where the default is small because emulators are slow."""
QUICK = Sizes(
    rounds=2,
    single=100,
    single_rounds=10,
    crowd_jobs=8000,
    bulk=50_000,
    burst=50_000,
    large=None,
    pending=(50_000,),
    timed=150,
    timed_seconds=1.5,
    timed_rounds=2,
    idle_seconds=2.5,
    few=5_000,
    many=50_000,
    posts=4_000,
    batch=50_000,
    worked=4_000,
    waited=50,
    waited_seconds=2.0,
    events_listed=5_000,
    schedules=(1_000, 10_000),
    stuck=2_000,
    beats=5,
    cancelled=100_000,
    table_lives=100,
    table_jobs=5_000,
    table_due=10_000,
    table_date=2_000,
    table_pending=(500, 5_000),
    sqs_messages=2_000,
    sqs_own=50_000,
    sqs_tasks=1_000,
    sqs_due=3_000,
    sqs_timed=100,
    sqs_seconds=6.0,
    pg_rounds=1,
    pg_single_rounds=5,
    pg_crowd_jobs=5_000,
    pg_bulk=50_000,
    pg_burst=50_000,
    pg_shared=100_000,
    pg_pending=50_000,
    pg_idle_seconds=2.5,
    pg_gone=5_000,
    pg_claims=100,
    pg_far=20_000,
)
