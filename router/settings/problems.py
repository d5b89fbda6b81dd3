"""Error texts for settings: what was found, what is expected, which known name is similar. Pure."""

import difflib
import re
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Final

WORKERS: Final = "WEB_CONCURRENCY"
"""gunicorn's own variable for the number of worker processes."""

_MAX_LENGTH: Final = 200
_HIDDEN: Final = "a value that may be a secret and is not shown"
_WHOLE = re.compile(r"\s*[0-9]{1,9}\s*", re.ASCII)


def invalid_setting(name: str, found: str, expected: object) -> str:
    """Return the error text of an invalid setting; `found` is its value, quoted or redacted."""
    return f"{name} cannot be used: found {found}, expected {expected}"


def quoted(value: str) -> str:
    """Return a value for a message: in quotes, on one line, cut where it is long."""
    text = value if len(value) <= _MAX_LENGTH else f"{value[:_MAX_LENGTH]}…"
    printable = "".join(ch if ch.isprintable() else ch.encode("unicode_escape").decode() for ch in text)
    return f'"{printable}"'


def redacted(_: str) -> str:
    """Return a placeholder for a secret."""
    return _HIDDEN


def quoted_urls(value: str) -> str:
    """Return URLs without what may be a password or a token: all before the last `@`, and queries."""
    without_credentials = re.sub(r"(?s).*@", "…@", value)
    return quoted(re.sub(r"\?[^,]*", "?…", without_credentials))


def quoted_path(value: str) -> str:
    """Return the path of a file of secrets, unless it is none: then it may be a secret in the wrong place."""
    path = Path(value)
    try:
        names_a_place = path.exists() or (path.is_absolute() and path.parent.is_dir())
    except (OSError, ValueError):
        names_a_place = False
    return quoted(value) if names_a_place else _HIDDEN


def did_you_mean(name: str, known: Collection[str]) -> str:
    """Return a question that names the nearest known name, an empty text where none comes near."""
    near = difflib.get_close_matches(name, known, 1)
    return f"; did you mean {near[0]}?" if near else ""


def one_of(value: str, known: Collection[str]) -> str:
    """Return a value that has to be one of some. Raises ValueError: what is expected, and what may have been meant."""
    if value not in known:
        raise ValueError(f"one of {', '.join(known)}{did_you_mean(value.lower(), known)}")
    return value


def gunicorn_problems(environ: Mapping[str, str]) -> list[str]:
    """Return what is wrong with the variables that gunicorn reads itself.

    It takes 0 for a number of worker processes, and would listen and serve nobody.
    """
    value = environ.get(WORKERS)
    if value is None or (_WHOLE.fullmatch(value) and int(value) > 0):
        return []
    return [invalid_setting(WORKERS, quoted(value), "the number of worker processes, from 1")]
