"""Patterns that are not in the syntax of RE2: the place of the error, and what to write instead."""

import re
from collections.abc import Iterator
from typing import Final

from compiler.diagnostics import Diagnostic
from compiler.language.constraints import CONSTRAINTS
from compiler.source.tree import Mapping, Path, Scalar, node_at, place_within
from compiler.validate.relations.scope import RelationProblem, RelationScope
from router.contract.rules.patterns import MAX_REPEATS, PatternError, full_match_of

_PATTERNS: Final[tuple[tuple[str, Path], ...]] = (
    ("fields", ("pattern",)),
    *(("fields", (each.key, "pattern")) for each in CONSTRAINTS if each.form == "rule"),
    ("checks", ("name_pattern",)),
)
"""Sections, and where in each of their rules a pattern stands."""

_IN_OTHER_WORDS: Final = (
    (r"\(\?[=!]", "RE2 has no lookahead", "describe the characters of the text, or list the values with `allowed`"),
    (r"\(\?<[=!]", "RE2 has no lookbehind", "describe the characters of the text, or list the values with `allowed`"),
    (r"\\[1-9]|\(\?P", "RE2 has no references to groups; it names them (?P<name>…)", "write the repeated part out"),
    (r"\(\?>", "RE2 has no atomic groups", "write (?:…): RE2 does not backtrack"),
    (r"\(\?#", "RE2 has no comments", "put the comment behind a # of YAML"),
    (r"\(\?\(", "RE2 has no conditions", "write both cases, with | between them"),
    (r"\(\?[^:]?", "RE2 has no such group or flag", "groups are (…), (?:…) and (?P<name>…), flags are i, m, s and U"),
    (
        r"\\Z",
        r"RE2 has no \Z",
        r"leave it out: the whole text must match; elsewhere write \z",
    ),
    (r"\\[uUN]", "RE2 has no such escape", r"write the character itself, or its code point as \x{10FFFF}"),
    (
        r"(?:[*+?]|\{[0-9,]+\}){2}",
        "a repeat follows a repeat",
        "keep one, or group with (?:…); RE2 has no possessive repeats",
    ),
    (
        r"\{[0-9,]+\}",
        f"more than {MAX_REPEATS} repeats, counts within counts multiplied, or a range from more to less",
        f"the product of counts is at most {MAX_REPEATS}; * and + have no limit",
    ),
    (r"pattern too large.*", "it needs too much memory", r"repeat large classes, such as \pL, fewer times"),
    (
        r"\{",
        "this brace does not start a count",
        r"counts are {n}, {n,} and {n,m}: write {0,5} for {,5}, and \{ for a brace",
    ),
)
"""Messages and hints for RE2's errors, by the faulty piece of the pattern, else by RE2's message."""

EXPECTED: Final = "a regular expression in the syntax of RE2"

_SYNTAX: Final = "https://github.com/google/re2/wiki/Syntax says what can be written"


def relations_of_patterns(scope: RelationScope) -> Iterator[RelationProblem]:
    """Yield the errors of texts that are not patterns."""
    for section, place in _PATTERNS:
        rules = node_at(scope.tree, (section,))
        for entry in rules.entries if isinstance(rules, Mapping) else ():
            path: Path = (section, entry.key, *place)
            node = node_at(scope.tree, path)
            if isinstance(node, Scalar) and isinstance(node.value, str) and scope.is_valid(path):
                problem = pattern_problem(node.value)
                if problem is not None:
                    yield (), _diagnostic(scope.path_text(path), node, problem)


def pattern_problem(pattern: str) -> PatternError | None:
    """Return the error of a text that is not a pattern; None if it is one."""
    try:
        full_match_of(pattern)
    except PatternError as error:
        return error
    return None


def _diagnostic(name: str, node: Scalar, problem: PatternError) -> Diagnostic:
    words = (
        (problem_text, hint)
        for piece, problem_text, hint in _IN_OTHER_WORDS
        if re.fullmatch(piece, problem.found or problem.kind)
    )
    problem_text, hint = next(words, (problem.kind, _SYNTAX))
    piece = "" if problem.found in {"", node.value} else f": {problem.found}"
    at = place_within(node, problem.start, problem.end)
    return Diagnostic("bad-pattern", f"{name} is not a pattern: {problem_text}{piece}", at, EXPECTED, hint)
