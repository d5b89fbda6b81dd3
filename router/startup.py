"""Start of the router: log lines and warnings, and the services of each worker."""

import inspect
import logging
import os
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Final

from router import lifecycle
from router.artifact.choice import LOCAL_ARTIFACT, SYSTEM_ARTIFACT
from router.artifact.format import Artifact
from router.discovery.discovery import engines_of, names_in
from router.exposure import Address, describe_exposure, exposure_warning
from router.request import routes
from router.settings.declarations import Settings, unknown_names
from router.telemetry.diagnostics import NonBlockingStderrHandler

_LOG = logging.getLogger("router")
_FORMAT: Final = "[%(asctime)s] [%(process)d] [%(levelname)s] router: %(message)s"
_FIRST_WORKER: Final = 1
_COMPILER_VARIABLE: Final = "SGLANG_ROUTER_API_PROFILE"
_LOGGED: Final[set[str]] = set()


def configure_logging() -> None:
    """Send the router's own log lines to stderr, once."""
    if not _LOG.handlers:
        handler = NonBlockingStderrHandler()
        handler.setFormatter(logging.Formatter(_FORMAT, "%Y-%m-%d %H:%M:%S %z"))
        _LOG.addHandler(handler)
        _LOG.setLevel(logging.INFO)
        _LOG.propagate = False


def start_error(error: Exception) -> str:
    """Return the text of an error that prevents the start, with each line prefixed by the program's name."""
    return "\n".join(f"router: {line}" for line in str(error).splitlines())


def warnings(own: Settings, artifact: Artifact) -> list[str]:
    """Return warnings for the operator: unknown settings, no contract, routes that the contract does not cover."""
    found = unknown_names(os.environ)
    if own.profile is None and not artifact.contract.governs_beyond_body_size():
        found.append(f"no contract is enforced: {_why_no_contract(own)}, so requests pass as they are")
    if os.environ.get(_COMPILER_VARIABLE):
        found.append(
            f"{_COMPILER_VARIABLE} is read by profilec alone; a router enforces the artifact in ROUTER_PROFILE"
        )
    ungoverned = [route for route in own.routes if route in routes.PASS_THROUGH]
    if artifact.contract.governs_beyond_body_size() and ungoverned:
        found.append(
            f"the contract {artifact.name} governs {routes.CHAT} alone, and these routes are open beside it: "
            f"{', '.join(ungoverned)}; narrow them with ROUTER_ROUTES, for example "
            f"ROUTER_ROUTES={routes.CHAT},{routes.MODELS}"
        )
    return found


def log_enforced_contract(own: Settings, artifact: Artifact, *, reloaded: bool = False) -> None:
    """Log the active contract at start and after each reload, and new warnings."""
    choice = lifecycle.active_choice(own)
    source = f"from {choice.path}" if choice.path is not None else "which is built in"
    enforced = f"enforcing {artifact.name} ({artifact.digest}), {source}, in front of {_described(own.engines)}"
    _log(logging.INFO, enforced, again=reloaded)
    for path in choice.ignored:
        _log(logging.INFO, f"{path} exists, too, and is not enforced: {choice.path} takes precedence")
    for warning in warnings(own, artifact):
        _log(logging.WARNING, warning)


def _why_no_contract(own: Settings) -> str:
    path = lifecycle.active_choice(own).path
    if path is not None:
        return f"{path} governs nothing"
    return f"ROUTER_PROFILE names no artifact, and none is at {SYSTEM_ARTIFACT} or ./{LOCAL_ARTIFACT}"


def log_exposure(own: Settings, addresses: Sequence[Address]) -> None:
    """Log the open routes, their addresses and who can use them; warn when that is anyone."""
    _log(logging.INFO, describe_exposure(own, addresses))
    warning = exposure_warning(own, addresses)
    if warning is not None:
        _log(logging.WARNING, warning)


def _described(engines: tuple[str, ...]) -> str:
    names, given = names_in(engines), engines_of(engines)
    return ", ".join(([f"{len(given)} engine(s)"] if given else []) + [f"the engines of {name}" for name in names])


def _log(level: int, text: str, *, again: bool = False) -> None:
    if again or text not in _LOGGED:
        _LOGGED.add(text)
        _LOG.log(level, "%s", text)


def log_in_first_worker(own: Settings, artifact: Artifact) -> None:
    """Without our gunicorn conf: log in the first worker what the arbiter would log, and warn of the sync worker."""
    server = _gunicorn()
    if lifecycle.is_loaded_by_arbiter() or getattr(server, "age", _FIRST_WORKER) > _FIRST_WORKER:
        return
    log_enforced_contract(own, artifact)
    cfg = getattr(server, "cfg", None)
    if cfg is not None:
        log_exposure(own, cfg.address)
    if cfg is not None and cfg.worker_class_str == "sync":
        _LOG.warning(
            "!!! gunicorn runs its sync worker: streams longer than %d s will be CUT, and each worker serves one "
            "request at a time. Start it with our conf instead: gunicorn -c python:router.gunicorn_conf router.wsgi",
            cfg.timeout,
        )


def start_services(app: Any) -> None:  # noqa: ANN401 - a WSGI callable, usually ours
    """Start discovery, health checks and telemetry of a router app in this process, once."""
    services = getattr(app, "extensions", {}).get("router")
    if services is not None:
        services.discovery.start_and_wait()
        for part in (services.meter, services.tracer):
            if part is not None:
                with suppress(Exception):  # it logs the error; telemetry must not prevent serving
                    part.start()


def flush_telemetry(app: Any) -> None:  # noqa: ANN401 - a WSGI callable, usually ours
    """Write the pending access log lines, metrics and spans of a router app, within a short time."""
    flush = getattr(app, "flush", None)
    if flush is not None:
        flush()


def is_preloading() -> bool:
    """Return whether gunicorn imports the app in its arbiter, before it forks workers."""
    cfg = getattr(_gunicorn(), "cfg", None)
    return cfg is not None and bool(cfg.preload_app)


def _gunicorn() -> Any:  # noqa: ANN401 - gunicorn's Worker or Arbiter, or None
    """Return the gunicorn worker or arbiter that imports the app. Only the call stack has it."""
    frame = inspect.currentframe()
    while frame is not None:
        owner = frame.f_locals.get("self")
        if hasattr(owner, "cfg") and hasattr(owner, "log") and _is_gunicorn_class(type(owner)):
            return owner
        frame = frame.f_back
    return None


def _is_gunicorn_class(kind: type) -> bool:
    """Return whether a class is gunicorn's or inherits from one, as ours do."""
    return any(base.__module__.startswith("gunicorn.") for base in kind.__mro__)
