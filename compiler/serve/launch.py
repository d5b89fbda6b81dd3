"""How `profilec serve` becomes gunicorn: its settings, its arguments, and the checks before it starts."""

import os
import sys
from argparse import Namespace
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple, NoReturn

import router
from compiler.diagnostics import CommandError, quoted_path
from router.settings.declarations import SettingError, load

ARTIFACT_SETTING: Final = "ROUTER_PROFILE"
"""The router's setting that names the artifact to enforce."""

CONF: Final = "router.gunicorn_conf"
HOST: Final = "127.0.0.1"
PORT: Final = 8000

_ANY_ENGINE: Final = f"http://{HOST}:1"
"""Stands for the mock engine while the other settings are checked: it is not started for a router that is not."""


class ServeSettings(NamedTuple):
    """The environment of the router, and what it says: whether there are engines, and which model ids are served."""

    environment: dict[str, str]
    has_engines: bool
    model_id: tuple[str, ...]


def settings_of(artifact: Path, engines: Sequence[str] | None) -> ServeSettings:
    """Return the settings of the environment, under those of the command line. Raises CommandError for bad ones."""
    environment = {**os.environ, ARTIFACT_SETTING: str(artifact)}
    if engines:
        environment["ROUTER_ENGINES"] = ",".join(engines)
    has_engines = bool(environment.get("ROUTER_ENGINES", "").strip())
    try:
        own = load(environment if has_engines else {**environment, "ROUTER_ENGINES": _ANY_ENGINE})
    except SettingError as error:
        raise CommandError(str(error)) from error
    return ServeSettings(environment, has_engines, own.model_id)


def gunicorn_arguments(arguments: Namespace, environment: Mapping[str, str]) -> list[str]:
    """Return gunicorn's command line. PORT and WEB_CONCURRENCY hold where no option says otherwise, as for gunicorn."""
    given = ["-c", f"python:{CONF}"]
    if arguments.host is not None or arguments.port is not None or not environment.get("PORT"):
        host, port = arguments.host or HOST, PORT if arguments.port is None else arguments.port
        given += ["--bind", f"[{host}]:{port}" if ":" in host else f"{host}:{port}"]
    if arguments.workers is not None:
        given += ["--workers", str(arguments.workers)]
    return given


def exec_gunicorn(arguments: Sequence[str], environment: Mapping[str, str]) -> NoReturn:
    """Replace this process by gunicorn; what stands in this folder cannot take the place of one of its modules."""
    sys.stdout.flush()
    sys.stderr.flush()
    os.execve(sys.executable, [sys.executable, "-P", "-m", "gunicorn", *arguments], dict(environment))  # noqa: S606 - no shell is wanted


def reject_hidden_router() -> None:
    """Raise CommandError where gunicorn, which looks into this folder first, would find another module `router`.

    In a checkout it finds this package again, and serves with it.
    """
    if Path("router/gunicorn_conf.py").is_file():
        return
    for name in ("router/__init__.py", "router.py"):
        found = Path(name)
        if found.is_file() and not found.samefile(router.__file__):
            raise CommandError(
                f"{quoted_path(name)} in this folder hides the installed package `router` from gunicorn: rename it, or "
                "start in another folder"
            )
