"""The messages of a request."""

from collections.abc import Iterator
from typing import Any


def messages_of(fields: dict[str, Any]) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the messages that are objects, with their places."""
    messages = fields.get("messages")
    if isinstance(messages, list):
        yield from ((index, message) for index, message in enumerate(messages) if isinstance(message, dict))
