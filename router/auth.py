"""API keys of clients: stored as digests, compared in constant time, reloaded when their file changes."""

import hashlib
import hmac
import logging
import re
import threading
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple

import orjson

from router.contract.errors import ApiError
from router.runtime.files import NotRegularFileError, read_regular_file, stat_regular_file
from router.runtime.shared_memory import SharedRecord

MIN_KEY_LENGTH: Final = 16
"""Minimum length of a key in characters: a digest of a shorter one can be guessed."""

MAX_FILE_BYTES: Final = 1024 * 1024
CHECK_INTERVAL_SECONDS: Final = 1.0
"""Minimum interval between two checks of the file; only requests trigger them."""

_NAME = re.compile(r"[A-Za-z0-9._-]{1,64}", re.ASCII)
_KEY = re.compile(r"[\x21-\x2b\x2d-\x7e]+")
_DIGEST = re.compile(r"[0-9A-Fa-f]{64}", re.ASCII)
_HASHED: Final = "sha256:"
_BEARER = re.compile(r"bearer +(\S.*)", re.IGNORECASE)
_HOW: Final = "as Authorization: Bearer KEY or as X-API-Key: KEY"
_LOG = logging.getLogger("router")

# Created when the master imports this module, so that workers share it; an entry takes less than five times its line.
_SHARED = SharedRecord(8 * MAX_FILE_BYTES)


@dataclass(frozen=True, slots=True)
class ApiKey:
    """One key: its name and its SHA-256. The key itself is not stored."""

    name: str
    digest: bytes = field(repr=False)


class Version(NamedTuple):
    """Identifies a version of a file, also if a symbolic link is changed to another file."""

    changed_ns: int
    inode: int
    size: int


@dataclass(frozen=True, slots=True)
class KeysFile:
    """The content of a file of keys when it was read."""

    path: Path
    keys: tuple[ApiKey, ...]
    version: Version = field(compare=False)
    read_at: int = field(compare=False, default=0)
    """Time in nanoseconds of `time.monotonic_ns()`, which is the same clock in all processes."""


def parse_keys(value: str) -> tuple[ApiKey, ...]:
    """Return the keys of a comma-separated list. Raises ValueError: what is expected, and where; never a key."""
    entries = enumerate(map(str.strip, value.split(",")), 1)
    return _unique_keys((f"entry {number}", entry) for number, entry in entries if entry)


def read_keys(path: Path) -> KeysFile:
    """Return the keys of a file, one a line. Raises ValueError as `parse_keys` does."""
    try:
        data, state = read_regular_file(path, MAX_FILE_BYTES + 1)
        text = data.decode("utf-8-sig")
    except OSError as error:
        raise _unreadable(error) from None
    except UnicodeDecodeError:
        raise ValueError("a file in UTF-8") from None
    if len(data) > MAX_FILE_BYTES:
        raise ValueError(f"a file of at most {MAX_FILE_BYTES} bytes")
    lines = enumerate(map(str.strip, text.split("\n")), 1)
    keys = _unique_keys((f"line {number}", line) for number, line in lines if line and not line.startswith("#"))
    return KeysFile(path, keys, Version(state.st_mtime_ns, state.st_ino, state.st_size), time.monotonic_ns())


def version_of(path: Path) -> Version:
    """Return the current version of a file. Raises ValueError if it is not a readable file."""
    try:
        state = stat_regular_file(path)
    except OSError as error:
        raise _unreadable(error) from None
    return Version(state.st_mtime_ns, state.st_ino, state.st_size)


def reload_if_changed(known: KeysFile) -> KeysFile:
    """Return the current version of a file of keys, and share it with all processes. Raises ValueError if invalid."""
    if version_of(known.path) == known.version:
        return known
    found = read_keys(known.path)
    with _SHARED.locked():
        if _shared_version(found) is found:
            keys = [(key.name, key.digest.hex()) for key in found.keys]
            _SHARED.write(orjson.dumps((str(found.path), tuple(found.version), found.read_at, keys)))
    return found


def last_valid(known: KeysFile) -> KeysFile:
    """Return the newest valid version of a file of keys that any process has read; at least `known`."""
    with _SHARED.locked():
        return _shared_version(known)


def _shared_version(known: KeysFile) -> KeysFile:
    data = _SHARED.read()
    if not data:
        return known
    path, version, read_at, keys = orjson.loads(data)
    if path != str(known.path) or read_at <= known.read_at:
        return known
    found = tuple(ApiKey(name, bytes.fromhex(digest)) for name, digest in keys)
    return KeysFile(known.path, found, Version(*version), read_at)


def _unreadable(error: OSError) -> ValueError:
    if isinstance(error, NotRegularFileError):
        return ValueError("a regular file")
    return ValueError(f"a readable file ({error.strerror})")


class ApiKeys:
    """The active keys of this process: those of the environment and those of a file, which is reloaded."""

    def __init__(self, keys: tuple[ApiKey, ...], file: KeysFile | None) -> None:
        self._keys = keys
        self._file = file
        self._problem: str | None = None
        self.failures = 0
        """Number of invalid versions of the file that this process has found."""
        self._checking = threading.Lock()
        self._next_check = 0.0

    def are_required(self) -> bool:
        """Return whether clients need a key."""
        return bool(self._keys) or self._file is not None

    def authenticate(self, authorization: str, x_api_key: str) -> str:
        """Return the name of a request's key, which is in one of these headers. Raises ApiError `invalid_api_key`."""
        self._check_file()
        shown = _presented_key(authorization.strip(), x_api_key.strip())
        digest = hashlib.sha256(shown.encode("latin-1", "replace")).digest()
        name = None
        for key in self._active():
            # All of them: the time must not reveal which one matched.
            if hmac.compare_digest(key.digest, digest):
                name = key.name
        if name is None:
            raise ApiError("invalid_api_key", f"This API key is not known; send a valid one, {_HOW}")
        return name

    def problem(self) -> str | None:
        """Return what is wrong with the newest version of the file, None if its keys are active."""
        self._check_file()
        return self._problem

    def _active(self) -> tuple[ApiKey, ...]:
        return self._keys + (self._file.keys if self._file is not None else ())

    def _check_file(self) -> None:
        """Reload the file if it has changed; while one thread checks it, others use the active keys."""
        if self._file is None or time.monotonic() < self._next_check or not self._checking.acquire(blocking=False):
            return
        try:
            self._next_check = time.monotonic() + CHECK_INTERVAL_SECONDS
            self._reload(self._file)
        finally:
            self._checking.release()

    def _reload(self, known: KeysFile) -> None:
        try:
            found = reload_if_changed(known)
        except ValueError as error:
            # Another process may have read a valid version that this one missed.
            self._file = last_valid(known)
            if str(error) != self._problem:
                self.failures += 1
                _LOG.error("ROUTER_API_KEYS_FILE is invalid, the former API keys stay active: expected %s", error)
            self._problem = str(error)
            return
        if found is known and self._problem is None:
            return
        self._file, self._problem = found, None
        _LOG.info("ROUTER_API_KEYS_FILE reloaded: %d API key(s) active", len(found.keys))


def _unique_keys(entries: Iterable[tuple[str, str]]) -> tuple[ApiKey, ...]:
    found: dict[bytes, tuple[str, ApiKey]] = {}
    for place, entry in entries:
        key = _parsed(entry, place)
        first, same = found.setdefault(key.digest, (place, key))
        if same.name != key.name:
            raise ValueError(f"each key under one name, but {place} has the key of {first} under another")
    if not found:
        raise ValueError("at least one entry NAME=KEY or NAME=sha256:HEX")
    return tuple(key for _, key in found.values())


def _parsed(entry: str, place: str) -> ApiKey:
    # No part of an entry is shown: if the `=` is missing or doubled, any part may be the key.
    name, separator, value = entry.partition("=")
    if not (separator and _NAME.fullmatch(name)):
        raise ValueError(
            f"NAME=KEY or NAME=sha256:HEX in {place}, the name of 1 to 64 letters, digits, dots, dashes or underscores"
        )
    if value.startswith(_HASHED):
        hexadecimal = value.removeprefix(_HASHED)
        if not _DIGEST.fullmatch(hexadecimal):
            raise ValueError(f"the 64 hexadecimal digits of a SHA-256 after sha256: in {place}")
        return ApiKey(name, bytes.fromhex(hexadecimal))
    if len(value) < MIN_KEY_LENGTH or not _KEY.fullmatch(value):
        raise ValueError(
            f"a key of at least {MIN_KEY_LENGTH} printable ASCII characters without spaces and commas in {place}"
        )
    return ApiKey(name, hashlib.sha256(value.encode()).digest())


def _presented_key(authorization: str, x_api_key: str) -> str:
    """Return the key of a request. Raises ApiError if there is none, or if there are two that differ."""
    bearer = _BEARER.fullmatch(authorization)
    shown = {bearer[1] if bearer else authorization, x_api_key}
    shown.discard("")
    if not shown:
        raise ApiError("invalid_api_key", f"An API key is required here; send it {_HOW}")
    if len(shown) > 1:
        raise ApiError("invalid_api_key", f"Two different API keys were sent; send one, {_HOW}")
    return shown.pop()
