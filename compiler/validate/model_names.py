"""Warnings about model names: names that look alike, and names that a child profile no longer accepts."""

import re
import unicodedata
from collections.abc import Iterator
from typing import Final

from compiler.diagnostics import Diagnostic, Location, Note, quoted, warning
from compiler.resolve.extends import ALIASES, names_as_keys
from compiler.source.tree import Mapping, Path, Scalar, Sequence, node_at, path_text
from compiler.validate.case_trees import cases_of
from compiler.validate.relations.scope import texts_at

_DASHES: Final = frozenset("\u2010\u2011\u2012\u2013\u2014\u2015\u2212\ufe58\ufe63\uff0d")
_BLANK_LETTERS: Final = re.compile("[\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\ufe00-\ufe0f\uffa0]")
"""Characters that are blank, though Unicode counts them neither as spaces nor as formatting."""

_MAX_NAMED: Final = 5
"""Names and characters that a message lists; more are counted."""


def warnings_of_names(profile: Mapping) -> Iterator[Diagnostic]:
    """Yield the warnings about the names in a merged profile: of aliases, and of models named elsewhere."""
    first: dict[str, tuple[str, Location]] = {}
    for step, name, at in _aliases(profile):
        other, other_at = first.setdefault(_skeleton(name), (name, at))
        place = path_text((*ALIASES, step)) if isinstance(step, int) else "a key of models.aliases"
        if other != name:
            how = _difference(name, other)
            message = f"{place} is {quoted(name)}, which differs from {quoted(other)} only in {how}"
            hint = "keep both only if clients use both: for the router they are two names"
            yield warning("lookalike-alias", message, at, hint, Note(other_at, "the other one is listed here"))
        elif _confusable(name):
            yield _confusing(place, name, at)
    for path in _models(profile):
        for name, at in texts_at(profile, path):
            if _confusable(name):
                yield _confusing(path_text(path), name, at)


def warnings_of_child(parent: Mapping, child: Mapping) -> Iterator[Diagnostic]:
    """Yield a warning if the aliases of a child replace the inherited ones."""
    listed, inherited = node_at(child, ALIASES), node_at(parent, ALIASES)
    above = inherited and names_as_keys(inherited)
    if not isinstance(listed, Sequence) or not isinstance(above, Mapping) or inherited is None:
        return
    kept = [name for name, _ in texts_at(child, ALIASES)]
    dropped = [entry.key for entry in above.entries if entry.key not in kept]
    if dropped:
        added = [name for name in kept if above.get(name) is None]
        message = f"this list replaces the inherited one: {_listed([*map(quoted, dropped)])} will not be accepted"
        mapping = ", ".join(f"{quoted(name)}: {{}}" for name in added[:_MAX_NAMED])
        hint = f"a mapping adds to what is inherited: aliases: {{{mapping}}}" if added else "remove the list"
        hint += f"; to drop a name on purpose, delete it there: {quoted(dropped[0])}: null"
        yield warning("dropped-aliases", message, listed.at, hint, Note(inherited.at, "inherited from here"))


def _difference(name: str, other: str) -> str:
    if name.casefold().strip(" ") == other.casefold().strip(" "):
        return "case or blanks"
    odd = _confusable(name) or _confusable(other)
    return "characters that look alike or are invisible" + (f": {odd}" if odd else "")


def _confusing(place: str, name: str, at: Location) -> Diagnostic:
    message = f"{place} is {quoted(name)}, with {_confusable(name)}, which is invisible or looks like another character"
    hint = "type the name again, with plain spaces and hyphens, unless clients do send this character"
    return warning("confusable-character", message, at, hint)


def _confusable(name: str) -> str:
    """Return the characters of a name that are invisible or look like another one, by their code points."""
    odd = dict.fromkeys(ch for ch in name if ch in _DASHES or (ch != " " and _is_blank(ch)))
    return _listed([f"U+{ord(ch):04X}" for ch in odd])


def _is_blank(character: str) -> bool:
    is_blank_kind = unicodedata.category(character) in {"Cf", "Zl", "Zp", "Zs"}
    return is_blank_kind or _BLANK_LETTERS.fullmatch(character) is not None


def _skeleton(name: str) -> str:
    """Return a text that is equal for names that look alike: without case, invisible characters and kinds of dashes."""
    plain = "".join("-" if ch in _DASHES else ch for ch in name)
    visible = (ch for ch in plain if unicodedata.category(ch) == "Zs" or not _is_blank(ch))
    return unicodedata.normalize("NFKC", "".join(visible)).casefold().strip()


def _listed(words: list[str]) -> str:
    shortened = words[:_MAX_NAMED] + ([f"{len(words) - _MAX_NAMED} more"] if len(words) > _MAX_NAMED else [])
    *others, last = shortened or [""]
    return f"{', '.join(others)} and {last}" if others else last


def _aliases(profile: Mapping) -> Iterator[tuple[int | str, str, Location]]:
    aliases = node_at(profile, ALIASES)
    if isinstance(aliases, Mapping):
        yield from ((entry.key, entry.key, entry.key_at) for entry in aliases.entries)
    for index, item in enumerate(aliases.items if isinstance(aliases, Sequence) else ()):
        if isinstance(item, Scalar) and isinstance(item.value, str):
            yield index, item.value, item.at


def _models(profile: Mapping) -> Iterator[Path]:
    """Yield the models named outside the keys of aliases: as routing targets, and in conditions."""
    aliases, readings = node_at(profile, ALIASES), node_at(profile, ("mode", "match"))
    if isinstance(aliases, Mapping):
        yield from ((*ALIASES, entry.key, "model") for entry in aliases.entries)
    for index in range(len(readings.items) if isinstance(readings, Sequence) else 0):
        yield ("mode", "match", index, "model")
    for entry, _ in cases_of(profile):
        yield ("cases", entry.key, "when", "model")
