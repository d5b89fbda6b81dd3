"""Translates PyYAML's syntax errors into diagnostics: what is wrong, where, and what to do."""

import re
from typing import Any, Final, NamedTuple

import yaml

from compiler.diagnostics import Diagnostic, Document, Location, Note
from compiler.source.scalars import with_space_after_colon

NO_TAG: Final = "leave it out; a value in quotes is a string, any other is read as YAML 1.2 core"
"""What to do about a tag."""

_DASHES = re.compile(r"\s*(?:- *)*-\s*")
_LIST_ITEM = re.compile(r" *-(?: |$)")
_OPEN_KEY = re.compile(r"( *)([^\s:#]+): *(?:#.*)?")
_TEXT_WITH_COLON = re.compile(r"\s*(?:- +)*([^\s:#'\"{\[,<]+): +([^\s#'\"{\[|>&*!].*?: \S.*?)(?: +#.*)?")
_CONTENT = re.compile(r"^( *)[^ #\n].*", re.MULTILINE)
_START_MARK = re.compile(r"^---(?=\s)", re.MULTILINE)
_END_MARK = re.compile(r"^\.\.\.(?:\s|\Z)", re.MULTILINE)


class _Translation(NamedTuple):
    """The message and hint for one of PyYAML's errors; `where_it_began` points to the start of the faulty construct."""

    pattern: str
    message: str
    hint: str
    where_it_began: bool = False


_TRANSLATIONS: Final = (
    _Translation(
        "could not find expected ':'",
        "a key without a colon",
        "a key is followed by a colon and a space, as in `top_p: 0.95`",
        where_it_began=True,
    ),
    _Translation(
        "scanning a directive|only the directive",
        "only the directive `%YAML 1.2` is supported",
        "remove the line",
        where_it_began=True,
    ),
    _Translation("duplicate YAML directive", "a second `%YAML` line", "keep one of them"),
    _Translation(
        "scanning an (?:alias|anchor)",
        "a value cannot start like this",
        "put a value that starts with * or & in quotes",
        where_it_began=True,
    ),
    _Translation(
        "scanning a block scalar",
        "this cannot follow | or >",
        "put the text on the lines below, indented, or put the whole value in quotes",
    ),
    _Translation("(?:scanning|parsing) a tag|tag handle", "tags are not supported", NO_TAG, where_it_began=True),
    _Translation(
        "escape sequence of",
        "an incomplete escape",
        "put the value in single quotes: there a backslash is an ordinary character",
    ),
    _Translation(
        "unknown escape character",
        "an unknown escape",
        "put the value in single quotes: there a backslash is an ordinary character",
    ),
    _Translation(
        "unexpected (?:end of stream|document separator)",
        "this quote is not closed",
        "close the quote",
        where_it_began=True,
    ),
    _Translation("but found ':'", "a colon without a key", "write the key before the colon"),
    _Translation(
        "expected <block end>",
        "the indentation does not match the lines above",
        "keys of one mapping start in the same column: check the indentation",
    ),
    _Translation(
        "mapping values are not allowed",
        "a second key inside a value",
        "check the indentation, or put a value that holds `: ` in quotes",
    ),
    _Translation(
        "sequence entries are not allowed",
        "a list cannot start here",
        "start it on the next line, or write it as in [a, b]",
    ),
    _Translation("mapping keys are not allowed", "a value cannot start like this", "put the value in quotes"),
    _Translation("cannot start any token", "a value cannot start like this", "put the value in quotes"),
    _Translation("expected the node content", "a value is missing", "give the value, or close the bracket"),
    _Translation("expected ',' or", "a comma or a closing bracket is missing", "close the bracket"),
    _Translation("", "this is not YAML that can be read here", "check the quotes, the brackets and the indentation"),
)
"""The first whose pattern matches PyYAML's message is used; the last one matches every message."""

_STARTED: Final = (
    ("mapping", "this mapping starts here"),
    ("sequence|collection", "this list starts here"),
    ("", "this starts here"),
)


def syntax_error(document: Document, error: yaml.MarkedYAMLError, position: Any) -> Diagnostic:  # noqa: ANN401
    """Return what is wrong with a text that PyYAML rejects; `position` is how far it had come."""
    problem = f"{error.context}: {error.problem}"
    mark = error.problem_mark or error.context_mark or position
    began = error.context_mark
    if "<document start>" in problem:
        return _outside_document(document, mark)
    if "'\\t' that cannot start" in problem:
        message, hint = _misplaced_tab(document.line(mark.line + 1), mark.column)
        return Diagnostic("syntax", message, _location(document, mark), hint=hint)
    translation = next(translation for translation in _TRANSLATIONS if re.search(translation.pattern, problem))
    if "<block end>" in problem:
        translation = _misfit_translation(document, translation, mark)
    at = began if translation.where_it_began and began is not None else mark
    if re.search("mapping values|could not find|<block end>", problem):
        missing_space = _missing_space(document, at.line + 1) or _missing_space(
            document, _number_above(document, at.line + 1)
        )
        if missing_space is not None:
            return missing_space
    if "mapping values" in problem:
        unquoted = _unquoted_colon(document, mark)
        if unquoted is not None:
            return unquoted
    notes: tuple[Note, ...] = ()
    if at is mark and began is not None and began.line != mark.line:
        text = next(text for pattern, text in _STARTED if re.search(pattern, str(error.context)))
        notes = (Note(_location(document, began), text),)
    return Diagnostic("syntax", translation.message, _location(document, at), hint=translation.hint, notes=notes)


def _outside_document(document: Document, mark: Any) -> Diagnostic:  # noqa: ANN401 - PyYAML has two kinds of marks
    """Return the error of text outside the document, where only `---` could start a new one."""
    text = document.text
    start, end = _START_MARK.search(text), _END_MARK.search(text)
    first = _CONTENT.search(text, start.end() if start else 0)
    at = _location(document, mark)
    if end is not None and text.count("\n", 0, end.start()) < mark.line:
        message, hint = "text after the end of the profile", "remove the line `...` before it"
    elif first is not None and len(first[1]) > mark.column:
        message, hint = "the first line is indented", "keys at the top start in column 1"
        at = _line_start(document, first, 1)
    elif first is not None and start is None and first[0].startswith("%"):
        message, hint = "a `%YAML` line without `---` after it", "write --- on the next line, or remove this line"
        at = _line_start(document, first, 0)
    else:
        message, hint = "this cannot follow the text before it", "a key is followed by a colon and a space"
    return Diagnostic("syntax", message, at, hint=hint)


def _missing_space(document: Document, number: int) -> Diagnostic | None:
    """Return the error of a line whose key has no space after its colon, or None."""
    line = document.line(number)
    meant, column = with_space_after_colon(line.lstrip(" ")), len(line) - len(line.lstrip(" ")) + 1
    if meant is None:
        return None
    at = Location(document, number, column, number, column + len(meant) - 1)
    hint = f"a colon needs a space after it: {meant}"
    return Diagnostic("syntax", "a key without a space after its colon", at, hint=hint)


def _unquoted_colon(document: Document, mark: Any) -> Diagnostic | None:  # noqa: ANN401
    """Return the error of a line whose text holds a colon and a space, or None where the line is another."""
    found = _TEXT_WITH_COLON.fullmatch(document.line(mark.line + 1).rstrip())
    if found is None or not found.start(2) < mark.column < found.end(2):
        return None
    text = found[2].replace("\\", "\\\\").replace('"', '\\"')
    message = "a text that is not in quotes holds a colon and a space"
    return Diagnostic("syntax", message, _location(document, mark), hint=f'put it in quotes: {found[1]}: "{text}"')


def _number_above(document: Document, number: int) -> int:
    """Return the number of the nearest line above that holds more than a comment; 0 where none does."""
    lines = document.text.split("\n")[: number - 1]
    return next((len(lines) - back for back, line in enumerate(reversed(lines)) if _CONTENT.match(line)), 0)


def _misfit_translation(document: Document, translation: _Translation, mark: Any) -> _Translation:  # noqa: ANN401
    """Return a more exact translation: for the rest of a line, a list that starts too far left, or an item."""
    line, above = document.line(mark.line + 1), document.line(_number_above(document, mark.line + 1))
    key = _OPEN_KEY.fullmatch(above)
    if line[: mark.column].strip(" -"):
        message, hint = "this cannot follow the text before it", "put the whole text in one pair of quotes"
        return _Translation("", message, hint)
    if not _LIST_ITEM.match(line):
        return translation
    if key is not None and len(key[1]) > mark.column:
        return translation._replace(hint=f"indent the list at least as far as {key[2]}")
    if _LIST_ITEM.match(above):
        return translation._replace(hint="items of one list start in the same column: check the indentation")
    return translation


def _misplaced_tab(line: str, column: int) -> tuple[str, str]:
    """Return the message and hint for a tab between two parts of a line."""
    before, behind = line[:column], line[column:].strip()
    if not behind:
        return "a tab at the end of the line", "remove it"
    if _DASHES.fullmatch(before):
        return "a tab after the dash", "write a space instead"
    if behind.startswith("#"):
        return "a tab before the comment", "write a space instead"
    if before.rstrip().endswith(":") or behind.startswith(":"):
        return "a tab between key and value", "use spaces instead of the tab"
    return "a tab is not allowed here", "use spaces instead of the tab"


def _location(document: Document, mark: Any) -> Location:  # noqa: ANN401 - PyYAML has two kinds of marks
    return Location(document, mark.line + 1, mark.column + 1, mark.line + 1, mark.column + 1)


def _line_start(document: Document, found: re.Match[str], group: int) -> Location:
    """Return the location of a matched group that starts at the beginning of its line."""
    number = document.text.count("\n", 0, found.start()) + 1
    return Location(document, number, 1, number, len(found[group]) + 1)
