"""A request to try a rule with, and what it shows."""

from typing import NamedTuple

from compiler.verify.check import Ask


class Probe(NamedTuple):
    """A request and what it shows; `is_edge` says that it tells a rule from one a step away, and so is never spared."""

    shows: str
    ask: Ask
    is_edge: bool = True
