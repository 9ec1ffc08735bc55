"""Tokens: opaque, signed, of one claim on one job."""

from __future__ import annotations

import pytest

from oncue.core.errors import InvalidInput
from oncue.core.token import epoch_of, sign

SECRET = b"s" * 32
TOKEN = sign(SECRET, "job", 7)


def refused(token: str, job_id: str = "job", secret: bytes = SECRET) -> bool:
    with pytest.raises(InvalidInput, match="send the token that the claim returned") as caught:
        epoch_of(secret, job_id, token)
    return caught.value.pointer == "/token"


def test_a_token_proves_its_epoch() -> None:
    assert epoch_of(SECRET, "job", TOKEN) == 7
    assert epoch_of(SECRET, "job", sign(SECRET, "job", 10**17)) == 10**17


def test_the_token_of_another_job_epoch_or_store_proves_nothing() -> None:
    assert refused(TOKEN, job_id="jo")
    assert refused(TOKEN, secret=b"t" * 32)
    version, epoch, mac = TOKEN.split(".")
    assert refused(f"{version}.8.{mac}")
    assert refused(f"2.{epoch}.{mac}")
    assert refused(sign(SECRET, "job\n7", 7), job_id="job")


def test_a_number_in_another_form_proves_nothing() -> None:
    version, epoch, mac = TOKEN.split(".")
    assert refused(f"{version}.0{epoch}.{mac}")
    assert refused(f"{version}.00{epoch}.{mac}")
    assert refused(f"0{version}.{epoch}.{mac}")


def test_every_tampered_character_is_noticed() -> None:
    for place in range(len(TOKEN)):
        other = "0" if TOKEN[place] != "0" else "1"
        assert refused(TOKEN[:place] + other + TOKEN[place + 1 :])
    assert refused(TOKEN[:-1])
    assert refused(TOKEN + "0")


@pytest.mark.parametrize(
    "token",
    [
        *("", ".", "..", "1", "1.7", "1.7.", "1..abc", "1.-7.abc", "1.+7.abc", "1. 7.abc"),
        *("1.٧.abc", "1.7e0.abc", f"1.{'9' * 5000}.abc", f"1.{'9' * 19}.abc", "1.7.é", "\0"),
    ],
)
def test_what_is_no_token_is_refused(token: str) -> None:
    assert refused(token)
