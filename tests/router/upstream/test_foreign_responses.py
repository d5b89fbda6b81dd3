"""Answers that belong to another request, as far as their ids tell."""

import pytest

from router.upstream.foreign_responses import MAX_ENGINES, MAX_IDS, PREFIX_BYTES, SentRequestIds

OWN = "0123456789abcdef01234567"
OTHER = "client-chosen/id"


def _sent(*, derives: bool = True) -> SentRequestIds:
    """Return what is known of an engine that was sent two requests, and derives ids from theirs."""
    sent = SentRequestIds()
    sent.add("engine", OTHER)
    sent.add("engine", OWN)
    if derives:
        assert not sent.is_foreign("engine", OWN, b'{"id":"chatcmpl-%s","object":"x"' % OWN.encode())
    return sent


def _begins(answer_id: str) -> bytes:
    return b'{"id":"%s","object":"chat.completion"}' % answer_id.encode()


@pytest.mark.parametrize(
    ("beginning", "is_foreign"),
    [
        (_begins(f"chatcmpl-{OTHER}"), True),
        (_begins(f"cmpl-{OTHER}"), True),
        (b"data: " + _begins(f"chatcmpl-{OTHER}"), True),
        (b' {\n "id" : "embd-%s"' % OTHER.encode(), True),
        (_begins(f"chatcmpl-{OWN}"), False),
        (_begins("chatcmpl-unknown"), False),
        (_begins(OTHER), False),
        (_begins(f"chatcmpl-{OTHER}-0"), False),
        (b'{"object":"x","id":"chatcmpl-%s"' % OTHER.encode(), False),
        (b'{"choices":[{"text":"{\\"id\\":\\"chatcmpl-%s\\"' % OTHER.encode(), False),
        (b'{"id":"chatcmpl-%s' % OTHER.encode(), False),
        (b" " * PREFIX_BYTES + _begins(f"chatcmpl-{OTHER}"), False),
        (b"", False),
    ],
)
def test_an_id_that_another_request_was_sent_with_is_foreign(beginning: bytes, is_foreign: bool) -> None:
    """Only the whole id, behind a prefix, as the first member of the answer counts."""
    assert _sent().is_foreign("engine", OWN, beginning) is is_foreign


def test_an_engine_has_to_show_first_that_it_derives_ids() -> None:
    """Until an answer carried an id that the router made, and for other engines, nothing is foreign."""
    sent = _sent(derives=False)
    assert not sent.is_foreign("engine", OWN, _begins(f"chatcmpl-{OTHER}"))
    assert not sent.is_foreign("engine", OTHER, _begins(f"chatcmpl-{OTHER}"))
    assert not sent.is_foreign("engine", OWN, _begins(f"chatcmpl-{OTHER}"))
    assert not _sent().is_foreign("another", OWN, _begins(f"chatcmpl-{OTHER}"))


def test_what_is_remembered_is_bounded() -> None:
    """Of an engine the latest ids are known, and of very many engines those since there were too many."""
    sent = _sent()
    for number in range(MAX_IDS - 1):
        sent.add("engine", str(number))
    assert not sent.is_foreign("engine", "x", _begins(f"chatcmpl-{OTHER}"))
    assert sent.is_foreign("engine", "x", _begins(f"chatcmpl-{OWN}"))
    for number in range(MAX_ENGINES):
        sent.add(f"engine {number}", OWN)
    assert not sent.is_foreign("engine", "x", _begins(f"chatcmpl-{OWN}"))
