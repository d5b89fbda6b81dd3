"""Parsers of numbers in settings: counts, seconds, ports. Each raises ValueError: what is expected."""

import re
from typing import Final

MAX_SECONDS: Final = 30 * 24 * 3600
"""Maximum of a time in seconds: thirty days, well below the limits of sockets and timers."""

MAX_COUNT: Final = 10_000
"""Maximum of a count: threads, failures, retries."""

MAX_PORT: Final = 65535

MAX_BYTES: Final = 2**40
"""Maximum of a size in memory."""

_UNITS: Final = {"": 1, "B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}
_SIZE = re.compile(r"([0-9]{1,13}) ?(|B|KiB|MiB|GiB)", re.ASCII)
_WHOLE = re.compile(r"[0-9]{1,9}", re.ASCII)
_DECIMAL = re.compile(r"[0-9]{1,9}(?:\.[0-9]{0,9})?", re.ASCII)


def count(value: str) -> int:
    """Return a whole number from 1."""
    if not _WHOLE.fullmatch(value) or not 1 <= int(value) <= MAX_COUNT:
        raise ValueError(f"a whole number from 1 to {MAX_COUNT}")
    return int(value)


def count_or_zero(value: str) -> int:
    """Return a whole number from 0."""
    if not _WHOLE.fullmatch(value) or int(value) > MAX_COUNT:
        raise ValueError(f"a whole number from 0 to {MAX_COUNT}")
    return int(value)


def seconds_or_zero(value: str) -> float:
    """Return seconds, from 0."""
    if not _DECIMAL.fullmatch(value) or float(value) > MAX_SECONDS:
        raise ValueError(f"a number of seconds from 0 to {MAX_SECONDS}")
    return float(value)


def seconds(value: str) -> float:
    """Return seconds, above 0."""
    if not _DECIMAL.fullmatch(value) or not 0 < float(value) <= MAX_SECONDS:
        raise ValueError(f"a number of seconds above 0 and at most {MAX_SECONDS}")
    return float(value)


def byte_size(value: str) -> int:
    """Return a size in bytes, above 0."""
    match = _SIZE.fullmatch(value)
    size = int(match[1]) * _UNITS[match[2]] if match else 0
    if not 0 < size <= MAX_BYTES:
        raise ValueError("a number of bytes above 0, or digits and a unit KiB, MiB or GiB, as in 256MiB")
    return size


def port(value: str) -> int:
    """Return a TCP port."""
    if not is_port(value):
        raise ValueError(f"a TCP port from 1 to {MAX_PORT}")
    return int(value)


def is_port(value: str) -> bool:
    """Return whether a text is a TCP port."""
    return bool(_WHOLE.fullmatch(value)) and 1 <= int(value) <= MAX_PORT
