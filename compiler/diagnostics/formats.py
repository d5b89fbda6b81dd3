"""Diagnostics as a whole: as text for people, as JSON for machines, as annotations for GitHub's pages.

The JSON is one object; keys are only ever added, and `format_version` rises when one changes its meaning:

    {
      "format_version": 1,
      "error_count": 1,
      "warning_count": 0,
      "diagnostics": [
        {
          "severity": "error",                      "error" or "warning"
          "code": "wrong-value",                    the kind of thing that is wrong, a stable word
          "message": "sampling.params.n is 0",      what was found
          "file": "base.yaml",                      as named on the command line or reached from there, `preset:NAME` or
                                                    the name of a flag; null where no place is to blame
          "range": {"start": {"line": 2, "column": 5}, "end": {"line": 2, "column": 6}},
                                                    counted from 1, in characters, the end exclusive; null without file
          "hops": [{"file": …, "range": …}],        the `extends` values that led to the file, the nearest first
          "expected": "a whole number, …",          or null
          "hint": "…",                              what to do, or null
          "notes": [{"file": …, "range": …, "message": …}]
        }                                           other places, and what is there
      ]
    }

Errors come before warnings.
"""

import json
import os
import sys
from collections.abc import Iterator, Sequence
from typing import Any, Final

from compiler.diagnostics import Diagnostic, Location, details, printable, render
from compiler.diagnostics.colour import style_for

FORMAT_VERSION: Final = 1
"""The version of the JSON that `profilec check --format json` writes."""

_MESSAGE: Final = str.maketrans({"%": "%25", "\r": "%0D", "\n": "%0A"})
_PROPERTY: Final = _MESSAGE | str.maketrans({":": "%3A", ",": "%2C"})
"""What GitHub asks to be escaped in the text of a workflow command, and in a property of one."""


MAX_REPORTED: Final = 50
"""The most diagnostics that are printed as text."""


def text_of(diagnostics: Sequence[Diagnostic], summary: str = "") -> str:
    """Return diagnostics as text for standard error, not too many of them, then a summary, else their count."""
    style = style_for(sys.stderr, os.environ)
    blocks = [render(diagnostic, style) for diagnostic in diagnostics[:MAX_REPORTED]]
    return "\n".join([*blocks, f"{summary or counted(diagnostics)}\n"])


def counted(diagnostics: Sequence[Diagnostic]) -> str:
    """Return how many errors and warnings there are, in words."""
    errors = sum(diagnostic.severity == "error" for diagnostic in diagnostics)
    numbers = ((errors, "error"), (len(diagnostics) - errors, "warning"))
    counts = ", ".join(f"{number} {word}{'' if number == 1 else 's'}" for number, word in numbers if number)
    more = f", of which {MAX_REPORTED} are shown" if len(diagnostics) > MAX_REPORTED else ""
    return f"{counts or 'no errors'}{more}"


def json_of(diagnostics: Sequence[Diagnostic]) -> bytes:
    """Return diagnostics as JSON, in the form that this module describes."""
    errors = sum(diagnostic.severity == "error" for diagnostic in diagnostics)
    report = {
        "format_version": FORMAT_VERSION,
        "error_count": errors,
        "warning_count": len(diagnostics) - errors,
        "diagnostics": [_as_object(diagnostic) for diagnostic in diagnostics],
    }
    # A lone surrogate, out of a file name that is no text, is no UTF-8 either: it is written as an escape.
    return f"{json.dumps(report, indent=2)}\n".encode()


def github_of(diagnostics: Sequence[Diagnostic]) -> bytes:
    """Return diagnostics as GitHub workflow commands, one a line, that become annotations in a pull request."""
    return "".join(f"{_as_annotation(diagnostic)}\n" for diagnostic in diagnostics).encode()


def _as_object(diagnostic: Diagnostic) -> dict[str, Any]:
    at = diagnostic.at
    hops = at.hops() if at is not None and diagnostic.shows_hops else ()
    return {
        "severity": diagnostic.severity,
        "code": diagnostic.code,
        "message": diagnostic.message,
        **_place(at),
        "hops": [_place(hop) for hop in hops],
        "expected": diagnostic.expected,
        "hint": diagnostic.hint,
        "notes": [{**_place(note.at), "message": note.text} for note in diagnostic.notes],
    }


def _place(at: Location | None) -> dict[str, Any]:
    if at is None:
        return {"file": None, "range": None}
    start, end = {"line": at.line, "column": at.column}, {"line": at.end_line, "column": at.end_column}
    return {"file": at.document.name, "range": {"start": start, "end": end}}


def _as_annotation(diagnostic: Diagnostic) -> str:
    at = _annotated(diagnostic.at)
    properties = {**(_position(at) if at is not None else {}), "title": f"profilec {diagnostic.code}"}
    listed = ",".join(f"{key}={str(value).translate(_PROPERTY)}" for key, value in properties.items())
    lines = [printable(diagnostic.message), *details(diagnostic)]
    if at is not diagnostic.at:
        lines[0] = f"{diagnostic.at}: {lines[0]}"
    return f"::{diagnostic.severity} {listed}::{chr(10).join(lines).translate(_MESSAGE)}"


def _annotated(at: Location | None) -> Location | None:
    """Return the nearest place that stands in a file of the checkout: of a preset's, the `extends` that names it."""
    places: Iterator[Location] = iter(()) if at is None else _and_hops(at)
    return next((place for place in places if not place.document.name.startswith(("preset:", "--"))), None)


def _and_hops(at: Location) -> Iterator[Location]:
    yield at
    yield from at.hops()


def _position(at: Location) -> dict[str, object]:
    """Return the properties of a place; GitHub takes columns only where they are of one line."""
    lines = {"file": printable(os.path.normpath(at.document.name)), "line": at.line}
    if at.line != at.end_line:
        return {**lines, "endLine": at.end_line}
    return {**lines, "col": at.column, "endLine": at.end_line, "endColumn": at.end_column}
