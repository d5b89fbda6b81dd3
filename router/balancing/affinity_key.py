"""The affinity (sticky) key of a request: from its session, its cache key, or the beginning of its conversation."""

from typing import Any, Final

import msgspec

from router.balancing.policies import hash_of
from router.contract.jsonbytes.members import end_of_value, start_of_next

MAX_PREFIX_BYTES: Final = 256 * 1024
"""How much of a conversation is read; longer ones differ by their beginning."""
MAX_PREFIX_MESSAGES: Final = 64
"""How many messages are searched for the first of a user."""
PROMPT_BYTES: Final = 256
"""How much of a completion's prompt is read; the rest grows from turn to turn."""

_USER: Final = "user"


class _BodyMembers(msgspec.Struct):
    """The members of a body that the key depends on; others are skipped."""

    model: msgspec.Raw = msgspec.Raw()
    prompt_cache_key: msgspec.Raw = msgspec.Raw()
    messages: msgspec.Raw = msgspec.Raw()
    prompt: msgspec.Raw = msgspec.Raw()


class _ChatMessage(msgspec.Struct):
    role: Any = None


_read_body = msgspec.json.Decoder(_BodyMembers).decode
_read_message = msgspec.json.Decoder(_ChatMessage).decode


def compute_key(session: str | None, body: bytes) -> int | None:
    """Return the 64-bit key of a request, equal for all turns of a conversation; None without any of the sources.

    `session` is the value of the session header. Without one, the body's `prompt_cache_key` decides, which OpenAI
    has for this; else its model with its messages up to the first of a user, or with the beginning of its prompt.
    Bytes are compared as the client wrote them.
    """
    if session:
        return hash_of(b"session\0" + session.encode("latin-1", "replace"))
    try:
        members = _read_body(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    source = _key_source(members)
    return None if source is None else hash_of(source)


def _key_source(members: _BodyMembers) -> bytes | None:
    cache_key = bytes(members.prompt_cache_key)
    if cache_key.startswith(b'"') and cache_key != b'""':
        return b"cache key\0" + cache_key
    model = bytes(members.model) + b"\0"
    messages = memoryview(members.messages)[:MAX_PREFIX_BYTES].tobytes()
    if messages.startswith(b"["):
        return b"messages\0" + model + _conversation_prefix(messages)
    prompt = memoryview(members.prompt)[:PROMPT_BYTES].tobytes()
    return b"prompt\0" + model + prompt if prompt.startswith(b'"') else None


def _conversation_prefix(messages: bytes) -> bytes:
    """Return an array of messages up to the first of a user; where none is found, its first message.

    The array may be cut off; then the rest counts as one message.
    """
    at = start_of_next(messages, 1)
    first_end = len(messages)
    for number in range(MAX_PREFIX_MESSAGES):
        try:
            end = end_of_value(messages, at)
        except ValueError:  # the array is empty, at its end, or cut off here
            return messages if not messages.startswith(b"]", at) else messages[:first_end]
        if number == 0:
            first_end = end
        if _is_user_message(messages[at:end]):
            return messages[:end]
        at = start_of_next(messages, end)
    return messages[:first_end]


def _is_user_message(message: bytes) -> bool:
    try:
        return bool(_read_message(message).role == _USER)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False
