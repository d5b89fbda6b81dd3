"""A request to try a rule with, and what it shows."""

from typing import NamedTuple

from compiler.verify.check import ChatRequest


class RequestVariant(NamedTuple):
    """A request and what it shows; `is_edge` says that it tells a rule from one a step away, and so is never spared."""

    description: str
    request: ChatRequest
    is_edge: bool = True
