"""What is asked of an engine about usage, and what the client then gets of it."""

import pytest

from router.contract.jsonbytes.parsing import parse
from router.contract.responses.stream_usage import RULE, ask
from router.contract.rules.evaluation import EvaluationContext
from router.contract.schema.sections import Stream

ABSENT = ['"x":1', '"stream_options":null', '"stream_options":{}', '"stream_options":{"include_usage":null}']


def _ask(members, usage, *, streamed=True):
    context = EvaluationContext(parse(f"{{{members}}}".encode()), [])
    return ask(context, Stream(usage), streamed=streamed), [
        (edit.rule, edit.field, edit.value) for edit in context.edits
    ]


@pytest.mark.parametrize("members", ABSENT)
@pytest.mark.parametrize(("usage", "done"), [("as_asked", None), ("end_frame", "move"), ("tail_frame", None)])
def test_usage_is_asked_for_where_the_client_says_nothing(members, usage, done):
    """Unless it comes as asked, the engine is asked; the end frame gets it moved."""
    asked = [] if usage == "as_asked" else [(RULE, "stream_options.include_usage", b"true")]
    assert _ask(members, usage) == (done, asked)
    assert _ask(members, usage, streamed=False) == (None, [])


@pytest.mark.parametrize(("usage", "done"), [("as_asked", None), ("end_frame", "copy"), ("tail_frame", None)])
def test_usage_that_the_client_asks_for_stays(usage, done):
    """The client keeps the tail frame that it asked for; nothing has to be edited."""
    assert _ask('"stream_options":{"include_usage":true}', usage) == (done, [])


@pytest.mark.parametrize("value", ["false", "0", "1", '"true"', "[]", "{}"])
@pytest.mark.parametrize("usage", ["as_asked", "end_frame", "tail_frame"])
def test_anything_else_goes_as_sent(value, usage):
    """A client that declines usage, or asks for it oddly, gets what the engine makes of it."""
    assert _ask(f'"stream_options":{{"include_usage":{value}}}', usage) == (None, [])
