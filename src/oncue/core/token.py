"""The token of a claim: opaque, signed, naming the epoch."""

from __future__ import annotations

import hmac

from oncue.core.errors import InvalidInput

_VERSION = "1"


def sign(secret: bytes, job_id: str, epoch: int) -> str:
    return f"{_VERSION}.{epoch}.{_mac(secret, job_id, epoch)}"


def epoch_of(secret: bytes, job_id: str, token: str) -> int:
    """The epoch a token proves for this job; a token that was not signed here is refused."""
    version, _, rest = (token if token.isascii() else "").partition(".")
    number, _, mac = rest.partition(".")
    if version == _VERSION and number.isdecimal() and number.isascii() and len(number) <= 18:
        expected = _mac(secret, job_id, int(number))
        if hmac.compare_digest(mac.encode(), expected.encode()):
            return int(number)
    raise InvalidInput(
        "this is not a token of a claim on this job; send the token that the claim returned.",
        "/token",
    )


def _mac(secret: bytes, job_id: str, epoch: int) -> str:
    text = f"{_VERSION}\n{job_id}\n{epoch}".encode()
    return hmac.digest(secret, text, "sha256").hex()[:32]
