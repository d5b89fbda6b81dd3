"""`profilec serve`: serves a contract in front of engines. The process becomes gunicorn with the router's conf."""

import os
import sys
from argparse import Namespace

from compiler.cli.loading import selection_of
from compiler.diagnostics import printable
from compiler.diagnostics.formats import text_of
from compiler.resolve.selection import Selection
from compiler.serve.contract import LoadedContract, ServedContract
from compiler.serve.launch import (
    ARTIFACT_SETTING,
    ServeSettings,
    exec_gunicorn,
    gunicorn_arguments,
    reject_hidden_router,
    settings_of,
)
from compiler.serve.sidecar import Sidecar
from compiler.verify.generation.names import Deployment


def run(arguments: Namespace) -> int:
    """Check the artifact and the settings, start what is missing, and replace this process by gunicorn.

    Does not return. Raises ProfileError, ArtifactError, UsageError, and CommandError for invalid settings. Afterwards
    the exit code is gunicorn's.
    """
    reject_hidden_router()
    with ServedContract(_selection(arguments)) as contract:
        loaded = contract.load()
        settings = settings_of(contract.artifact_path, arguments.engine)
        _print_introduction(contract, loaded)
        models = _models_of_mock_engine(settings, loaded)
        sidecar = Sidecar(contract, models, watches=arguments.reload)
        if sidecar.is_needed:
            sidecar.start()
        if sidecar.engine_url is not None:
            settings.environment["ROUTER_ENGINES"] = sidecar.engine_url
            _report(f"no --engine is given: the mock engine at {sidecar.engine_url} serves until the router stops")
        exec_gunicorn(gunicorn_arguments(arguments, settings.environment), settings.environment)


def _selection(arguments: Namespace) -> Selection:
    """Return what to serve: what is named, else the artifact of ROUTER_PROFILE, else what other commands take."""
    is_named = any((arguments.source, arguments.api_profile_file, arguments.api_profile))
    artifact = os.environ.get(ARTIFACT_SETTING, "").strip()
    if is_named or not artifact:
        return selection_of(arguments)
    _report(f"serving {artifact} (from {ARTIFACT_SETTING})")
    return Selection("artifact", artifact, ARTIFACT_SETTING)


def _print_introduction(contract: ServedContract, loaded: LoadedContract) -> None:
    if loaded.warnings:
        sys.stderr.write(text_of(loaded.warnings))
    if contract.is_compiled:
        _report(f"{contract.name} was compiled for this run; in production, serve a built artifact: {contract.build}")


def _models_of_mock_engine(settings: ServeSettings, loaded: LoadedContract) -> tuple[str, ...] | None:
    """Return what a mock engine serves: a model of the contract's name, and each that the contract speaks of."""
    if settings.has_engines:
        return None
    artifact = loaded.artifact
    return settings.model_id or Deployment.for_contract(artifact.contract, (artifact.name,)).served


def _report(text: str) -> None:
    sys.stderr.write(f"profilec serve: {printable(text)}\n")
