"""Describe requests with different results: newly rejected, no longer rejected, or with another error text."""

from collections.abc import Iterator
from typing import Final

from compiler.diff.client_visible import subject_of
from compiler.diff.fields import listed_words
from compiler.diff.observe import Difference
from compiler.diff.values import Value, same, text_of

_MOST_SHOWN: Final = 3
"""Most requests that a sentence names; the rest is counted. Also the most added or removed members of one shape."""


def sentence_of(found: list[Difference]) -> str:
    """Describe how the results of the tested requests differ."""
    rejected = [each.description for each in found if each.old.rule is None and each.new.rule is not None]
    passed = [each.description for each in found if each.old.rule is not None and each.new.rule is None]
    named = [each for each in found if each.old.rule is None and each.new.rule is None]
    both = [each for each in found if each.old.rule is not None and each.new.rule is not None]
    parts = [f"requests will be rejected: {_listed(rejected)}"] if rejected else []
    parts += [f"requests will no longer be rejected: {_listed(passed)}"] if passed else []
    if named:
        old, new = named[0].old.response_text, named[0].new.response_text
        parts.append(f"responses will carry the name {new} instead of {old}")
    if both and not rejected and not passed:
        listed = _listed([each.description for each in both])
        parts.append(f"rejections will have {listed_words([*error_differences(both[0])])}: {listed}")
    return "; ".join(parts)


def _listed(descriptions: list[str]) -> str:
    more = [f"{len(descriptions) - _MOST_SHOWN} more"] if len(descriptions) > _MOST_SHOWN else []
    return "; ".join([*descriptions[:_MOST_SHOWN], *more])


def differing_members(difference: Difference) -> tuple[Value, Value]:
    """Return the members of a rejection that are worded differently, before and after."""
    was, now = difference.old.members(), difference.new.members()
    paths = [path for path in dict.fromkeys((*was, *now)) if not same(was.get(path), now.get(path))]
    old, new = ({path: members[path] for path in paths if path in members} for members in (was, now))
    return old or None, new or None


def error_differences(difference: Difference) -> Iterator[str]:
    """Yield what differs in the error of a rejection, member by member."""
    old, new = difference.old, difference.new
    if old.rule is not None and new.rule is not None and subject_of(old.rule) != subject_of(new.rule):
        yield f"the reason of {new.rule} instead of that of {old.rule}"
        return
    was, now = old.members(), new.members()
    if len(was.keys() ^ now.keys()) > _MOST_SHOWN:
        yield "a body of another shape"
        return
    for path in dict.fromkeys((*was, *now)):
        if path not in was or path not in now:
            yield f"{path} {'left out' if path not in now else 'beside the rest'}"
        elif not same(was[path], now[path]):
            is_long = isinstance(now[path], str) and isinstance(was[path], str) and " " in now[path] + was[path]
            yield f"another {path}" if is_long else f"{path} {text_of(now[path])} instead of {text_of(was[path])}"
