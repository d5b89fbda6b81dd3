"""The key of a request: the same for all turns of a conversation, another one for others, and never an error."""

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from router.balancing.affinity_key import MAX_PREFIX_BYTES, MAX_PREFIX_MESSAGES, PROMPT_BYTES, compute_key

SYSTEM = {"role": "system", "content": 'be "kind" ]}'}
USER = {"role": "user", "content": [{"type": "text", "text": "hi"}]}
REPLY = {"role": "assistant", "content": "hello"}
JSON = st.recursive(
    st.none() | st.booleans() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)
REPLIES = st.lists(st.fixed_dictionaries({"role": st.just("assistant"), "content": JSON}), max_size=3)


def _key(*messages: Any, session: str | None = None, **fields: Any) -> int | None:
    return compute_key(session, json.dumps({"model": "m", "messages": messages, **fields}).encode())


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(JSON, JSON, REPLIES, st.booleans())
def test_all_turns_of_a_conversation_share_a_key(system, text, replies, spaced) -> None:
    """What follows the first message of a user changes nothing, nor does what stands beside the messages."""
    head = [{"role": "system", "content": system}, {"content": text, "role": "user"}]
    first, later = ({"messages": head, "model": "m"}, {"messages": [*head, *replies], "model": "m"})
    separators = (" , ", " : ") if spaced else (",", ":")
    keys = [
        compute_key(None, json.dumps(body, separators=separators).encode())
        for body in (first, {**later, "temperature": 1})
    ]
    assert keys[0] == keys[1] is not None


@pytest.mark.parametrize(
    "other",
    [
        {"messages": [SYSTEM, {"role": "user", "content": "ho"}]},
        {"messages": [{"role": "system", "content": "be rude"}, USER]},
        {"messages": [USER]},
        {"messages": [SYSTEM, USER], "model": "n"},
        {"messages": [SYSTEM, USER], "prompt_cache_key": "k"},
    ],
)
def test_different_conversations_have_different_keys(other: dict[str, Any]) -> None:
    """The model, everything before the first message of a user and that message itself tell conversations apart."""
    assert compute_key(None, json.dumps({"model": "m", **other}).encode()) != _key(SYSTEM, USER)


def test_what_the_client_says_comes_first() -> None:
    """A session beats a cache key, and a cache key beats the messages."""
    assert _key(USER, session="s") == _key(SYSTEM, USER, session="s", prompt_cache_key="k")
    assert _key(USER, session="s") != _key(USER, session="t")
    assert _key(USER, prompt_cache_key="k") == _key(SYSTEM, USER, prompt_cache_key="k")
    assert _key(USER, prompt_cache_key="k") != _key(USER, session="k")


@pytest.mark.parametrize("value", [None, "", 7, {"a": 1}])
def test_a_cache_key_that_is_none_does_not_count(value: Any) -> None:
    """Only a string that says something is a cache key."""
    assert _key(USER, prompt_cache_key=value) == _key(USER)
    assert _key(USER, session="") == _key(USER)


def test_without_a_user_the_first_message_tells() -> None:
    """A conversation that no user began is known by its first message, however many follow."""
    assert _key(SYSTEM) == _key(SYSTEM, REPLY) == _key(SYSTEM, *[REPLY] * 1000, USER)
    assert _key(SYSTEM) != _key(REPLY)
    assert _key(*[REPLY] * (MAX_PREFIX_MESSAGES - 1), USER) != _key(REPLY)


def test_a_long_head_is_known_by_its_beginning() -> None:
    """Of a head that is very long the first part tells, whatever follows."""
    long = "x" * MAX_PREFIX_BYTES
    assert _key({"role": "user", "content": long + "a"}) == _key({"role": "user", "content": long + "b"}, REPLY)
    assert _key({"role": "user", "content": "a" + long}) != _key({"role": "user", "content": "b" + long})


def test_a_prompt_is_known_by_its_beginning() -> None:
    """Completions whose prompts begin alike share a key; a prompt that is no string has none."""

    def key(prompt: Any) -> int | None:
        return compute_key(None, json.dumps({"model": "m", "prompt": prompt}).encode())

    assert key("x" * PROMPT_BYTES + "a") == key("x" * PROMPT_BYTES + "b")
    assert key("a") != key("b")
    assert key(["a"]) is key([1, 2]) is key(None) is None


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\xff\xfe",
        b"[]",
        b"7",
        b"{}",
        b'{"messages": [',
        b'{"messages": {"role": "user"}}',
        b'{"messages": "user"}',
        b'{"messages": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
        b'{"model": "m"} {"model": "m"}',
    ],
)
def test_a_body_that_tells_nothing_has_no_key(body: bytes) -> None:
    """What cannot be read, or holds neither messages nor a prompt, has no key and raises nothing."""
    assert compute_key(None, body) is None
    assert compute_key("s", body) is not None


@pytest.mark.parametrize(
    "messages",
    [
        b"[]",
        b"[ ]",
        b"[1]",
        b"[null, true]",
        b'[{"role": 7}]',
        b'[{"role": "\\ud800"}]',
        b'[{"role": "user", "role": "user"}]',
        b"[" + b"{}," * 100_000 + b"{}]",
        b'[{"content": ' + b"[" * 500 + b"]" * 500 + b"}]",
        b'["' + b"\\\\" * MAX_PREFIX_BYTES + b'"]',
    ],
)
def test_odd_messages_raise_nothing(messages: bytes) -> None:
    """Messages that no engine would take still have a key, the same each time."""
    body = b'{"messages": ' + messages + b"}"
    assert compute_key(None, body) == compute_key(None, body)


@settings(deadline=None)
@given(st.binary())
def test_no_bytes_raise(body: bytes) -> None:
    """Whatever the bytes are, there is a key or none."""
    compute_key(None, body)
    compute_key(None, b'{"messages": [' + body + b"]}")
