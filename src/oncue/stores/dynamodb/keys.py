"""Every key of the table, in one place. ADR 0017 has the same list as a table, with what each item
costs.

Moments stand in keys as fifteen digits of milliseconds, so that their order as text is their order
in time. No name that is part of a key contains `#`.
"""

from __future__ import annotations

from typing import NamedTuple

from oncue.core.event import EventType, Fact
from oncue.core.lifecycle import State
from oncue.core.moment import LATEST, Moment
from oncue.core.shard import Turn, shard_of
from oncue.core.stamp import EARLIEST, Stamp

INDEX = "look"
"""The one index: sparse, and with keys only. Its keys are the attributes `look` and `at`."""
LOOK_SHARDS = 16
WAKE_SHARDS = 4
OUTCOME_PAGES = 20
EXPIRING_SHARDS = 4
HEAD = "head"
LAST = "\U0010ffff"  # behind every text: keys are sorted by code points
NEVER: Moment = LATEST  # stands for no moment at all, behind all others


class Key(NamedTuple):
    pk: str
    sk: str


class Entry(NamedTuple):
    """An entry of the index."""

    look: str
    at: str


def digits(moment: Moment) -> str:
    return f"{moment:015d}"


# A job.

JOB_PREFIX = "i#"


def job(job_id: str) -> Key:
    """The record of a job: everything that is known of it."""
    return Key(f"{JOB_PREFIX}{job_id}", HEAD)


def side(job_id: str, part: str, number: int) -> Key:
    """A part of a record that stands apart. It is written once and never changed, but for the
    moment at which it may be forgotten."""
    return Key(f"i#{job_id}", f"{part}#{number}")


def line(queue: str, shard: int) -> str:
    """The partition of the jobs of a queue that wait, in the order in which they are taken."""
    return f"w#{queue}#{shard}"


def shard_in(line: str) -> int:
    return int(line.rpartition("#")[2])


def place(turn: Turn, ver: int) -> str:
    """The place of a waiting job in its line. No place is used twice: each has another `ver`."""
    return f"{turn_text(turn)}#{ver}"


def rank(turn: Turn) -> str:
    """Reclaimed work first, then priority from high to low: two digits."""
    return f"{int(turn.not_ahead)}{9 + turn.reversed_priority}"


def turn_text(turn: Turn) -> str:
    """A turn as text that sorts as the turn does."""
    return f"{rank(turn)}#{digits(turn.due_at)}#{turn.id}"


PUT_OFF = "p"
"""The rank of jobs that are put off, by the moment of their return. It is behind all others."""
PUT_OFF_BY_DUE = "y"
"""The same jobs once more, by due time, for lists."""


def put_off_place(not_before: Moment, job_id: str, ver: int) -> str:
    return f"{PUT_OFF}#{digits(not_before)}#{job_id}#{ver}"


def put_off_by_due(due_at: Moment, job_id: str, ver: int) -> str:
    return f"{PUT_OFF_BY_DUE}#{digits(due_at)}#{job_id}#{ver}"


class WaitingPlace(NamedTuple):
    """What the place of a waiting job says."""

    rank: str
    moment: Moment
    """When it is due; with the rank `PUT_OFF`, when it returns."""
    id: str
    ver: int


def read_place(sk: str) -> WaitingPlace:
    rank, moment, rest = sk.split("#", 2)
    job_id, _, ver = rest.rpartition("#")
    return WaitingPlace(rank, int(moment), job_id, int(ver))


def holder(queue: str, key: str) -> Key:
    """The unfinished job that has a key."""
    return Key(keyed(queue, key), "key")


def keyed(queue: str, key: str) -> str:
    """The partition of a key: its holder, and the finished jobs that had it."""
    return f"k#{queue}#{key}"


def owned(owner: str) -> str:
    """The partition of the jobs of an owner."""
    return f"o#{owner}"


def by_due(due_at: Moment, job_id: str) -> str:
    """The place of a job in a list by due time."""
    return f"{digits(due_at)}#{job_id}"


def read_by_due(sk: str) -> tuple[Moment, str]:
    due_at, _, job_id = sk.partition("#")
    return int(due_at), job_id


# The index.


def live(number: int) -> str:
    """Entries of live claims, by the moment at which each must be looked at."""
    return f"v#{number}"


def expiring(number: int) -> str:
    """Entries of waiting jobs that expire, by the moment at which they do."""
    return f"e#{number}"


def look_shard(job_id: str, shards: int = LOOK_SHARDS) -> int:
    return shard_of(job_id, shards)


def finished(queue: str, state: State, shard: int) -> str:
    """Entries of finished jobs, by due time."""
    return f"f#{queue}#{state}#{shard}"


def waking(number: int) -> str:
    """Entries of schedules that are not paused, by wake time."""
    return f"s#{number}"


def wake(name: str, wake_at: Moment) -> Entry:
    """The entry of a schedule."""
    return Entry(waking(shard_of(name, WAKE_SHARDS)), by_due(wake_at, name))


def touched(number: int) -> str:
    """Entries of rules to which something happened since they were last pruned, by name."""
    return f"u#{number}"


# A queue.


def queue(name: str) -> Key:
    return Key(QUEUES, name)


def lease(name: str, shard: int) -> Key:
    """Who delivers the jobs of one shard of a queue."""
    return Key(f"l#{name}#{shard}", "lease")


def limit(name: str) -> Key:
    """The bucket of a limited queue, and how many of its jobs are under way."""
    return Key(f"l#{name}", "limit")


QUEUES, TOKENS, NODES, META = "q", "t", "d", "m"
"""Partitions with few items, one for each name."""

SCHEMA = Key(META, "schema")
SECRET = Key(META, "secret")
LAST_LOOK = Key(META, "look")
INBOX = Key(META, "inbox")
CHANGES = Key(META, "changes")
"""Its `ver` rises with every change of settings, so that other processes notice it."""


# The inbox. The keys of foreign items are in `buckets.py`.


def inbox_lease(part: int) -> Key:
    """Who reads a part of the inbox, and how far it has come. A queue may be called `inbox`, so the
    second key is another than that of its leases."""
    return Key(f"l#inbox#{part}", "inbox")


def token(token_id: str) -> Key:
    return Key(TOKENS, token_id)


def node(node_id: str) -> Key:
    return Key(NODES, node_id)


# Schedules, rules, events.


def schedule(name: str) -> Key:
    return Key(f"c#{name}", HEAD)


def outcomes(name: str, page: int) -> Key:
    """A page of what became of the occurrences of a schedule. The last pages are kept: each takes
    the place of an old one."""
    return Key(f"c#{name}", f"o#{page % OUTCOME_PAGES:02d}")


def schedule_payload(name: str, number: int) -> Key:
    """The payload of a schedule, if it is large. It is written once and never changed."""
    return Key(f"c#{name}", f"payload#{number}")


def schedule_name(name: str) -> Key:
    return Key(SCHEDULES, name)


SCHEDULES, RULES = "C", "U"
"""Partitions of names, for lists."""


# A rule. `identity` tells it from one of the same name that was deleted, `wait` a dependency from
# one that was dropped and came back. Both are random, so nothing of the former is ever found.


def rule(name: str) -> Key:
    """What changes with its decisions. Every decision is fenced by the version of this item."""
    return Key(f"u#{name}", HEAD)


def settings(name: str) -> Key:
    """What people say of it."""
    return Key(f"u#{name}", "rule")


def accepted(name: str, wait: str, stamp: Stamp, arrival: str) -> Key:
    """An event that a dependency accepted, by event time."""
    return Key(f"u#{name}", f"{accepted_at(wait, stamp)}#{arrival}")


def accepted_at(wait: str, stamp: Stamp) -> str:
    """In front of what a dependency accepted with this stamp, and behind what is older."""
    return f"a#{wait}#{stamp - EARLIEST:018d}"


def all_accepted(wait: str) -> str:
    return f"a#{wait}#"


def marker(name: str, wait: str, stamp: Stamp) -> Key:
    """A marker of a dependency (`core/pair.py`), by event time."""
    return Key(f"u#{name}", marker_at(wait, stamp))


def marker_at(wait: str, stamp: Stamp) -> str:
    return f"{all_markers(wait)}{stamp - EARLIEST:018d}"


def all_markers(wait: str) -> str:
    """Behind all that the dependency accepted; it goes with that."""
    return f"{all_accepted(wait)}m#"


def decision(name: str, identity: str, arrival: str) -> Key:
    """What a rule decided on an event, in the order in which the events arrived."""
    return Key(f"u#{name}", f"{all_decisions(identity)}{arrival}")


def all_decisions(identity: str) -> str:
    return f"e#{identity}#"


def dropped(name: str, identity: str, wait: str) -> Key:
    """A dependency that the rule no longer has, until what it left is removed."""
    return Key(f"u#{name}", f"{all_dropped(identity)}{wait}")


def all_dropped(identity: str) -> str:
    return f"g#{identity}#"


DELETED_RULES = "G"
"""The partition of rules that were deleted, by identity, until what they left is removed."""


def waiting_for(kind: EventType, key: str) -> str:
    """The partition of the rules that may match events of a type with this key."""
    return f"x#{kind}#{key}"


def match(kind: EventType, key: str, name: str, wait: str) -> Key:
    """A rule that may match: whether it does is said by the rule."""
    return Key(waiting_for(kind, key), f"{name}#{wait}")


# An event.


def fact_text(fact: Fact) -> str:
    kind, resource, stamp = fact
    return f"{kind}#{stamp}#{resource}"


def read_fact(text: str) -> Fact:
    kind, stamp, resource = text.split("#", 2)
    return EventType(kind), resource, int(stamp)


def event(fact: Fact) -> Key:
    return Key(f"e#{fact_text(fact)}", HEAD)


def event_id(event_id: str) -> Key:
    """To which event an id belongs."""
    return Key(f"f#{event_id}", HEAD)


ARRIVAL_SHARDS = 16


def arrivals(number: int) -> str:
    """A partition of events in the order in which they arrived, for dumps."""
    return f"g#{number}"


def arrived(arrival: str) -> Key:
    return Key(arrivals(shard_of(arrival, ARRIVAL_SHARDS)), arrival)
