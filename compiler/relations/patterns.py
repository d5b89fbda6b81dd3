"""Regular expressions that Python does not read, or that some text could keep busy for ever."""

import re
import warnings
from collections.abc import Iterator

from compiler.diagnostics import Diagnostic
from compiler.relations.judged import Judged, Related
from compiler.tree import Mapping, Path, Scalar, node_at

_PATTERNS = (("fields", "pattern"), ("checks", "name_pattern"))
_REPEATED_REPEAT = re.compile(r"\((?:[^()\\]|\\.)*[+*](?:[^()\\]|\\.)*\)(?:[+*]|\{[0-9]*,)")


def relations_of_patterns(judged: Judged) -> Iterator[Related]:
    """Yield the patterns that are no regular expressions."""
    for section, key in _PATTERNS:
        rules = node_at(judged.tree, (section,))
        for entry in rules.entries if isinstance(rules, Mapping) else ():
            path: Path = (section, entry.key, key)
            node = node_at(judged.tree, path)
            if isinstance(node, Scalar) and isinstance(node.value, str) and judged.is_right(path):
                problem = pattern_problem(node.value)
                if problem is not None:
                    message = f"{judged.named(path)} is no usable regular expression: {problem}"
                    yield (), Diagnostic("bad-pattern", message, node.at, "a regular expression of Python's")


def pattern_problem(pattern: str) -> str | None:
    """Say why a text is no regular expression, or one not to be used; None where all is well."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            re.compile(pattern)
    except (re.error, OverflowError, RecursionError, FutureWarning, DeprecationWarning) as error:
        return str(error)
    if _REPEATED_REPEAT.search(pattern):
        return "it repeats what repeats itself, on which a client's text could keep the router busy for ever"
    return None
