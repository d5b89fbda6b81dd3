"""The command line `profilec`: results go to standard output, messages to standard error.

`compiler.cli.exit_codes` lists the exit codes.

`serve` replaces its process by gunicorn after all checks. Its exit code is gunicorn's: 0 when a signal stopped it.
"""

import os
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Final

from compiler.cli.exit_codes import BUG, FAILED, INTERRUPTED, OK, READER_GONE, USAGE
from compiler.cli.parser import parser_of_profilec

TRACEBACK_NAME: Final = "PROFILEC_TRACEBACK"
"""The environment variable that makes an internal error print its traceback, when it is not empty."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run `profilec` with these arguments, by default those of the process, and return its exit code."""
    command = "profilec"
    try:
        arguments = parser_of_profilec().parse_args(argv)
        command = f"profilec {arguments.command}"
        module, function = arguments.run
        # Imported here, so that `--help` is fast.
        code: int = getattr(import_module(module), function)(arguments)
    except SystemExit as stop:  # argparse has printed its message
        return stop.code if isinstance(stop.code, int) else OK
    except KeyboardInterrupt:
        return INTERRUPTED
    except Exception as error:  # noqa: BLE001 - the one place where every error becomes a message and an exit code
        return _report_error(error, command)
    return code


def _report_error(error: Exception, command: str) -> int:
    """Print an error and return its exit code."""
    if isinstance(error, ModuleNotFoundError) and (error.name or "").startswith("router."):
        hiding = getattr(sys.modules.get("router"), "__file__", None)
        _report(
            f"profilec: error: {hiding} hides the installed package `router`: rename it, or start in another folder\n"
        )
        return FAILED
    errors = import_module("compiler.cli.errors")
    if isinstance(error, errors.ProfileError):
        _report(errors.render_error(error))
        return FAILED
    if isinstance(error, errors.ArtifactError | errors.CommandError):
        _report(f"profilec: error: {error}\n")
        return FAILED
    if isinstance(error, errors.UsageError):
        _report(f"profilec: error: {error}; see {command} --help\n")
        return USAGE
    if isinstance(error, BrokenPipeError):
        _discard_standard_output()
        return READER_GONE
    return _bug(error)


def _bug(error: Exception) -> int:
    if os.environ.get(TRACEBACK_NAME):
        import_module("traceback").print_exception(error)
    _report(
        f"profilec: internal error: {type(error).__name__}: {error}\n"
        "  This is a bug of profilec, not of your profile. Please report it with the profile, the command\n"
        f"  and the output of `profilec --version`; {TRACEBACK_NAME}=1 shows the traceback.\n"
    )
    return BUG


def _report(text: str) -> None:
    if sys.stderr is not None:
        sys.stderr.write(text)
        sys.stderr.flush()


def _discard_standard_output() -> None:
    """Redirect standard output to the null device, so that Python's flush at exit does not fail."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, sys.stdout.fileno())
    os.close(null)
