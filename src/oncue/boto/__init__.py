"""What stores and sinks both need of boto3: options of URLs, clients, and errors.

boto3 is optional, and slow to import, so it is imported when a client is made.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from importlib.util import find_spec
from typing import Any
from urllib.parse import parse_qsl

from oncue.boto.shapes import speed_up
from oncue.core.errors import InvalidInput
from oncue.core.text import quoted

CONNECT_SECONDS = 2.0
LEAN: dict[str, Any] = {"parameter_validation": False, "user_agent": "oncue"}
"""Botocore spends more than half of its time for a batch on comparing it with the model of the
service, and on saying on which machine it runs."""
NOT_ACCEPTED = frozenset(
    {
        "UnrecognizedClientException",
        "InvalidSignatureException",
        "InvalidClientTokenId",
        "SignatureDoesNotMatch",
        "ExpiredToken",
        "ExpiredTokenException",
        "MissingAuthenticationToken",
        "MissingAuthenticationTokenException",
    }
)
"""Codes that refuse credentials."""
_WITHOUT_CREDENTIALS = {
    *("NoCredentialsError", "PartialCredentialsError", "CredentialRetrievalError"),
    *("SSOError", "TokenRetrievalError"),
}


def read_options(query: str, what: str, form: str, pointer: str) -> dict[str, str]:
    """The options `region` and `endpoint` of a URL, as far as they are given. Refused as well where
    boto3 is not installed. `what` and `form` are for the errors: the kind of thing, and how its URL
    is written."""
    try:
        options = dict(parse_qsl(query, keep_blank_values=True, strict_parsing=bool(query)))
    except ValueError:
        raise InvalidInput(
            f"{quoted(query)} is not of the form name=value; {form}.", pointer
        ) from None
    for name in sorted(options.keys() - {"region", "endpoint"}):
        raise InvalidInput(f"{quoted(name)} is not an option of {what}; {form}.", pointer)
    for name, value in options.items():
        if not value:
            raise InvalidInput(f"{name} has no value; {form}.", pointer)
    require_boto3(what, pointer)
    return options


def require_boto3(what: str, pointer: str) -> None:
    """Refuse the thing where boto3 is not installed."""
    if find_spec("boto3") is None:
        raise InvalidInput(f"{what} needs boto3: pip install 'oncue[aws]'", pointer)


def check_no_credentials(netloc: str, what: str, form: str, pointer: str) -> None:
    """Refuse an address with a name and a password; they are not repeated."""
    if "@" in netloc:
        raise InvalidInput(
            f"credentials do not belong into the URL of a {what}: boto3 finds them in the "
            f"environment, a profile or a role; {form}.",
            pointer,
        )


def connect(
    service: str,
    region: str | None,
    endpoint: str | None,
    *,
    name: str,
    pointer: str,
    region_hint: str = "add ?region=eu-central-1 (or yours) to the URL",
    **settings: Any,
) -> Any:
    """A client. Credentials are found by boto3, in its usual places. `settings` are botocore's;
    `name` is what the client is for, and `region_hint` how to name its region, both for errors."""
    import boto3
    from botocore.config import Config
    from botocore.exceptions import BotoCoreError, NoRegionError

    library = logging.getLogger("botocore")
    if library.level == logging.NOTSET:  # its lines at DEBUG hold whole requests, payloads included
        library.setLevel(logging.WARNING)
    config = Config(connect_timeout=CONNECT_SECONDS, **settings, **LEAN)
    try:
        make: Any = boto3.client
        client = make(service, region_name=region, endpoint_url=endpoint, config=config)
    except NoRegionError:
        raise InvalidInput(
            f"no region is known for {name}: {region_hint}, or set AWS_DEFAULT_REGION.", pointer
        ) from None
    except (BotoCoreError, ValueError) as error:  # an invalid profile, region or endpoint
        raise InvalidInput(f"boto3 refuses the settings: {error}", pointer) from None
    return speed_up(client, service)


def answer_of(problem: Any) -> Mapping[str, Any]:
    """What the service answered; nothing, if no answer came."""
    return getattr(problem, "response", None) or {}


def code_of(problem: Any) -> str:
    """The code of an error, of a request or of one part of a batch."""
    if isinstance(problem, Mapping):
        return str(problem.get("Code", ""))
    return str(answer_of(problem).get("Error", {}).get("Code", ""))


def lacks_credentials(problem: Exception) -> bool:
    """Whether boto3 found no credentials that it could use."""
    return any(kind.__name__ in _WITHOUT_CREDENTIALS for kind in type(problem).__mro__)


def unreached(problem: Any, whose: str) -> str:
    """A connection that failed: where to, and what to look at. `whose`: the thing whose URL names
    the endpoint."""
    url, kind = getattr(problem, "kwargs", {}).get("endpoint_url"), type(problem).__name__
    if not url:
        return kind
    return (
        f"no answer from {url} ({kind}). Check the region and the endpoint in the URL of the "
        f"{whose}, and the network."
    )
