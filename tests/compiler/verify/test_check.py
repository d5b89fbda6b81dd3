"""Requests and expectations as values."""

import json

import pytest

from compiler.verify.check import (
    ANY_TEXT,
    ChatRequest,
    Check,
    CheckSuite,
    ExpectedRejection,
    SkippedCheck,
    TextPattern,
    run_of_letters,
)


def test_a_request_is_sent_as_it_is_written() -> None:
    """Members keep their order and their own spelling, repetitions included."""
    request = ChatRequest((("model", '"m"'), ("n", "1e0"), ("n", "2")))
    assert request.body() == b'{"model": "m", "n": 1e0, "n": 2}'
    assert request.fields() == {"model": "m", "n": 2}


def test_a_request_may_be_made_up_to_a_length() -> None:
    """Blanks behind the object make up the size, and it stays the same object."""
    request = ChatRequest.of({"model": "m"})._replace(length=100)
    assert (len(request.body()), request.size()) == (100, 100)
    assert json.loads(request.body()) == {"model": "m"}


def test_letters_are_written_out_when_they_are_sent() -> None:
    """A run of letters takes no room before it is sent, and its size is known."""
    request = ChatRequest.of({"url": f"data:{run_of_letters(5000)}"})
    assert json.loads(request.body())["url"] == "data:" + "A" * 5000
    assert request.size() == len(request.body())


def test_equal_requests_have_one_key() -> None:
    """What is sent decides the key, and nothing else does."""
    assert ChatRequest.of({"a": 1}).key() == ChatRequest((("a", "1"),)).key()
    assert ChatRequest.of({"a": 1}).key() != ChatRequest.of({"a": 2}).key()


@pytest.mark.parametrize(
    ("pieces", "text", "holds"),
    [
        (("a", "c"), "abc", True),
        (("a", "c"), "ac", True),
        (("a", "c"), "a", False),
        (("ab", "b"), "ab", False),
        (("a", "b", "c"), "a-b-c", True),
        (("a", "b", "c"), "a-c", False),
        (("whole",), "whole", True),
        (("whole",), "whole ", False),
    ],
)
def test_a_text_holds_its_pieces_in_order(pieces: tuple[str, ...], text: str, holds: bool) -> None:
    """Between the pieces of an expected text may stand anything, around them nothing."""
    assert TextPattern(pieces).holds(text) is holds


def test_any_text_is_a_text() -> None:
    """Where any text is expected, a number or an object is none."""
    assert ANY_TEXT.holds("")
    assert not ANY_TEXT.holds(1)
    assert not ANY_TEXT.holds({})


def test_only_some_rules_are_kept() -> None:
    """Of what was derived, the checks and the gaps of some rules can be kept."""
    check = Check("i", "a", None, "m", "s", ChatRequest(()), ExpectedRejection("a", 400, {}, exact=False))
    suite = CheckSuite(
        (check, check._replace(rule="b")), (SkippedCheck("a", None, "s", "r"), SkippedCheck("b", None, "s", "r"))
    )
    kept = suite.only(["b"])
    assert [each.rule for each in (*kept.checks, *kept.skipped)] == ["b", "b"]
