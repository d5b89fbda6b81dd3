"""`profilec serve`: a contract served in front of engines. The process becomes gunicorn with the router's own conf."""

import os
import sys
from argparse import Namespace

from compiler.cli.commands import selected_by
from compiler.diagnostics import visible
from compiler.diagnostics.formats import text_of
from compiler.resolve.selection import Selected
from compiler.serve.contract import Loaded, ServedContract
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

    Returns only by an error: ProfileError, ArtifactError, UsageError, or CommandError for settings that cannot be used.
    From then on the exit code is gunicorn's.
    """
    reject_hidden_router()
    with ServedContract(_selected(arguments)) as contract:
        loaded = contract.load()
        settings = settings_of(contract.artifact_path, arguments.engine)
        _introduce(contract, loaded)
        models = _models_of_stand_in(settings, loaded)
        sidecar = Sidecar(contract, models, watches=arguments.reload)
        if sidecar.is_needed:
            sidecar.start()
        if sidecar.engine_url is not None:
            settings.environment["ROUTER_ENGINES"] = sidecar.engine_url
            _say(f"no --engine is given: the stand-in engine at {sidecar.engine_url} serves until the router stops")
        exec_gunicorn(gunicorn_arguments(arguments, settings.environment), settings.environment)


def _selected(arguments: Namespace) -> Selected:
    """Return what to serve: what is named, else the artifact of ROUTER_PROFILE, else what other commands take."""
    is_named = any((arguments.source, arguments.api_profile_file, arguments.api_profile))
    artifact = os.environ.get(ARTIFACT_SETTING, "").strip()
    if is_named or not artifact:
        return selected_by(arguments)
    _say(f"serving {artifact} (from {ARTIFACT_SETTING})")
    return Selected("artifact", artifact, ARTIFACT_SETTING)


def _introduce(contract: ServedContract, loaded: Loaded) -> None:
    if loaded.warnings:
        sys.stderr.write(text_of(loaded.warnings))
    if contract.is_compiled:
        _say(f"{contract.name} was compiled for this run; in production, serve a built artifact: {contract.build}")


def _models_of_stand_in(settings: ServeSettings, loaded: Loaded) -> tuple[str, ...] | None:
    """Return what a stand-in engine serves: a model of the contract's name, and each that the contract speaks of."""
    if settings.has_engines:
        return None
    artifact = loaded.artifact
    return settings.model_id or Deployment.for_contract(artifact.contract, (artifact.name,)).served


def _say(text: str) -> None:
    sys.stderr.write(f"profilec serve: {visible(text)}\n")
