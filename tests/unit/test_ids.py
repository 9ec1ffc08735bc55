"""Ids: sorted by creation, unique across threads and forks, with the due time inside."""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from oncue.core.errors import InvalidInput
from oncue.core.ids import RESERVED, check_id, due_in, mint
from oncue.core.moment import HORIZON_MS, LATEST

NOW = 1_800_000_000_000


def test_ids_sort_by_creation() -> None:
    minted = [mint(NOW + n // 10, NOW + 10**6 - n) for n in range(1000)]
    assert minted == sorted(minted)


def test_the_due_time_can_be_read_from_an_id() -> None:
    for due_at in (NOW, NOW + 1, NOW + HORIZON_MS):
        assert due_in(mint(NOW, due_at)) == due_at
    assert due_in(mint(LATEST, LATEST)) == LATEST


def test_an_id_chosen_by_a_client_carries_no_due_time() -> None:
    for chosen in ("order-7", "x", "A" * 30, "0" * 27, "0" * 39):
        assert due_in(chosen) is None


def test_a_minted_id_may_be_sent_back() -> None:
    minted = mint(NOW, NOW + HORIZON_MS)
    assert check_id(minted) == minted


def test_threads_do_not_mint_the_same_id() -> None:
    with ThreadPoolExecutor(8) as pool:
        minted = pool.map(lambda _: [mint(NOW, NOW) for _ in range(500)], range(8))
        ids = [one for some in minted for one in some]
    assert len(set(ids)) == len(ids)


FORKING = """
import os
from oncue.core.ids import mint
mint(0, 0)
pid = os.fork()
if pid:
    os.waitpid(pid, 0)
print(mint(0, 0), flush=True)
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
