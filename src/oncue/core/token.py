"""The token of a claim: opaque, signed, naming the epoch."""

from __future__ import annotations

import hmac
import re

from oncue.core.errors import InvalidInput

_VERSION = "1"
_FORM = re.compile(rf"{_VERSION}\.(0|[1-9][0-9]{{0,17}})\.([0-9a-f]{{32}})")


def sign(secret: bytes, job_id: str, epoch: int) -> str:
    return f"{_VERSION}.{epoch}.{_mac(secret, job_id, epoch)}"


def epoch_of(secret: bytes, job_id: str, token: str) -> int:
    """The epoch a token proves for this job; a token that was not signed here is refused."""
    match = _FORM.fullmatch(token)
    if match is not None and hmac.compare_digest(match[2], _mac(secret, job_id, int(match[1]))):
        return int(match[1])
    raise InvalidInput(
        "this is not a token of a claim on this job; send the token that the claim returned.",
        "/token",
    )


def _mac(secret: bytes, job_id: str, epoch: int) -> str:
    text = f"{_VERSION}\n{job_id}\n{epoch}".encode()
    return hmac.digest(secret, text, "sha256").hex()[:32]
