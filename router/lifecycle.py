"""Pre-fork shared state: settings, artifact and the tables of workers, which the arbiter makes and workers inherit."""

import logging
import mmap
import struct
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from router import auth
from router.artifact.choice import Choice, choose, read_chosen
from router.artifact.format import Artifact, ArtifactError
from router.balancing.accept_table import AcceptTable
from router.balancing.in_flight import InFlightTable
from router.runtime.worker_table import ROWS, WorkerRows, WorkerTable
from router.settings.declarations import Settings, load

_LOG = logging.getLogger("router")
_COUNT: Final = struct.Struct("q")
_RELOAD_ERRORS = mmap.mmap(-1, _COUNT.size)
"""How many reloads failed: the arbiter counts, workers read."""


class _PreForkState:
    """The newest valid settings and artifact that the arbiter loaded, and why its newest reload failed."""

    settings: Settings | None = None
    artifact: Artifact | None = None
    choice: Choice | None = None
    reload_error: str | None = None
    tables: "SharedTables | None" = None


def load_artifact(settings: Settings) -> Artifact:
    """Load the artifact, and keep it and the settings for all workers forked later. Raises ArtifactError."""
    choice = choose(settings)
    _PreForkState.artifact = read_chosen(settings, choice)
    _PreForkState.choice, _PreForkState.settings = choice, settings
    return _PreForkState.artifact


def reload_artifact(settings: Settings) -> Artifact:
    """Reload the artifact and return the active one; an invalid one is logged, and `/readyz` reports it."""
    try:
        load_artifact(settings)
    except ArtifactError as error:
        _PreForkState.reload_error = str(error)
        _COUNT.pack_into(_RELOAD_ERRORS, 0, reload_errors() + 1)
        _LOG.error("the active artifact is kept: %s", error)
    else:
        _PreForkState.reload_error = None
    return active_artifact(settings)


def reload_keys() -> None:
    """Keep the newest valid API keys for workers that start later, also when their file is invalid then.

    The workers log an invalid file.
    """
    own = _PreForkState.settings
    if own is None or own.api_keys_file is None:
        return
    try:
        file = auth.reload_if_changed(own.api_keys_file)
    except ValueError:
        file = auth.last_valid(own.api_keys_file)
    if file is not own.api_keys_file:
        _PreForkState.settings = replace(own, api_keys_file=file)


def active_settings(environ: Mapping[str, str]) -> Settings:
    """Return the settings that the arbiter loaded; without our gunicorn conf, load them here.

    The files that they name may be gone since. Raises SettingError.
    """
    return _PreForkState.settings or load(environ)


def active_artifact(settings: Settings) -> Artifact:
    """Return the artifact that the arbiter loaded; without our gunicorn conf, load it here. Raises ArtifactError."""
    return _PreForkState.artifact or read_chosen(settings, choose(settings))


def active_choice(settings: Settings) -> Choice:
    """Return where the active artifact came from; without our gunicorn conf, choose here."""
    return _PreForkState.choice or choose(settings)


def is_loaded_by_arbiter() -> bool:
    """Return whether the arbiter loaded and logged the artifact, as it does under our gunicorn conf."""
    return _PreForkState.artifact is not None


def reload_error() -> str | None:
    """Return why the newest reload failed; None if it did not."""
    return _PreForkState.reload_error


class SharedTables:
    """The tables in which all workers of the machine count."""

    def __init__(self) -> None:
        self.in_flight = InFlightTable(ROWS, is_shared=True)
        self.accept = AcceptTable(ROWS, is_shared=True)
        self.admission = WorkerTable(1, ROWS, is_shared=True)
        self.rows = WorkerRows((self.in_flight, self.accept, self.admission))


def shared_tables() -> SharedTables:
    """Return the tables that all workers forked later share; the first call, by the arbiter, creates them."""
    _PreForkState.tables = _PreForkState.tables or SharedTables()
    return _PreForkState.tables


def in_flight_table() -> InFlightTable:
    """Return the shared in-flight table; without our gunicorn conf, a new one for this process alone."""
    return _PreForkState.tables.in_flight if _PreForkState.tables is not None else InFlightTable()


def admission_table() -> WorkerTable | None:
    """Return the table of the requests in flight of each worker; None without our gunicorn conf."""
    return _PreForkState.tables.admission if _PreForkState.tables is not None else None


def reload_errors() -> int:
    """Return how many reloads failed since the start."""
    return int(_COUNT.unpack_from(_RELOAD_ERRORS)[0])
