"""Compare the accepted model names, and how the mode of a request is read."""

from collections.abc import Iterator
from typing import Final

from compiler.artifact.to_profile import mode_of
from compiler.diff.change import EVIDENCE, UNSEEN, Change, Direction
from compiler.diff.fields import listed_words
from compiler.diff.values import listed, same, text_of
from router.contract.schema.sections import Alias, Mode, Models

Moves = tuple[Direction, Direction]
"""Whether requests that come under another case meet rules that are tighter there, and looser."""

_ALIASES: Final = ("models", "aliases")
_ID_NEEDED: Final = "; where engines list several models, ROUTER_MODEL_ID must now say which one aliases mean"


def compare_models(before: Models, after: Models, moves: Moves) -> Iterator[Change]:
    """Yield what changes in the accepted names."""
    for alias in before.aliases:
        if alias not in after.aliases:
            yield answered_no_longer(alias)
    added = [alias for alias in after.aliases if alias not in before.aliases]
    for alias in added:
        first = not before.aliases and alias == added[0]
        yield newly_answered(alias, _ID_NEEDED if first else "")
    for alias in after.aliases:
        if alias in before.aliases:
            yield from _alias((*_ALIASES, alias), before.aliases[alias], after.aliases[alias], moves)
    if before.respond_as != after.respond_as:
        yield Change(("models", "respond_as"), before.respond_as, after.respond_as, _respond_as(after))
    if before.default != after.default:
        yield default_model(before.default, after.default, moves)


def default_model(before: str | None, after: str | None, moves: Moves = (False, False)) -> Change:
    """Return the change of the model of requests that name none."""
    at = ("models", "default")
    if after is None:
        return Change(at, before, None, "requests naming no model will be rejected", tightens=True)
    if before is None:
        words = f"requests naming no model will be for {text_of(after)} instead of being rejected"
        return Change(at, None, after, words, loosens=True)
    return Change(at, before, after, f"requests naming no model will be for {text_of(after)}", *moves)


def answered_no_longer(alias: str) -> Change:
    """Return the change of a name that goes."""
    gone = f"requests naming {text_of(alias)} will be answered 404, unless a served model has that name"
    return Change(_ALIASES, alias, None, gone, tightens=True)


def newly_answered(alias: str, besides: str = "") -> Change:
    """Return the change of a new name; `besides` is appended to the description."""
    answered = f"requests naming {text_of(alias)} will be answered instead of a 404"
    return Change(_ALIASES, None, alias, f"{answered}{besides}", loosens=True)


def _alias(at: tuple[str, ...], before: Alias, after: Alias, moves: Moves) -> Iterator[Change]:
    naming = f"requests naming {text_of(at[-1])}"
    if before.model != after.model:
        old, new = (model or "the first served id" for model in (before.model, after.model))
        yield Change((*at, "model"), before.model, after.model, f"{naming} will be routed as {new}, not {old}", *moves)
    if not same(before.implies, after.implies):
        fields = listed_words([f"{path} as {listed([value])}" for path, value in after.implies.items()] or ["nothing"])
        words = f"{naming} will imply {fields}, which rules then evaluate as if it was sent"
        yield Change((*at, "implies"), before.implies or None, after.implies or None, words, None, None)
    if before.source != after.source:
        yield Change((*at, "source"), before.source, after.source, EVIDENCE)


def _respond_as(after: Models) -> str:
    if not after.aliases:
        return f"{UNSEEN}: there are no aliases"
    if after.respond_as == "served":
        return "responses to requests naming an alias will carry the served model's name instead of the alias"
    return "responses to requests naming an alias will carry the alias instead of the served model's name"


def compare_mode(before: Mode, after: Mode, moves: Moves | None) -> Iterator[Change]:
    """Yield the changes in how modes are read; `moves` is None if no case is for a mode."""
    directions: Moves = (False, False) if moves is None else moves
    under = UNSEEN + ": no case is for a mode" if moves is None else "requests may come under another case"
    old, new = mode_of(before), mode_of(after)
    for key in ("default", "match"):
        if not same(getattr(before, key), getattr(after, key)):
            yield Change(("mode", key), old.get(key), new.get(key), under, *directions)
    if before.source != after.source:
        yield Change(("mode", "source"), before.source, after.source, EVIDENCE)
