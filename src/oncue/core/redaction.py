"""URLs as they may be shown: without the password that the URL of a store may hold."""

from __future__ import annotations

import re

HIDDEN = "***"
_SCHEME = re.compile(r"[a-z][a-z0-9+.-]*:/+", re.IGNORECASE)
_PORT = re.compile(r":(?!\d*(?:[,/?#]|$))[^/?#]*")
_NEXT = (
    "schema|pool_size|listen|migrate|host|hostaddr|port|dbname|user|sslmode|sslrootcert|sslcert|"
    "sslkey|target_session_attrs|load_balance_hosts|application_name|options|connect_timeout|"
    "channel_binding|gssencmode|passfile|service|region|endpoint"
)
_SECRET = re.compile(
    r"(?P<name>(?:password|passwd|passphrase|secret|scram_client_key|scram_server_key)\s*=)"
    rf".*?(?=[&;\s]+(?:{_NEXT})\s*=|$)",
    re.IGNORECASE | re.DOTALL,
)
# Without the punctuation that follows it in a sentence.
_URL = re.compile(r"[a-z][a-z0-9+.-]*:/+\S+?(?=[.,;:!?)\]'\"]*(?:\s|$))", re.IGNORECASE)


def shown_url(url: str) -> str:
    """The URL of a store or a server without its password. Also of a text that was meant to be one:
    what may be a password is hidden, so rather too much than too little."""
    if url.startswith("sqlite:///"):
        return url  # the name of a file, whatever it looks like
    return _SECRET.sub(rf"\g<name>{HIDDEN}", _without_login(url))


def _without_login(url: str) -> str:
    """A password with characters that should have been escaped (/, ?, #, @) ends at the last @."""
    scheme = _SCHEME.match(url)
    begin = 0 if scheme is None else scheme.end()
    login, at, rest = url[begin:].rpartition("@")
    if at:
        user, colon, _ = login.partition(":")
        kept = f"{user}:{HIDDEN}" if colon else login
        return f"{url[:begin]}{kept}@{rest}"
    # `USER:PASSWORD` without a host looks like a host with a port.
    return url if scheme is None else url[:begin] + _PORT.sub(f":{HIDDEN}", rest, count=1)


def redacted(text: str) -> str:
    """A text that may quote URLs, with the passwords in them hidden."""
    return _URL.sub(lambda found: shown_url(found[0]), text)
