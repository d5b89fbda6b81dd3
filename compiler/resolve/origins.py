"""Write the merged profile as YAML with a comment after each value: its origin, and the value that it replaced."""

from collections.abc import Iterator
from itertools import islice
from typing import Any, Final

from compiler.diagnostics import Location, printable
from compiler.source.tree import Entry, Mapping, plain
from compiler.source.yaml_writer import inline, ordered, yaml_of

_INDENT: Final = "  "
_DEFAULT: Final = "default"
_DEFAULT_NAME: Final = "default: named after its source"


def yaml_with_origins(values: dict[str, Any], profile: Mapping) -> bytes:
    """Return the YAML of values with the origin of each as a comment; a value not in `profile` is a default."""
    lines = iter(yaml_of(values).decode().rstrip("\n").split("\n"))
    return "".join(f"{line}\n" for line in _annotated(lines, ordered(values), profile, "")).encode()


def _annotated(lines: Iterator[str], values: dict[str, Any], tree: Mapping, indent: str) -> Iterator[str]:
    """Yield the lines of a mapping, which are taken one by one from `lines`, each with its comment."""
    entries = {entry.key: entry for entry in tree.entries}
    for key, value in values.items():
        entry = entries.get(key)
        yield _with_comment(next(lines), _comment(key, value, entry))
        if isinstance(value, dict):
            inner = entry.value if entry is not None and isinstance(entry.value, Mapping) else Mapping((), tree.at)
            yield from _annotated(lines, value, inner, indent + _INDENT)
        elif isinstance(value, list):
            yield from islice(lines, yaml_of({key: value}).count(b"\n") - 1)
    for deletion in tree.deleted:
        if deletion.replaced is not None and deletion.key not in entries:
            yield f"{indent}# {printable(deletion.key)}: {_deletion(deletion, deletion.replaced)}"


def _with_comment(line: str, comment: str) -> str:
    return f"{line}  # {comment}" if comment else line


def _comment(key: str, value: object, entry: Entry | None) -> str:
    """Return the comment behind a value; a mapping has none, unless it replaced something or is empty."""
    if isinstance(value, dict) and value and (entry is None or entry.replaced is None):
        return ""
    if entry is None:
        return _DEFAULT_NAME if key == "name" else _DEFAULT
    if entry.replaced is None:
        return _origin(entry)
    return f"{_origin(entry)}, replaces {_former(entry.replaced)}"


def _deletion(deletion: Entry, deleted: Entry) -> str:
    return f"deleted by {_origin(deletion)}, was {_former(deleted)}"


def _origin(entry: Entry) -> str:
    return " via ".join([_place(entry.key_at), *map(_place, entry.key_at.hops())])


def _former(entry: Entry) -> str:
    return f"{inline(plain(entry.value))} at {_place(entry.key_at)}"


def _place(at: Location) -> str:
    return printable(f"{at.document.name}:{at.line}")
