"""Bytes → a tree: strict YAML 1.2, every value with its place, every ambiguity an error."""

import re
from typing import Any, Final

import yaml
from yaml.parser import Parser
from yaml.reader import Reader, ReaderError
from yaml.scanner import Scanner, ScannerError
from yaml.tokens import DirectiveToken

from compiler.diagnostics import Code, Diagnostic, Document, Location, Note, ProfileError
from compiler.source.scalars import resolve, with_space_after_colon
from compiler.source.syntax_errors import NO_TAG, syntax_error
from compiler.source.tree import MAX_DEPTH, MAX_NODES, Entry, Mapping, Node, Path, Scalar, Sequence, path_text
from router.artifact.format import CONFLICT_MARKER

MAX_FILE_BYTES: Final = 1024 * 1024
"""Largest profile file in bytes."""

_BOM = "\ufeff"
_WIDE_BOMS = (b"\xff\xfe", b"\xfe\xff")
_INVISIBLE = re.compile("[\x85\u2028\u2029\ufeff]")
_INDENTING_TAB = re.compile(r"^ *(\t)[ \t]*(?=[^ \t\n])", re.MULTILINE)
_SURROGATE = re.compile("[\ud800-\udfff]")


def read_yaml(data: bytes, name: str, extended_at: Location | None = None) -> Mapping:
    """Read one profile document; `name` is its name in errors, `extended_at` the `extends` value that led to it.

    Raises ProfileError with everything that is wrong with the text as YAML.
    """
    root, empty = read_with_gaps(data, name, extended_at)
    if empty:
        raise ProfileError(*empty.values())
    return root


def read_with_gaps(
    data: bytes, name: str, extended_at: Location | None = None
) -> tuple[Mapping, dict[Path, Diagnostic]]:
    """Read one profile document without the keys and items that have no value; their errors are returned by path.

    Raises ProfileError with everything else that is wrong with the text as YAML, those errors included.
    """
    document = Document(name, _decode(data, name, extended_at), extended_at)
    _check_conflict(document)
    _check_characters(document)
    composer = _Composer(document)
    root = composer.compose_document()
    if composer.problems:
        raise ProfileError(*composer.problems, *composer.empty.values())
    return root, composer.empty


def span(document: Document, start: int, end: int) -> Location:
    """Return the location of a part of a document's text, given by its offsets."""
    line, column = _line_and_column(document.text, start)
    end_line, end_column = _line_and_column(document.text, end)
    return Location(document, line, column, end_line, end_column)


def joined_surrogates(text: str) -> str:
    """Return a string whose surrogate pairs, written as two escapes, are joined. Raises ValueError on a lone one."""
    if not _SURROGATE.search(text):
        return text
    try:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le")
    except UnicodeDecodeError as error:
        raise ValueError("half of a surrogate pair is not a character") from error


def repeated_key(entry: Entry, first: Entry, path: Path) -> Diagnostic:
    """Return the diagnostic of a key that one mapping has twice."""
    both_mappings = isinstance(entry.value, Mapping) and isinstance(first.value, Mapping)
    return Diagnostic(
        "repeated-key",
        f"{path_text(path)} is set twice",
        entry.key_at,
        hint="move the keys of this one under the first" if both_mappings else "keep one of the two",
        notes=(Note(first.key_at, "first set here"),),
    )


def _decode(data: bytes, name: str, extended_at: Location | None) -> str:
    if len(data) > MAX_FILE_BYTES:
        raise ProfileError(
            _at_start(name, extended_at, "file-too-large", f"the file is larger than {MAX_FILE_BYTES} bytes (1 MiB)")
        )
    if data.startswith(_WIDE_BOMS):
        raise ProfileError(
            _at_start(name, extended_at, "not-utf-8", "the file is UTF-16 or UTF-32", hint="save the file as UTF-8")
        )
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        before = _with_plain_breaks(data[: error.start].decode("utf-8").removeprefix(_BOM))
        document = Document(name, _with_plain_breaks(data.decode("utf-8", "replace").removeprefix(_BOM)), extended_at)
        message = f"the byte 0x{data[error.start]:02x} is not UTF-8"
        at = span(document, len(before), len(before) + 1)
        raise ProfileError(Diagnostic("not-utf-8", message, at, hint="save the file as UTF-8")) from error
    return _with_plain_breaks(text.removeprefix(_BOM))


def _with_plain_breaks(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _at_start(name: str, extended_at: Location | None, code: Code, message: str, hint: str | None = None) -> Diagnostic:
    return Diagnostic(code, message, Location(Document(name, "", extended_at), 1, 1, 1, 1), hint=hint)


def _line_and_column(text: str, offset: int) -> tuple[int, int]:
    return text.count("\n", 0, offset) + 1, offset - text.rfind("\n", 0, offset)


def _check_conflict(document: Document) -> None:
    """Reject a text in which a version control system left both sides of a merge."""
    marker = CONFLICT_MARKER.search(document.text)
    if marker:
        hint = "keep one side, and remove the lines that begin with <<<<<<<, |||||||, ======= and >>>>>>>"
        at = span(document, *marker.span())
        raise ProfileError(Diagnostic("merge-conflict", "unresolved merge conflict", at, hint=hint))


def _check_characters(document: Document) -> None:
    """Reject characters that are invisible, or that YAML 1.1 and 1.2 read differently."""
    invisible = _INVISIBLE.search(document.text)
    if invisible:
        code_point = f"U+{ord(invisible[0]):04X}"
        raise ProfileError(
            Diagnostic(
                "invisible-character",
                f"the invisible character {code_point} is not allowed here",
                span(document, *invisible.span()),
                hint="remove it, or write it as an escape within double quotes",
            )
        )
    tab = _INDENTING_TAB.search(document.text)
    if tab:
        raise ProfileError(
            Diagnostic(
                "tab-in-indentation",
                "a tab in the indentation",
                span(document, *tab.span(1)),
                hint="indent with spaces",
            )
        )


class _Events(Reader, Scanner, Parser):
    """PyYAML's parser in pure Python: libyaml, where it is installed, differs in places."""

    def __init__(self, text: str) -> None:
        Reader.__init__(self, text)
        Scanner.__init__(self)
        Parser.__init__(self)

    def scan_directive(self) -> DirectiveToken:
        """Reject every directive except `%YAML 1.2`."""
        start = self.get_mark()
        try:
            token: DirectiveToken = super().scan_directive()
        except ValueError as error:
            # Python reads no number of so many digits.
            raise ScannerError(None, None, "only the directive `%YAML 1.2` is supported", start) from error
        if token.name != "YAML" or token.value != (1, 2):
            raise ScannerError(None, None, "only the directive `%YAML 1.2` is supported", start)
        return token


class _Composer:
    """Builds the tree of one document from PyYAML's events; collects the errors after which it can continue."""

    def __init__(self, document: Document) -> None:
        self.problems: list[Diagnostic] = []
        self.empty: dict[Path, Diagnostic] = {}
        """The errors of keys and items without a value, by their paths; the tree is made without these."""
        self._document = document
        self._anchors: dict[str, tuple[Node, int, int] | None] = {}
        self._count = 0
        self._height = 0
        self._events: Any = None

    def compose_document(self) -> Mapping:
        try:
            self._events = _Events(self._document.text)
            return self._compose_stream()
        except yaml.MarkedYAMLError as error:
            raise ProfileError(syntax_error(self._document, error, self._events.get_mark())) from error
        except ReaderError as error:
            raise ProfileError(self._unprintable(error)) from error
        except (ValueError, OverflowError) as error:
            # PyYAML lets Python's own errors through for an escape beyond Unicode.
            at = self._location(self._events.get_mark())
            message, hint = "this escape is not a character", "the last character is U+10FFFF"
            raise ProfileError(Diagnostic("syntax", message, at, hint=hint)) from error

    def _compose_stream(self) -> Mapping:
        self._events.get_event()
        start = Location(self._document, 1, 1, 1, 1)
        if self._events.check_event(yaml.StreamEndEvent):
            return Mapping((), start)
        self._events.get_event()
        node = self._compose_node((), 0)
        self._events.get_event()
        if not self._events.check_event(yaml.StreamEndEvent):
            self._report(
                "second-document", "a second document", self._events.peek_event(), "one file holds one profile"
            )
        return self._as_profile(node, start)

    def _as_profile(self, node: Node, start: Location) -> Mapping:
        if isinstance(node, Mapping):
            return node
        if isinstance(node, Scalar) and node.value is None and node.at.column == node.at.end_column:
            return Mapping((), start)
        meant = with_space_after_colon(node.value) if isinstance(node, Scalar) and isinstance(node.value, str) else None
        hint = "a key is followed by a colon and a space; an empty file is an empty profile"
        if meant is not None:
            hint = f"a colon needs a space after it: {meant}"
        self.problems.append(
            Diagnostic("not-a-mapping", "a profile is a mapping of keys to values", node.at, hint=hint)
        )
        return Mapping((), start)

    def _compose_node(self, path: Path, depth: int) -> Node:
        event = self._events.get_event()
        if depth > MAX_DEPTH:
            raise ProfileError(self._diagnostic("too-deep", f"more than {MAX_DEPTH} levels of nesting", event))
        if isinstance(event, yaml.AliasEvent):
            return self._alias(event, depth)
        self._add(1, event)
        if event.tag is not None:
            self._report("tag", "tags are not supported", event, NO_TAG)
        before, self._height = self._count, 0
        if event.anchor is not None:
            self._anchors[event.anchor] = None
        node = self._compose_content(event, path, depth)
        if event.anchor is not None:
            self._anchors[event.anchor] = (node, self._count - before + 1, self._height)
        self._height += 1
        return node

    def _compose_content(self, event: Any, path: Path, depth: int) -> Node:  # noqa: ANN401 - one of PyYAML's events
        if isinstance(event, yaml.MappingStartEvent):
            return self._mapping(event, path, depth)
        if isinstance(event, yaml.SequenceStartEvent):
            return self._sequence(event, path, depth)
        return self._scalar(event, path)

    def _alias(self, event: Any, depth: int) -> Node:  # noqa: ANN401
        anchored = self._anchors.get(event.anchor)
        if anchored is None:
            known = event.anchor in self._anchors
            what = "refers to a value that contains it" if known else "has no anchor before it"
            raise ProfileError(self._diagnostic("alias", f"the alias *{event.anchor} {what}", event))
        node, size, height = anchored
        self._add(size, event)
        if depth + height > MAX_DEPTH:
            raise ProfileError(self._diagnostic("too-deep", f"more than {MAX_DEPTH} levels of nesting", event))
        self._height = height + 1
        return node

    def _scalar(self, event: yaml.ScalarEvent, path: Path) -> Scalar:
        at = self._location(event.start_mark, event.end_mark)
        if event.style is None and event.value == "" and path:
            self.empty[path] = _empty(path, at)
        try:
            value = resolve(event.value) if event.style is None else joined_surrogates(event.value)
        except ValueError as error:
            self.problems.append(Diagnostic("unreadable-value", f"{_named(path)}{error}", at))
            value = ""
        return Scalar(value, at, quoted=event.style is not None)

    def _sequence(self, event: yaml.SequenceStartEvent, path: Path, depth: int) -> Sequence:
        items: list[Node] = []
        height = position = 0
        while not self._events.check_event(yaml.SequenceEndEvent):
            place, position = (*path, position), position + 1
            item = self._compose_node(place, depth + 1)
            height = max(height, self._height)
            if place not in self.empty:
                items.append(item)
        self._events.get_event()
        self._height = height
        return Sequence(tuple(items), self._location(event.start_mark, event.end_mark))

    def _mapping(self, event: yaml.MappingStartEvent, path: Path, depth: int) -> Mapping:
        entries: dict[str, Entry] = {}
        height = 0
        while not self._events.check_event(yaml.MappingEndEvent):
            written = self._events.peek_event()
            key = self._key(written, depth)
            value = self._compose_node((*path, key or "?"), depth + 1)
            height = max(height, self._height)
            if key is None:
                continue
            entry = Entry(key, self._location(written.start_mark, written.end_mark), value)
            if key in entries:
                self.problems.append(repeated_key(entry, entries[key], (*path, key)))
            if (*path, key) not in self.empty:
                entries.setdefault(key, entry)
        self._events.get_event()
        self._height = height
        return Mapping(tuple(entries.values()), self._location(event.start_mark, event.end_mark))

    def _key(self, event: Any, depth: int) -> str | None:  # noqa: ANN401 - one of PyYAML's events
        """Return the next key, or None after reporting that it is not a key."""
        node = self._compose_node((), depth + 1)
        if not isinstance(node, Scalar):
            self._report("not-a-key", "a mapping or a list cannot be a key", event)
        elif not isinstance(node.value, str):
            hint = "keys are strings: put it in quotes"
            self._report("not-a-key", f"{_kind(node.value)} cannot be a key", event, hint)
        elif node.value == "<<" and not node.quoted:
            hint = "merge keys are not part of YAML 1.2: write the keys out, or use `extends`"
            self._report("merge-key", "merge keys are not supported", event, hint)
        else:
            return node.value
        return None

    def _add(self, size: int, event: Any) -> None:  # noqa: ANN401 - one of PyYAML's events
        self._count += size
        if self._count > MAX_NODES:
            message = f"more than {MAX_NODES} keys and values, with aliases expanded"
            raise ProfileError(self._diagnostic("too-many-values", message, event))

    def _report(self, code: Code, message: str, event: Any, hint: str | None = None) -> None:  # noqa: ANN401
        self.problems.append(self._diagnostic(code, message, event, hint))

    def _diagnostic(self, code: Code, message: str, event: Any, hint: str | None = None) -> Diagnostic:  # noqa: ANN401
        return Diagnostic(code, message, self._location(event.start_mark, event.end_mark), hint=hint)

    def _location(self, start: Any, end: Any = None) -> Location:  # noqa: ANN401 - PyYAML has two kinds of marks
        end = end or start
        return Location(self._document, start.line + 1, start.column + 1, end.line + 1, end.column + 1)

    def _unprintable(self, error: ReaderError) -> Diagnostic:
        message = f"the unprintable character U+{error.character:04X} is not allowed here"
        at = span(self._document, error.position, error.position + 1)
        return Diagnostic("unprintable-character", message, at, hint="remove it, or write it as an escape in quotes")


def _empty(path: Path, at: Location) -> Diagnostic:
    meant = with_space_after_colon(path[-1]) if isinstance(path[-1], str) else None
    hint = "give it a value, indent the lines that belong to it, or write null to delete what is inherited"
    if isinstance(path[-1], int):
        hint = "give it a value or remove the line"
    elif meant is not None:
        hint = f"a colon needs a space after it: {meant}"
    return Diagnostic("empty-value", f"{path_text(path)} has no value", at, hint=hint)


def _kind(value: object) -> str:
    if value is None:
        return "null"
    return "a boolean" if isinstance(value, bool) else "a number"


def _named(path: Path) -> str:
    return f"{path_text(path)}: " if path else ""
