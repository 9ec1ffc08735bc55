"""How the program tells of errors: a sentence, and the code with which it ends."""

from __future__ import annotations

from oncue.core import errors

EXIT_FAILED = 1  # the command ran and the answer is no
EXIT_INTERRUPTED = 130
_EXIT_CODES = {
    errors.InvalidInput: 2,
    errors.NotFound: 3,
    errors.Conflict: 4,
    errors.AccessDenied: 6,  # before errors.ServerError, which it is too
    errors.NotSupported: 5,
    errors.StoreError: 5,
    errors.ServerError: 5,
}
_DASHES = str.maketrans("/_", "--")


def exit_code(error: errors.OncueError) -> int:
    """As the table in docs/cli.md says."""
    return next(
        (code for kind, code in _EXIT_CODES.items() if isinstance(error, kind)), EXIT_FAILED
    )


def sentence(error: errors.OncueError) -> str:
    """What went wrong, the place named as on the command line: /retry/max_seconds is --retry-max
    there, /rate_per_second is --rate."""
    if not isinstance(error, errors.InvalidInput) or not error.pointer.startswith(("/", "?")):
        return str(error)
    field, _, rest = error.pointer[1:].partition("/")
    if field == "payload":
        place = "PAYLOAD" + (f" /{rest}" if rest else "")
    else:
        option = error.pointer[1:].removesuffix("_per_second").removesuffix("_seconds")
        place = "--" + option.translate(_DASHES)
    return f"{place}: {error.detail}"
