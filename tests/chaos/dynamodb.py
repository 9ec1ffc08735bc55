"""The long form of the tests of DynamoDB in trouble. Each part says whether all went well, and
prints what it takes to see a failure again."""

from __future__ import annotations

import random
import time
from dataclasses import replace

from tests.proof.scenes import Scene
from tests.stores.dynamo import client
from tests.stores.dynamodb.crowd import QUEUE, Crowd
from tests.stores.dynamodb.duels import DUELS, KINDS
from tests.stores.dynamodb.lives import FEW, LIVES, Lives
from tests.stores.dynamodb.rig import Rig
from tests.stores.dynamodb.storm import PLAIN, QUICK, SLOW, Storm
from tests.stores.dynamodb.test_lives import COSTS

SCENE, JOBS = Scene(), 60
STORMS = {"QUICK": QUICK, "PLAIN": PLAIN, "SLOW": SLOW}


def play_storms(seed: int, seconds: float) -> bool:
    """Worlds with fresh seeds, in which requests go wrong."""
    chance, ends = random.Random(seed), time.monotonic() + seconds
    played, broken = 0, 0
    while time.monotonic() < ends:
        number, kind = chance.randrange(1_000_000_000), [*STORMS][played % 3]
        slow = kind == "SLOW"
        scene = replace(SCENE, cancels=not slow, minted=kind == "PLAIN")
        storm = Storm(client(), STORMS[kind], number)
        card = storm.play(scene, JOBS, 60.0 if slow else 20.0)
        played += 1
        if card.broken:
            broken += 1
            print(f"Storm(client(), {kind}, {number}).play({scene})\n{card}", flush=True)
    print(f"{'BROKEN' if broken else 'GREEN'}: {played} storms, {broken} broken", flush=True)
    return not broken


def fight_duels(seed: int, seconds: float) -> bool:
    """Duels in which neither is whole: they meet at any two points."""
    cases = [(name, kind) for name in DUELS for kind in KINDS]
    random.Random(seed).shuffle(cases)
    ends = time.monotonic() + seconds
    fights, lost = 0, 0
    for name, kind in cases:
        if time.monotonic() > ends:
            break
        rig = Rig(client())
        try:
            fights += DUELS[name].fight(rig, kind, every=True)
        except AssertionError as error:
            lost += 1
            print(f"DUELS[{name!r}].fight(rig, {kind!r}, every=True): {error}", flush=True)
        rig.close()
    print(f"{'BROKEN' if lost else 'GREEN'}: {fights} meetings", flush=True)
    return not lost


def meet_crowd(seed: int, jobs: int) -> bool:
    rig = Rig(client(), queues=[QUEUE])
    try:
        Crowd(rig, jobs, seed).run()
    except AssertionError as error:
        print(f"BROKEN: Crowd(rig, {jobs}, {seed}).run(): {error}", flush=True)
        return False
    finally:
        rig.close()
    print(f"GREEN: a crowd of {jobs:,}", flush=True)
    return True


def count_units(pending: int) -> bool:
    """Lives cost the same, whatever waits."""
    lives = Lives(client(), pending)
    wrong = 0
    for name, life in LIVES.items():
        found, expected = lives.measured(life, FEW), COSTS[name].of(FEW)
        if any(abs(one - other) > 0.001 for one, other in zip(found, expected, strict=True)):
            wrong += 1
            print(f"{name}: {found} instead of {expected}", flush=True)
    lives.rig.close()
    print(f"{'BROKEN' if wrong else 'GREEN'}: lives among {pending:,} that wait", flush=True)
    return not wrong
