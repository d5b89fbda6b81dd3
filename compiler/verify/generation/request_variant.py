"""A request that tests a rule, and its description."""

from typing import NamedTuple

from compiler.verify.check import ChatRequest


class RequestVariant(NamedTuple):
    """A request and its description; `is_edge`: it is at an edge of the rule, so sampling never removes it."""

    description: str
    request: ChatRequest
    is_edge: bool = True
