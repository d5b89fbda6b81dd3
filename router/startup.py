"""What is checked and said once at start."""

import inspect
import logging
import os
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Final

from router import lifecycle, settings
from router.artifact.choice import LOCAL_ARTIFACT, SYSTEM_ARTIFACT
from router.artifact.format import Artifact
from router.discovery.discovery import engines_of, names_in
from router.exposure import Address, exposure, exposure_warning
from router.request import routes
from router.settings import Settings
from router.telemetry.diagnostics import NonBlockingStderrHandler

_LOG = logging.getLogger("router")
_FORMAT: Final = "[%(asctime)s] [%(process)d] [%(levelname)s] router: %(message)s"
_FIRST_WORKER: Final = 1
_OF_THE_COMPILER: Final = "SGLANG_ROUTER_API_PROFILE"
_SAID: Final[set[str]] = set()


def configure_logging() -> None:
    """Send the router's own log lines to stderr, once."""
    if not _LOG.handlers:
        handler = NonBlockingStderrHandler()
        handler.setFormatter(logging.Formatter(_FORMAT, "%Y-%m-%d %H:%M:%S %z"))
        _LOG.addHandler(handler)
        _LOG.setLevel(logging.INFO)
        _LOG.propagate = False


def prefixed(error: Exception) -> str:
    """Return an error that stops the start, each line of it with the name of who says it."""
    return "\n".join(f"router: {line}" for line in str(error).splitlines())


def warnings(own: Settings, artifact: Artifact) -> list[str]:
    """Return what an operator should know before the first request: what is not set as it seems, or not governed."""
    found = settings.unknown_names(os.environ)
    if own.profile is None and not artifact.contract.governs_beyond_body_size():
        found.append(f"no contract is enforced: {_why_nothing(own)}, so requests pass as they are")
    if os.environ.get(_OF_THE_COMPILER):
        found.append(f"{_OF_THE_COMPILER} is read by profilec alone; a router enforces the artifact in ROUTER_PROFILE")
    ungoverned = [route for route in own.routes if route in routes.PASS_THROUGH]
    if artifact.contract.governs_beyond_body_size() and ungoverned:
        found.append(
            f"the contract {artifact.name} governs {routes.CHAT} alone, and these routes are open beside it: "
            f"{', '.join(ungoverned)}; narrow them with ROUTER_ROUTES, for example "
            f"ROUTER_ROUTES={routes.CHAT},{routes.MODELS}"
        )
    return found


def say_what_is_enforced(own: Settings, artifact: Artifact, *, reloaded: bool = False) -> None:
    """Log which contract is in force, once at start and after each reload, and the warnings that are new."""
    choice = lifecycle.choice_in_force(own)
    source = f"from {choice.path}" if choice.path is not None else "which is built in"
    enforced = f"enforcing {artifact.name} ({artifact.digest}), {source}, in front of {_described(own.engines)}"
    _say(logging.INFO, enforced, again=reloaded)
    for path in choice.passed_over:
        _say(logging.INFO, f"{path} is there too, and is not enforced: {choice.path} comes before it")
    for warning in warnings(own, artifact):
        _say(logging.WARNING, warning)


def _why_nothing(own: Settings) -> str:
    path = lifecycle.choice_in_force(own).path
    if path is not None:
        return f"{path} governs nothing"
    return f"ROUTER_PROFILE names no artifact, and none is at {SYSTEM_ARTIFACT} or ./{LOCAL_ARTIFACT}"


def say_what_is_open(own: Settings, addresses: Sequence[Address]) -> None:
    """Log which routes are open, where and to whom, and a warning where that is everybody."""
    _say(logging.INFO, exposure(own, addresses))
    warning = exposure_warning(own, addresses)
    if warning is not None:
        _say(logging.WARNING, warning)


def _described(engines: tuple[str, ...]) -> str:
    names, given = names_in(engines), engines_of(engines)
    return ", ".join(([f"{len(given)} engine(s)"] if given else []) + [f"the engines of {name}" for name in names])


def _say(level: int, text: str, *, again: bool = False) -> None:
    if again or text not in _SAID:
        _SAID.add(text)
        _LOG.log(level, "%s", text)


def say_in_first_worker(own: Settings, artifact: Artifact) -> None:
    """Log what the master would have said where our gunicorn conf is not in use, and what the sync worker means."""
    server = _gunicorn()
    if lifecycle.is_loaded_by_master() or getattr(server, "age", _FIRST_WORKER) > _FIRST_WORKER:
        return
    say_what_is_enforced(own, artifact)
    cfg = getattr(server, "cfg", None)
    if cfg is not None:
        say_what_is_open(own, cfg.address)
    if cfg is not None and cfg.worker_class_str == "sync":
        _LOG.warning(
            "!!! gunicorn runs its sync worker: streams longer than %d s will be CUT, and each worker serves one "
            "request at a time. Start it with our conf instead: gunicorn -c python:router.gunicorn_conf router.wsgi",
            cfg.timeout,
        )


def meet_engines(app: Any) -> None:  # noqa: ANN401 - a WSGI callable, usually ours
    """Find and look at the engines of an app of ours for the first time in this process, unless that is done."""
    services = getattr(app, "extensions", {}).get("router")
    if services is not None:
        services.discovery.start_and_wait()
        for part in (services.meter, services.tracer):
            if part is not None:
                with suppress(Exception):  # it says so, and what only tells of requests must not keep from serving them
                    part.start()


def flush(app: Any) -> None:  # noqa: ANN401 - a WSGI callable, usually ours
    """Have an app of ours write what its access log still holds, without waiting long, and count what is over."""
    flush_app = getattr(app, "flush", None)
    if flush_app is not None:
        flush_app()


def is_preloading() -> bool:
    """Tell whether gunicorn imports the app in its master, before it forks workers."""
    cfg = getattr(_gunicorn(), "cfg", None)
    return cfg is not None and bool(cfg.preload_app)


def _gunicorn() -> Any:  # noqa: ANN401 - gunicorn's worker or arbiter, or None
    """Return the gunicorn worker or master that is importing the app; gunicorn tells an app in no other way."""
    frame = inspect.currentframe()
    while frame is not None:
        owner = frame.f_locals.get("self")
        if hasattr(owner, "cfg") and hasattr(owner, "log") and _is_gunicorns(type(owner)):
            return owner
        frame = frame.f_back
    return None


def _is_gunicorns(kind: type) -> bool:
    """Tell whether a class is gunicorn's own or, as those of our conf, made of one."""
    return any(base.__module__.startswith("gunicorn.") for base in kind.__mro__)
