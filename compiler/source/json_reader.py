"""Reads JSON into the same tree as YAML, for contracts that are passed as a flag."""

import re
from json.decoder import JSONDecodeError, scanstring  # type: ignore[attr-defined]  # typeshed leaves it out
from typing import Final, NoReturn

from compiler.diagnostics import Diagnostic, Document, Location, ProfileError
from compiler.source.scalars import Value, number_of
from compiler.source.tree import MAX_DEPTH, MAX_NODES, Entry, Mapping, Node, Path, Scalar, Sequence, path_text
from compiler.source.yaml_reader import joined_surrogates, repeated_key, span

_SPACE = re.compile(r"[ \t\n\r]*")
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?")
_WORD = re.compile(r"[^\s,:{}\[\]\"]+")
_CONSTANTS: Final[dict[str, Value]] = {"true": True, "false": False, "null": None}


def read_json(document: Document) -> Node:
    """Read one JSON value. Raises ProfileError with the place of the first syntax error, or of every repeated key."""
    reader = _Reader(document)
    node = reader.read()
    if reader.problems:
        raise ProfileError(*reader.problems)
    return node


class _Reader:
    def __init__(self, document: Document) -> None:
        self.problems: list[Diagnostic] = []
        self._document = document
        self._text = document.text
        self._position = 0
        self._count = 0

    def read(self) -> Node:
        node = self._value((), 0)
        if self._next():
            self._fail("unexpected text after the JSON value")
        return node

    def _value(self, path: Path, depth: int) -> Node:
        character = self._next()
        self._count += 1
        if self._count > MAX_NODES or depth > MAX_DEPTH:
            self._fail(f"more than {MAX_NODES} values or {MAX_DEPTH} levels of nesting")
        if character == "{":
            return self._object(path, depth)
        if character == "[":
            return self._array(path, depth)
        if character == '"':
            return self._string()
        return self._word(path)

    def _object(self, path: Path, depth: int) -> Mapping:
        at = self._take(1)
        entries: dict[str, Entry] = {}
        while self._next() != "}":
            if entries:
                self._expect(",", "a comma or a closing brace is missing")
                self._next()
            key = self._key()
            self._expect(":", "a colon is missing after the key")
            name = str(key.value)
            entry = Entry(name, key.at, self._value((*path, name), depth + 1))
            if name in entries:
                self.problems.append(repeated_key(entry, entries[name], (*path, name)))
            entries.setdefault(name, entry)
        self._take(1)
        return Mapping(tuple(entries.values()), at)

    def _array(self, path: Path, depth: int) -> Sequence:
        at = self._take(1)
        items: list[Node] = []
        while self._next() != "]":
            if items:
                self._expect(",", "a comma or a closing bracket is missing")
            items.append(self._value((*path, len(items)), depth + 1))
        self._take(1)
        return Sequence(tuple(items), at)

    def _key(self) -> Scalar:
        if self._next() != '"':
            self._fail("expected a key in double quotes")
        return self._string()

    def _string(self) -> Scalar:
        start = self._position
        try:
            value, self._position = scanstring(self._text, start + 1, True)
            return Scalar(joined_surrogates(value), span(self._document, start, self._position), quoted=True)
        except JSONDecodeError as error:
            self._position = min(error.pos, len(self._text))
            self._fail("this string is not JSON")
        except ValueError as error:
            self._position = start
            self._fail(str(error))

    def _word(self, path: Path) -> Scalar:
        match = _WORD.match(self._text, self._position)
        if match is None:
            self._fail("expected a value")
        word = match[0]
        if word in _CONSTANTS:
            return Scalar(_CONSTANTS[word], self._take(len(word)))
        if not _NUMBER.fullmatch(word):
            self._fail("this is not JSON", len(word))
        try:
            return Scalar(number_of(word), self._take(len(word)))
        except ValueError as error:
            self._fail(f"{path_text(path)}: {error}" if path else str(error), len(word))

    def _next(self) -> str:
        """Skip blanks and return the next character, an empty string at the end."""
        match = _SPACE.match(self._text, self._position)
        self._position = match.end() if match else self._position
        return self._text[self._position : self._position + 1]

    def _expect(self, character: str, otherwise: str) -> None:
        if self._next() != character:
            self._fail(otherwise)
        self._position += 1

    def _take(self, length: int) -> Location:
        start = self._position
        self._position += length
        return span(self._document, start, self._position)

    def _fail(self, message: str, length: int = 1) -> NoReturn:
        at = span(self._document, self._position, self._position + length)
        raise ProfileError(Diagnostic("not-json", message, at, expected='JSON, as in {"top_p": 0.95}'))
