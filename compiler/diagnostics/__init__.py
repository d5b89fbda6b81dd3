"""Diagnostics: the errors and warnings of profiles, with their places, and their rendering as text."""

import unicodedata
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final, Literal

from compiler.diagnostics.colour import PLAIN, Style

MAX_EXCERPT: Final = 120
"""Longest piece of a source line, in characters, that is shown."""

MAX_SHOWN_VALUE: Final = 60
"""Longest piece of a value, in characters, that is shown in a message."""

Code = Literal[
    "alias",
    "alias-of-alias",
    "ambiguous-case",
    "artifact-too-large",
    "bad-extends",
    "bad-key",
    "bad-pattern",
    "band-under-allow",
    "bare-brace",
    "covered-case",
    "confusable-character",
    "cycle",
    "default-above-cap",
    "dropped-aliases",
    "empty-band",
    "empty-override",
    "empty-profile",
    "empty-range",
    "empty-value",
    "empty-when",
    "file-too-large",
    "fixed-and-more",
    "force-and-drop",
    "from-cycle",
    "idle-default",
    "idle-null",
    "invisible-character",
    "joined-items",
    "large-artifact",
    "lookalike-alias",
    "merge-conflict",
    "merge-key",
    "missing-key",
    "never-allowed",
    "never-valid",
    "not-a-key",
    "not-a-mapping",
    "not-json",
    "not-utf-8",
    "null-in-override",
    "overlapping-cases",
    "refused-and-required",
    "repeated-alias",
    "repeated-item",
    "repeated-key",
    "repeated-value",
    "ruled-twice",
    "second-document",
    "stale-artifact",
    "stale-evidence",
    "stale-name",
    "stale-source",
    "syntax",
    "tab-in-indentation",
    "tag",
    "too-deep",
    "too-many-combinations",
    "too-many-values",
    "two-bounds",
    "unfit-value",
    "unfamiliar-field",
    "ungovernable-field",
    "unknown-group",
    "unknown-key",
    "unknown-mode",
    "unknown-placeholder",
    "unknown-preset",
    "unknown-rule",
    "unprintable-character",
    "unreadable-file",
    "unreadable-value",
    "unusable-artifact",
    "unusable-name",
    "word-for-boolean",
    "wrong-value",
]
"""The code of each kind of diagnostic; programs may rely on these."""

Severity = Literal["error", "warning"]
"""An error stops the compilation; a warning reports a probable mistake."""


@dataclass(frozen=True, slots=True, eq=False)
class Document:
    """A text that diagnostics point into: its name for people, and the `extends` value through which it was reached."""

    name: str
    text: str
    extended_at: "Location | None" = None

    def line(self, number: int) -> str:
        """Return a line of the text by its number, counted from 1; an empty string when there is none."""
        lines = self.text.split("\n")
        return lines[number - 1] if 0 < number <= len(lines) else ""


@dataclass(frozen=True, slots=True)
class Location:
    """A part of a document; lines and columns are counted from 1, in characters, and the end is exclusive."""

    document: Document
    line: int
    column: int
    end_line: int
    end_column: int

    def __str__(self) -> str:
        return printable(f"{self.document.name}:{self.line}:{self.column}")

    def hops(self) -> "Iterator[Location]":
        """Yield the `extends` values through which this place was reached, the nearest first."""
        hop = self.document.extended_at
        while hop is not None:
            yield hop
            hop = hop.document.extended_at


@dataclass(frozen=True, slots=True)
class Note:
    """Another place that belongs to a diagnostic, and what is there."""

    at: Location
    text: str


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """One error or warning: a stable code for programs; a message, what was expected and a hint for people."""

    code: Code
    message: str
    at: Location | None = None
    expected: str | None = None
    hint: str | None = None
    notes: tuple[Note, ...] = ()
    shows_hops: bool = True
    severity: Severity = "error"


def warning(code: Code, message: str, at: Location | None, hint: str, *notes: Note) -> Diagnostic:
    """Return a warning: the profile is valid, but this is probably a mistake."""
    return Diagnostic(code, message, at, hint=hint, notes=notes, severity="warning")


class CommandError(Exception):
    """A command failed for another reason than the profile; the message is for people."""


class ProfileError(Exception):
    """A profile cannot be compiled; carries every diagnostic that was found."""

    def __init__(self, *diagnostics: Diagnostic) -> None:
        super().__init__(*(diagnostic.message for diagnostic in diagnostics))
        self.diagnostics = in_order(diagnostics)


def in_order(diagnostics: Iterable[Diagnostic]) -> tuple[Diagnostic, ...]:
    """Return diagnostics in the order of their output: errors first, each kind in reading order."""
    return tuple(sorted(diagnostics, key=_reading_order))


def render(diagnostic: Diagnostic, style: Style = PLAIN) -> str:
    """Return a diagnostic as text: place and message, source line and caret, then its details."""
    return "\n".join([*_head(diagnostic, style), *(f"  {line}" for line in details(diagnostic))]) + "\n"


def details(diagnostic: Diagnostic) -> list[str]:
    """Return the lines below a message: other places, hops, what was expected, what to do."""
    lines = [f"{note.at}: {printable(note.text)}" for note in diagnostic.notes]
    if diagnostic.at is not None and diagnostic.shows_hops:
        lines += [f"via {hop}: extends {_written(hop)}" for hop in diagnostic.at.hops()]
    if diagnostic.expected is not None:
        lines.append(f"expected: {printable(diagnostic.expected)}")
    if diagnostic.hint is not None:
        lines.append(f"hint: {printable(diagnostic.hint)}")
    return lines


def quoted(text: str) -> str:
    """Return a string in double quotes for a message, shortened and without control characters."""
    shortened = text if len(text) <= MAX_SHOWN_VALUE else text[: MAX_SHOWN_VALUE - 3] + "..."
    escaped = shortened.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{printable(escaped)}"'


def quoted_path(path: str) -> str:
    """Return a path in double quotes for a message, whole, so that it can be copied."""
    return f'"{printable(path)}"'


def printable(text: str) -> str:
    """Return a text with every unprintable character written as an escape."""
    if text.isprintable():
        return text
    return "".join(ch if ch.isprintable() else ch.encode("unicode_escape").decode() for ch in text)


def nearest(word: str, known: "tuple[str, ...] | list[str]", cutoff: float = 0.6) -> str | None:
    """Return the known word that is most similar to this one, or None if none is similar.

    `cutoff`: how similar it has to be, from 0 to 1.
    """
    import difflib  # noqa: PLC0415 - wanted only once something is wrong

    lowered = {candidate.lower(): candidate for candidate in known}
    matches = difflib.get_close_matches(word.lower(), lowered, n=1, cutoff=cutoff)
    return lowered[matches[0]] if matches else None


def _reading_order(diagnostic: Diagnostic) -> tuple[bool, int, int, int]:
    at, is_warning = diagnostic.at, diagnostic.severity == "warning"
    if at is None:
        return (is_warning, 0, 0, 0)
    return (is_warning, sum(1 for _ in at.hops()), at.line, at.column)


def _head(diagnostic: Diagnostic, style: Style) -> Iterator[str]:
    at, severity = diagnostic.at, diagnostic.severity
    text = f"{style.paint(severity, severity)}: {style.paint('message', printable(diagnostic.message))}"
    if at is None:
        yield f"profilec: {text}"
        return
    yield f"{at}: {text}"
    line, start = _excerpt(at.document.line(at.line), at.column)
    before = line[: at.column - 1 - start]
    margin = " " * len(str(at.line))
    yield f"  {at.line} | {_flat(line)}".rstrip()
    caret = "^" * _caret_width(at, len(line) + start)
    yield f"  {margin} | {_blank(before)}{style.paint(severity, caret)}"


def _excerpt(line: str, column: int) -> tuple[str, int]:
    """Return the part of a long line that holds the column, and how many characters were cut before it."""
    start = 0 if column <= MAX_EXCERPT - 20 else column - MAX_EXCERPT // 2
    return line[start : start + MAX_EXCERPT], start


def _caret_width(at: Location, line_end: int) -> int:
    end = at.end_column - 1 if at.end_line == at.line else line_end
    return max(1, min(end, line_end) - (at.column - 1))


def _flat(line: str) -> str:
    return "".join(ch if ch == "\t" else printable(ch) for ch in line)


def _blank(before: str) -> str:
    """Return blanks that are as wide on a terminal as the given text, tabs kept."""
    return "".join("\t" if ch == "\t" else " " * _cells(ch) for ch in before)


def _cells(character: str) -> int:
    if not character.isprintable():
        return len(printable(character))
    if unicodedata.combining(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def _written(at: Location) -> str:
    end = at.end_column - 1 if at.end_line == at.line else None
    return printable(at.document.line(at.line)[at.column - 1 : end].strip())
