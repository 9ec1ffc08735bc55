"""The long form of the proof: python -m tests.chaos. It takes about 28 minutes and ends by itself.

1. worlds on a fake clock, with fresh seeds: faults, deaths, stops, a clock that is turned
2. the state machine that compares the stores, with fresh seeds
3. DynamoDB in trouble: storms, duels at every two points, a crowd; and what lives cost on a full
   table
4. real processes (askers, dispatchers, workers with several threads, workers behind a sink): first
   a control in peace, in which nothing may be done twice, then killed and stopped while they work;
   then two dispatchers that share a queue, alone
5. the same on DynamoDB Local with fewer jobs, and four dispatchers that share a queue
6. the same on PostgreSQL
7. effects that happen exactly once on PostgreSQL: workers that write in the transaction in which
   their job is completed, killed and stopped, on a server that crashes, or whose standby takes over
8. processes on a server of PostgreSQL that dies again and again; and on two that take turns, as
   primary and synchronous standby
9. the contract suite on other emulators of DynamoDB and on PostgreSQL 14, a fresh part of it

Each part prints its card; what fails is printed with what it takes to see it again. The sizes come
from the environment: ONCUE_CHAOS_JOBS (100000), ONCUE_CHAOS_KILLS (100), ONCUE_CHAOS_SECONDS (900,
for the processes of one run), ONCUE_CHAOS_WORLDS and ONCUE_CHAOS_MACHINE (90 seconds each),
ONCUE_CHAOS_SEED; for DynamoDB: ONCUE_CHAOS_STORMS (90 seconds), ONCUE_CHAOS_CROWD and
ONCUE_CHAOS_PENDING (10000 and 200000 jobs), ONCUE_CHAOS_DYNAMODB_JOBS (2000),
ONCUE_CHAOS_DYNAMODB_KILLS (20), ONCUE_CHAOS_EMULATORS (45 seconds for each of them, and for
PostgreSQL 14); for PostgreSQL: ONCUE_CHAOS_EFFECTS (10000 jobs), ONCUE_CHAOS_EFFECT_KILLS (50),
ONCUE_CHAOS_POSTGRESQL_JOBS (5000), ONCUE_CHAOS_POSTGRESQL_KILLS (20),
ONCUE_CHAOS_POSTGRESQL_RESTARTS (20), ONCUE_CHAOS_POSTGRESQL_FAIL_OVERS (10).
"""

from __future__ import annotations

import logging
import os
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.chaos import emulated
from tests.chaos.dynamodb import count_units, fight_duels, meet_crowd, play_storms
from tests.chaos.effects import EffectRun
from tests.chaos.kills import EVERYBODY, FOUR_DISPATCHERS, TWO_DISPATCHERS, Crew, KillRun
from tests.chaos.places import unused_schema, unused_table
from tests.chaos.restarts import crash_server
from tests.proof import scenes
from tests.servers import session
from tests.servers.emulators import NotInstalled
from tests.servers.postgres import PostgresServer
from tests.servers.standby import PostgresPair
from tests.stores.kinds import store_maker

# The promise is two seconds; starting a process in place of a dead one takes the rest.
TAKEOVER_SECONDS = 5.0
DYNAMODB_TAKEOVER_SECONDS = 10.0  # such a process also loads boto3
RESTART_TAKEOVER_SECONDS = 20.0  # the server must be up, and connections be made
STORES = {"memory": 4, "hostile": 4, "sqlite": 2}  # how often a world is played on each
CONTROL_JOBS = 5_000  # of the run without kills
DYNAMODB_CONTROL_JOBS = 500
EXAMPLES_PER_SECOND = 1  # of both state machines, about


def size(name: str, default: int) -> int:
    return int(os.environ.get(f"ONCUE_CHAOS_{name}", default))


def main() -> int:
    seed = size("SEED", random.SystemRandom().randrange(1_000_000))
    print(f"seed {seed} (ONCUE_CHAOS_SEED={seed} plays the same worlds again)", flush=True)
    session.begin()
    parts = (
        play_worlds,
        compare_stores,
        trouble_dynamodb,
        kill_processes,
        kill_on_dynamodb,
        kill_on_postgresql,
        have_effects,
        restart_postgresql,
        fail_over_postgresql,
        use_other_servers,
    )
    green = [part(seed) for part in parts]
    return 0 if all(green) else 1


def play_worlds(seed: int) -> bool:
    """Scenes in turn, each with a seed of its own, until the time is over."""
    seconds = size("WORLDS", 90)
    print(f"\nWorlds: {len(scenes.ALL)} scenes with fresh seeds for {seconds} s …", flush=True)
    ends = time.monotonic() + seconds
    played, broken = 0, 0
    chance = random.Random(seed)
    logging.disable(logging.CRITICAL)
    while time.monotonic() < ends:
        for name, scene in scenes.ALL.items():
            number = chance.randrange(1_000_000_000)
            [kind] = chance.choices([*STORES], [*STORES.values()])
            with tempfile.TemporaryDirectory() as folder:
                card = scene.play(number, store_maker(kind, Path(folder), number))
            played += 1
            if card.broken:  # a void run of a random seed is only one that proves nothing
                broken += 1
                print(f"scenes.ALL[{name!r}].play({number}) on {kind}\n{card}", flush=True)
    logging.disable(logging.NOTSET)
    print(f"{'BROKEN' if broken else 'GREEN'}: {played} worlds, {broken} broken", flush=True)
    return not broken


def compare_stores(seed: int) -> bool:
    """Hypothesis draws the seeds by itself, and prints the blob that reproduces a failure."""
    examples = max(1, round(size("MACHINE", 90) * EXAMPLES_PER_SECOND))
    print(f"\nState machine: {examples} examples with fresh seeds …", flush=True)
    ended = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:xdist", "tests/contract/test_state_machine.py"],
        env={**os.environ, "ONCUE_FRESH_EXAMPLES": str(examples)},
        check=False,
    )
    print("GREEN" if ended.returncode == 0 else "BROKEN", flush=True)
    return ended.returncode == 0


def trouble_dynamodb(seed: int) -> bool:
    seconds, jobs, pending = size("STORMS", 90), size("CROWD", 10_000), size("PENDING", 200_000)
    print(f"\nDynamoDB: storms and duels for {seconds} s each …", flush=True)
    logging.disable(logging.CRITICAL)
    green = [play_storms(seed, seconds), fight_duels(seed, seconds)]
    logging.disable(logging.NOTSET)
    print(f"\nDynamoDB: a crowd of {jobs:,}, lives among {pending:,} that wait …", flush=True)
    return all([*green, meet_crowd(seed, jobs), *map(count_units, (10_000, pending))])


def kill_processes(seed: int) -> bool:
    """First the control: what is found there is not the fault of a kill."""
    jobs, kills = size("JOBS", 100_000), size("KILLS", 100)
    return all(
        [
            _kill(seed, min(jobs, CONTROL_JOBS), 0),
            _kill(seed, jobs, kills),
            _kill(seed, jobs // 5, kills // 5, TWO_DISPATCHERS),
        ]
    )


def kill_on_dynamodb(seed: int) -> bool:
    """As `kill_processes`. The emulator is a hundred times slower than a file."""
    jobs, kills = size("DYNAMODB_JOBS", 2_000), size("DYNAMODB_KILLS", 20)
    return all(
        [
            _kill(seed, min(jobs, DYNAMODB_CONTROL_JOBS), 0, url=unused_table()),
            _kill(seed, jobs, kills, url=unused_table()),
            _kill(seed, jobs // 2, kills // 2, TWO_DISPATCHERS, unused_table()),
            _kill(seed, jobs // 2, kills // 2, FOUR_DISPATCHERS, unused_table()),
        ]
    )


def kill_on_postgresql(seed: int) -> bool:
    jobs, kills = size("POSTGRESQL_JOBS", 5_000), size("POSTGRESQL_KILLS", 20)
    return all(
        [
            _kill(seed, jobs, kills, url=unused_schema()),
            _kill(seed, jobs // 2, kills // 2, TWO_DISPATCHERS, unused_schema()),
        ]
    )


def have_effects(seed: int) -> bool:
    """The server crashes meanwhile; then, with fewer jobs, a standby takes over."""
    jobs, kills = size("EFFECTS", 10_000), size("EFFECT_KILLS", 50)
    return all(
        [
            _have_effects(seed, jobs, kills, PostgresServer),
            _have_effects(seed, jobs // 5, kills // 5, PostgresPair),
        ]
    )


def _have_effects(
    seed: int, jobs: int, kills: int, kind: type[PostgresServer | PostgresPair]
) -> bool:
    print(f"\nEffects on PostgreSQL: {jobs:,} jobs, {kills} kills …", flush=True)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with kind(folder / "server") as server:
            run = EffectRun(
                folder,
                server,
                jobs=jobs,
                kills=kills,
                seconds=size("SECONDS", 900),
                seed=seed,
                crashes=2,
            )
            card = run.run()
    print(card, flush=True)
    return card.green


def restart_postgresql(seed: int) -> bool:
    return _crash(seed, size("POSTGRESQL_RESTARTS", 20), PostgresServer)


def fail_over_postgresql(seed: int) -> bool:
    return _crash(seed, size("POSTGRESQL_FAIL_OVERS", 10), PostgresPair)


def _crash(seed: int, crashes: int, kind: type[PostgresServer | PostgresPair]) -> bool:
    jobs = size("POSTGRESQL_JOBS", 5_000)
    what = "deaths of the server" if kind is PostgresServer else "standbys take over"
    print(f"\nProcesses on PostgreSQL: {jobs:,} jobs, {crashes} {what} …", flush=True)
    with tempfile.TemporaryDirectory() as name:
        logs = Path(name, "logs")
        logs.mkdir()
        card = crash_server(
            logs,
            kind(Path(name, "server")),
            jobs=jobs,
            crashes=crashes,
            seconds=size("SECONDS", 900),
            takeover_seconds=RESTART_TAKEOVER_SECONDS,
            seed=seed,
        )
    print(card, flush=True)
    return card.green


def use_other_servers(seed: int) -> bool:
    green = [_use(server, seed) for server in emulated.LEFT_OUT]
    return all(green)


def _use(server: str, seed: int) -> bool:
    seconds = size("EMULATORS", 45)
    name = f"PostgreSQL {server}" if server == emulated.OLDEST else server
    print(f"\nContract suite on {name}: as much as runs in {seconds} s …", flush=True)
    try:
        emulated.start(server)
    except NotInstalled as missing:
        print(f"LEFT OUT: {missing}", flush=True)
        return True
    program = [sys.executable, "-m", "tests.chaos.emulated", server, str(seconds), str(seed)]
    green = subprocess.run(program, check=False).returncode == 0
    print("GREEN" if green else f"BROKEN: {' '.join(program[1:])}", flush=True)
    return green


def _kill(seed: int, jobs: int, kills: int, crew: Crew = EVERYBODY, url: str = "") -> bool:
    seconds = size("SECONDS", 900)
    who = " and ".join(f"{number} {role}" for role, number in crew.numbers.items())
    where = {"dynamodb": "DynamoDB Local", "postgresql": "PostgreSQL"}.get(
        url.partition("://")[0], "SQLite"
    )
    print(f"\nProcesses on {where} ({who}): {jobs:,} jobs, at least {kills} kills and stops …")
    with tempfile.TemporaryDirectory() as folder:
        card = KillRun(
            Path(folder),
            jobs=jobs,
            kills=kills,
            seconds=seconds,
            takeover_seconds=DYNAMODB_TAKEOVER_SECONDS if url else TAKEOVER_SECONDS,
            seed=seed,
            crew=crew,
            url=url,
        ).run()
    print(card, flush=True)
    return card.green


if __name__ == "__main__":
    sys.exit(main())
