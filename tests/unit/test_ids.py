"""Ids: sorted by creation, unique across threads and forks, and true of their job."""

from __future__ import annotations

import subprocess
import sys
import uuid
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncue.core.errors import InvalidInput
from oncue.core.ids import (
    RESERVED,
    Minted,
    check_id,
    check_true,
    first_epoch,
    mint,
    queue_digest,
    read,
    serial,
)
from oncue.core.moment import HORIZON_MS, LATEST, from_datetime

NOW = 1_800_000_000_000

queues = st.text(min_size=1, max_size=20)
priorities = st.integers(0, 9)
created = st.integers(0, LATEST)
delays = st.integers(0, HORIZON_MS)


def test_ids_sort_by_creation() -> None:
    minted = [mint(NOW + n // 10, NOW + 10**6 - n, f"q{n % 3}", n % 10) for n in range(1000)]
    assert minted == sorted(minted)


def test_ids_sort_behind_those_that_an_earlier_version_minted() -> None:
    earlier = f"{NOW - 1:012x}{2**59:015x}{60_000:x}"
    assert earlier < mint(NOW, NOW, "default", 0) < f"{NOW + 1:012x}{0:015x}0"


@given(created, delays, queues, priorities)
def test_an_id_says_when_and_where_its_job_waits(
    now: int, delay: int, queue: str, priority: int
) -> None:
    minted = mint(now, now + delay, queue, priority)
    assert read(minted) == Minted(now, now + delay, queue_digest(queue), priority)
    assert check_id(minted) == minted


@given(created, st.integers(0, 16**15 - 1), delays)
def test_an_id_of_an_earlier_version_says_nothing(now: int, number: int, delay: int) -> None:
    assert read(f"{now:012x}{number:015x}{delay:x}") is None


@given(st.uuids())
def test_a_uuid_says_nothing(one: uuid.UUID) -> None:
    assert read(str(one)) is read(one.hex) is read(one.hex.upper()) is None


@given(st.from_regex(r"[A-Za-z0-9][A-Za-z0-9_-]{0,33}", fullmatch=True))
def test_an_id_shorter_than_minted_ones_says_nothing(chosen: str) -> None:
    assert read(chosen) is None


MINTED = "01a3185c50005fcd49c13c2de169qhmkss5"  # the delay has one digit, 9


@pytest.mark.parametrize(
    "chosen",
    [
        *("order-7", "A" * 40, "0" * 39, "g" * 39, "0" * 27, f"r{MINTED}"),
        *(MINTED.upper(), MINTED[:-1], f"{MINTED}0", MINTED[1:], f"{MINTED}\n"),
        MINTED[:27] + MINTED[-7:],  # without a delay
    ],
)
def test_an_id_of_another_form_says_nothing(chosen: str) -> None:
    assert read(chosen) is None


def test_an_id_must_be_true_of_its_job() -> None:
    minted = read(MINTED)
    assert minted is not None
    check_true(minted, "default", 5, NOW + 9)
    for other, named in (
        (("mail", 5, NOW + 9), "this job has another queue"),
        (("default", 6, NOW + 9), "this job has another priority"),
        (("default", 5, NOW + 10), "this job has another due time"),
        (("mail", 6, NOW), "has another due time and another queue and another priority"),
    ):
        with pytest.raises(InvalidInput, match=named):
            check_true(minted, *other)


def test_queues_have_digests_of_their_own() -> None:
    assert len({queue_digest(f"queue-{n}") for n in range(1000)}) == 1000


def test_a_process_with_very_many_queues_does_not_keep_them_all() -> None:
    names = [f"queue-{n}" for n in range(25_000)]
    for name in names:
        minted = read(mint(NOW, NOW, name, 9))
        assert minted is not None
        assert minted.queue_digest == queue_digest(name)


def test_the_epochs_of_a_job_are_above_those_of_one_created_earlier() -> None:
    first, second = first_epoch(NOW), first_epoch(NOW + 1)
    assert first < second
    assert first >> 11 == NOW
    assert len({first_epoch(NOW) for _ in range(100)}) == 100


def test_epochs_are_exact_numbers_for_a_century() -> None:
    assert first_epoch(from_datetime(datetime(2109, 1, 1, tzinfo=UTC))) < 2**53


def test_the_part_that_sorts_can_be_had_alone() -> None:
    one, other = serial(NOW), serial(NOW)
    assert one < other < mint(NOW, NOW, "q", 0)
    assert len(one) == 27
    assert read(one) is None


def test_threads_do_not_mint_the_same_id() -> None:
    with ThreadPoolExecutor(8) as pool:
        minted = pool.map(lambda _: [mint(NOW, NOW, "q", 0) for _ in range(500)], range(8))
        ids = [one for some in minted for one in some]
    assert len(set(ids)) == len(ids)


FORKING = """
import os
from oncue.core.ids import mint
mint(0, 0, "q", 0)
pid = os.fork()
if pid:
    os.waitpid(pid, 0)
print(mint(0, 0, "q", 0), flush=True)
"""


def test_a_forked_process_does_not_mint_the_same_ids() -> None:
    run = subprocess.run(
        [sys.executable, "-c", FORKING], capture_output=True, text=True, check=True
    )
    ours, theirs = run.stdout.split()
    assert abs(int(ours[12:27], 16) - int(theirs[12:27], 16)) > 1000


@pytest.mark.parametrize("chosen", ["a", "0", "order-7_b", "x" * 80])
def test_a_client_may_choose_letters_digits_and_two_signs(chosen: str) -> None:
    assert check_id(chosen) == chosen


@pytest.mark.parametrize(
    "chosen", ["", "-a", "_a", "x" * 81, "a.b", "a/b", "a b", "é", "a\n", "a\0", "\ud800", 7, None]
)
def test_any_other_id_is_refused_in_a_sentence(chosen: object) -> None:
    with pytest.raises(InvalidInput, match=r"^/id: an id is 1 to 80 letters"):
        check_id(chosen)


@pytest.mark.parametrize("word", sorted(RESERVED))
def test_words_of_the_api_are_no_ids(word: str) -> None:
    with pytest.raises(InvalidInput, match=r"^/id: .* is a word of the API; choose another id"):
        check_id(word)
