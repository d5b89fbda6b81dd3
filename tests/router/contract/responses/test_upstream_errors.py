"""An engine's 400 told anew: in which bodies its text is found, and what is left alone."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from router.contract.responses.upstream_errors import is_budget_overflow, map_upstream_error
from router.contract.schema.sections import Errors
from router.contract.schema.types import ErrorText

BODY = {
    "msg": "{message}",
    "at": "{param}",
    "type": "{type}",
    "code": "{code}",
    "model": "{model}",
    "id": "{request_id}",
}
ERRORS = Errors(
    body=BODY, codes={"bad_request": ErrorText(code=7)}, engine_400=ErrorText(type="t", message="<{message}>")
)


def _told(body, errors=ERRORS):
    told = map_upstream_error(body, errors, "id", "served")
    return None if told is None else (told.status, json.loads(told.body))


@pytest.mark.parametrize(
    ("body", "text", "param"),
    [
        ('{"error":{"message":"m","param":"p","type":"x","code":9}}', "m", "p"),
        ('{"error":{"message":"m","param":7}}', "m", None),
        ('{"error":"m","param":"p"}', "m", "p"),
        ('{"object":"error","message":"m","param":null}', "m", None),
        ('{"message":"m"}', "m", None),
        ('{"detail":"m"}', "m", None),
        ('{"detail":[{"loc":["body"],"msg":"m"},{"msg":"n"}]}', "m", None),
        ('{"error":{"detail":"m"}}', "m", None),
        ('{"error":{"message":"","detail":"m"}}', "m", None),
        ('{"message":"m","nan":NaN,"big":1e999}', "m", None),
        ('\ufeff{"message":"m"}', "m", None),
        ('{"message":"{param}"}', "{param}", None),
    ],
)
def test_the_text_of_an_engine_is_found(body, text, param):
    """Nested, flat and FastAPI's, with the field that the engine names; its own words replace the others."""
    told = {"msg": f"<{text}>", "at": param, "type": "t", "code": 7, "model": "served", "id": "id"}
    assert _told(body.encode()) == (400, told)


@pytest.mark.parametrize(
    "body",
    [
        *("", "x", "[]", '"m"', "7", "null", "{}", '{"message":7}', '{"message":["m"]}', '{"detail":[]}'),
        *('{"detail":["m"]}', '{"detail":[{"msg":7}]}', '{"error":{}}', '{"error":null}', '{"message":"m"'),
        '{"message":' * 9000,
    ],
)
def test_what_has_no_text_is_left_alone(body):
    """Anything else passes as it came."""
    assert _told(body.encode()) is None


def test_the_type_of_400s_and_the_status_of_words_hold():
    """The contract's type for 400s wins here too, and words may have another status."""
    errors = Errors(body=BODY, bad_request_type="w", engine_400=ErrorText(type="t"))
    assert _told(b'{"error":"m"}', errors)[1]["type"] == "w"
    assert _told(b'{"error":"m"}', Errors(engine_400=ErrorText(status=422)))[0] == 422


@given(st.binary() | st.text().map(lambda text: json.dumps({"message": text}).encode()))
def test_whatever_an_engine_answers_is_told_or_left_alone(body):
    """No bytes break it, and what is told is JSON."""
    told = map_upstream_error(body, ERRORS, "id")
    assert told is None or isinstance(json.loads(told.body), dict)


OVERFLOWS = {
    "vLLM 0.32": "max_completion_tokens=9 cannot be greater than max_model_len=8. Please request fewer output tokens.",
    "vLLM 0.10": "'max_tokens' or 'max_completion_tokens' is too large: 9. This model's maximum context",
    "vLLM 0.15": "This model's maximum context length is 8 tokens. However, you requested 9 output tokens and",
    "vLLM 0.8": "This model's maximum context length is 8 tokens. However, you requested 19 tokens (10 in the",
    "SGLang": "max_completion_tokens is too large: 9.This model supports at most 8 completion tokens.",
    "SGLang, both": "Requested token count exceeds the model's maximum context length of 8 tokens. You requested",
}
OTHERS = {
    "vLLM's prompt": "This model's maximum context length is 8 tokens. However, your prompt contains 9 input tokens, "
    "which exceeds this limit even without any output tokens.",
    "llama.cpp's prompt": "the request exceeds the available context size (8 tokens), try increasing it",
    "vLLM's min_tokens": "min_tokens must be less than or equal to max_tokens=8, got 9.",
    "no text": "",
}


@pytest.mark.parametrize("shape", ['{"error":{"message":%s}}', '{"object":"error","message":%s}', '{"detail":%s}'])
def test_a_rejected_budget_is_told_from_other_errors(shape):
    """What engines say of a budget that exceeds their context is known in each shape, and nothing else is."""
    for texts, expected in ((OVERFLOWS, True), (OTHERS, False)):
        for name, text in texts.items():
            assert is_budget_overflow((shape % json.dumps(text)).encode()) is expected, name


@given(st.binary())
def test_any_400_may_be_looked_at(body):
    """Whatever an engine sends is no reason to fail."""
    assert not is_budget_overflow(body)
