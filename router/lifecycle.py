"""What gunicorn's master knows and its workers inherit over fork: the artifact in force, what is in flight, the end."""

import logging
import mmap
import struct
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from router import auth
from router.artifact.choice import Choice, choose, read_chosen
from router.artifact.format import Artifact, ArtifactError
from router.balancing.in_flight import SLOTS, InFlightTable
from router.settings import Settings, load

_LOG = logging.getLogger("router")
_SHARED = mmap.mmap(-1, 16)
"""Whether the master drains, in the first byte, and how many reloads failed."""
_DRAINING: Final = 1
_COUNT = struct.Struct("q")
_AT_RELOAD_ERRORS: Final = 8


class _Inherited:
    """What the master read and found good at last: the settings, the artifact; and why its newest try failed."""

    settings: Settings | None = None
    artifact: Artifact | None = None
    choice: Choice | None = None
    reload_error: str | None = None
    in_flight_table: InFlightTable | None = None


def load_in_master(settings: Settings) -> Artifact:
    """Read the artifact for all workers forked from here on, which get the settings too. Raises ArtifactError."""
    choice = choose(settings)
    _Inherited.artifact = read_chosen(settings, choice)
    _Inherited.choice, _Inherited.settings = choice, settings
    return _Inherited.artifact


def reload_in_master(settings: Settings) -> Artifact:
    """Read the artifact anew and return the one in force; a broken one is logged, and `/readyz` shows that it was."""
    try:
        load_in_master(settings)
    except ArtifactError as error:
        _Inherited.reload_error = str(error)
        _COUNT.pack_into(_SHARED, _AT_RELOAD_ERRORS, reload_errors() + 1)
        _LOG.error("the artifact in force stays: %s", error)
    else:
        _Inherited.reload_error = None
    return artifact_in_force(settings)


def reread_keys_in_master() -> None:
    """Take note of the newest API keys for the workers to come; of a broken file, of the last good version of it.

    That a file is broken the workers say.
    """
    own = _Inherited.settings
    if own is None or own.api_keys_file is None:
        return
    try:
        file = auth.reload_if_changed(own.api_keys_file)
    except ValueError:
        file = auth.last_valid(own.api_keys_file)
    if file is not own.api_keys_file:
        _Inherited.settings = replace(own, api_keys_file=file)


def settings_in_force(environ: Mapping[str, str]) -> Settings:
    """Return the settings that the master read: what they name may have gone since. Without our conf, read them here.

    Raises SettingError.
    """
    return _Inherited.settings or load(environ)


def artifact_in_force(settings: Settings) -> Artifact:
    """Return the artifact that the master read; without our gunicorn conf, read it here. Raises ArtifactError."""
    return _Inherited.artifact or read_chosen(settings, choose(settings))


def choice_in_force(settings: Settings) -> Choice:
    """Return where the artifact that the master read came from; without our gunicorn conf, look here."""
    return _Inherited.choice or choose(settings)


def is_loaded_by_master() -> bool:
    """Tell whether the master has read the artifact and said so, which it does under our gunicorn conf."""
    return _Inherited.artifact is not None


def reload_error() -> str | None:
    """Return why the newest reload failed, None when it did not."""
    return _Inherited.reload_error


def share_in_flight_table() -> InFlightTable:
    """Return the table of what is in flight that all workers forked from here on share; the first call makes it."""
    _Inherited.in_flight_table = _Inherited.in_flight_table or InFlightTable(SLOTS, is_shared=True)
    return _Inherited.in_flight_table


def in_flight_table() -> InFlightTable:
    """Return the table that the master made; without our gunicorn conf, one that counts this process alone."""
    return _Inherited.in_flight_table or InFlightTable()


def reload_errors() -> int:
    """Return how many reloads failed since the start."""
    return int(_COUNT.unpack_from(_SHARED, _AT_RELOAD_ERRORS)[0])


def begin_draining() -> None:
    """Mark all workers as draining, those that run and those still to come."""
    _SHARED[0] = _DRAINING


def is_draining() -> bool:
    """Tell whether the master has begun to stop."""
    return _SHARED[0] == _DRAINING
