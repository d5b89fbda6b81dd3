"""The command line `profilec`: results go to standard output, words to standard error, and exit codes mean something.

0 done, 1 the profile is wrong, the result cannot be written, `diff` finds a change or `verify` a failure, 2 the command
line is wrong, 3 a bug of ours, 130 interrupted, 141 the reader of standard output has gone.
`serve` becomes gunicorn once all is checked, and ends as gunicorn does: 0 when a signal stopped it.
"""

import os
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Final

from compiler.cli.parser import parser_of_profilec

WRONG: Final = 1
USAGE: Final = 2
BUG: Final = 3
INTERRUPTED: Final = 130
READER_GONE: Final = 141

TRACEBACK_NAME: Final = "PROFILEC_TRACEBACK"
"""The environment variable that, when not empty, lets a bug of ours show its traceback."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run `profilec` with these arguments, by default those of the process, and return its exit code."""
    command = "profilec"
    try:
        arguments = parser_of_profilec().parse_args(argv)
        command = f"profilec {arguments.command}"
        module, function = arguments.run
        # Imported only now, so that `--help` need not wait for it.
        code: int = getattr(import_module(module), function)(arguments)
    except SystemExit as stop:  # argparse has said what there was to say
        return stop.code if isinstance(stop.code, int) else 0
    except KeyboardInterrupt:
        return INTERRUPTED
    except Exception as error:  # noqa: BLE001 - the one place where every error becomes words and a code
        return _told(error, command)
    return code


def _told(error: Exception, command: str) -> int:
    """Tell people about an error and return the exit code that it means."""
    if isinstance(error, ModuleNotFoundError) and (error.name or "").startswith("router."):
        hiding = getattr(sys.modules.get("router"), "__file__", None)
        _say(f"profilec: error: {hiding} hides the installed package `router`: rename it, or start in another folder\n")
        return WRONG
    failures = import_module("compiler.cli.commands")
    if isinstance(error, failures.ProfileError):
        _say(failures.rendered(error))
        return WRONG
    if isinstance(error, failures.ArtifactError | failures.CommandError):
        _say(f"profilec: error: {error}\n")
        return WRONG
    if isinstance(error, failures.UsageError):
        _say(f"profilec: error: {error}; see {command} --help\n")
        return USAGE
    if isinstance(error, BrokenPipeError):
        _forget_standard_output()
        return READER_GONE
    return _bug(error)


def _bug(error: Exception) -> int:
    if os.environ.get(TRACEBACK_NAME):
        import_module("traceback").print_exception(error)
    _say(
        f"profilec: internal error: {type(error).__name__}: {error}\n"
        "  This is a bug of profilec, not of your profile. Please report it with the profile, the command\n"
        f"  and the output of `profilec --version`; {TRACEBACK_NAME}=1 shows the traceback.\n"
    )
    return BUG


def _say(text: str) -> None:
    if sys.stderr is not None:
        sys.stderr.write(text)
        sys.stderr.flush()


def _forget_standard_output() -> None:
    """Point standard output nowhere, so that Python's own flush at exit does not complain."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)
