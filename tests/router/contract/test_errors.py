"""The shape of every error that the router answers."""

import json

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from router.artifact.format import freeze, load, serialise
from router.contract.decide import Rejection, ServedIds, decide
from router.contract.errors import STATUS_OF, ApiError, build_error_response
from router.contract.schema.model import Contract
from router.contract.schema.named_checks import Roles, ToolChoice
from router.contract.schema.sections import Errors, Field, Limits, MaxTokens, Output, Sampling, UnknownFields
from router.contract.schema.types import ErrorText
from tests.batches import batched
from tests.router.contract.evaluated import cases, check

TABLE = {
    "bad_request": 400,
    "sampling_contract_violation": 400,
    "contract_violation": 400,
    "unknown_field": 400,
    "too_many_images": 400,
    "too_many_videos": 400,
    "too_many_audios": 400,
    "too_many_files": 400,
    "max_tokens_exceeded": 400,
    "invalid_api_key": 401,
    "model_not_found": 404,
    "not_found": 404,
    "method_not_allowed": 405,
    "request_too_large": 413,
    "uri_too_long": 414,
    "unsupported_media_type": 415,
    "expectation_failed": 417,
    "headers_too_large": 431,
    "internal_error": 500,
    "upstream_unreachable": 502,
    "upstream_incomplete": 502,
    "no_healthy_engines": 503,
    "overloaded": 503,
    "shutting_down": 503,
    "upstream_timeout": 504,
    "http_version_not_supported": 505,
}


def test_the_codes_are_those_of_the_table():
    """No code is missing and none is added unseen."""
    assert STATUS_OF == TABLE


@batched("param", [None, "temperature"])
@batched("code", TABLE)
def test_every_error_has_the_same_shape(code, param):
    """All four keys always, the type by the kind of status, the code in a header, JSON."""
    sent = build_error_response(ApiError(code, 'why: "é\n"', param))
    expected_type = "server_error" if TABLE[code] >= 500 else "invalid_request_error"
    assert sent.status == TABLE[code]
    assert json.loads(sent.body) == {
        "error": {"message": 'why: "é\n"', "type": expected_type, "param": param, "code": code}
    }
    headers = dict(sent.headers)
    assert len(headers) == len(sent.headers)
    assert headers["Content-Type"] == "application/json"
    assert headers["x-router-error-code"] == code
    assert ("Retry-After" in headers) == (code in {"no_healthy_engines", "overloaded"})
    assert "x-should-retry" not in headers


@pytest.mark.parametrize("code", TABLE)
def test_only_400s_are_retyped(code):
    """The contract's type stands in every 400 and in nothing else."""
    error = ApiError(code, "why")
    kind = json.loads(build_error_response(error, Errors("vendor_error")).body)["error"]["type"]
    assert (kind == "vendor_error") == (TABLE[code] == 400)


def test_clients_are_told_not_to_repeat_what_may_have_run():
    """Once an engine may have begun to work the answer says that it should not be asked again."""
    sent = build_error_response(ApiError("upstream_incomplete", "why", may_have_run=True))
    assert dict(sent.headers)["x-should-retry"] == "false"


def test_retry_after_is_a_number_of_seconds():
    """`Retry-After` carries whole seconds, at least one."""
    assert int(dict(build_error_response(ApiError("overloaded", "why")).headers)["Retry-After"]) >= 1


@pytest.mark.parametrize("case", cases("errors"))
def test_the_case_holds(case):
    """A refusal is told in the words and the envelope that the contract has for it."""
    check(case)


ENVELOPES = {
    "own": None,
    "flat": {"code": "{code}", "msg": "{message}", "v": "{value}", "n": "{null}"},
    "nested": {"error": {"message": "{message} {value}", "list": ["{param}", {"x": "{request_id}"}]}},
    "constant": {"success": False, "data": 1.5, "at": {"min": "{min}", "max": "{max}", "count": "{count}"}},
    "braces": {"{{": "{{{value}}}", "x": "{{}}{models}{index}{expected}{allowed}"},
}
ALL = Contract(
    checks={"tool_choice": ToolChoice(allowed=("auto",)), "roles": Roles(allowed=("user",))},
    fields={
        "temperature": Field(min=0, below=1),
        "o.x": Field(allowed=(1, "x"), error=ErrorText(message="{value}|{param}|{min}")),
        "stop": Field(max_items=1, max_bytes=3, error=ErrorText(body={"v": "{value}"})),
    },
    limits=Limits(max_images=0),
    output=Output(MaxTokens(cap=9, default=None)),
    sampling=Sampling(params={"top_p": 0.5}),
    unknown_fields=UnknownFields(policy="reject", error=ErrorText(message="{value} {param}")),
)
TEXTS = st.text(max_size=5) | st.sampled_from(["{value}", "\ud800", "\x00", "{", "x" * 300])
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=2),
    max_leaves=6,
)
NAMES = st.sampled_from(
    ["temperature", "top_p", "stop", "tool_choice", "max_tokens", "messages", "o", "stream", "model"]
)
MEMBERS = st.dictionaries(
    NAMES | TEXTS, VALUES | st.builds(lambda value: {"x": value}, VALUES) | st.builds(lambda value: [value], VALUES)
)


@given(MEMBERS | VALUES, st.sampled_from(sorted(ENVELOPES)), st.booleans())
def test_every_refusal_is_valid_json_in_every_envelope(value, envelope, omit_null):
    """Whatever a client sends: what it is told is JSON, the status one of a client's mistakes, and nothing breaks."""
    members = {"model": "served", **value} if isinstance(value, dict) else value
    contract = replace(ALL, errors=Errors(body=ENVELOPES[envelope], omit_null=omit_null))
    decision = decide(json.dumps(members).encode(), contract, ServedIds(("served",)))
    if isinstance(decision, Rejection):
        sent = build_error_response(decision.error, decision.errors, "id")
        assert 400 <= sent.status < 500
        assert isinstance(orjson.loads(sent.body), dict)
        assert len(sent.body) < 4000


def test_lone_surrogates_of_engines_are_told():
    """What an engine wrote and is no UTF-8 becomes something that is."""
    assert b'"?"' in build_error_response(ApiError("bad_request", "\ud800")).body


def test_members_of_an_error_have_the_order_of_the_envelope():
    """A client reads the members of an error in the order of the template, also from a loaded artifact."""
    envelope = {"type": "error", "error": {"message": "{message}", "code": "{code}"}, "id": "{request_id}"}
    frozen = freeze("ordered", Contract(errors=Errors(body=envelope)), ())
    errors = load(serialise(frozen), "profile.json").contract.errors
    body = build_error_response(ApiError("bad_request", "no"), errors, "1").body
    assert body == b'{"type": "error", "error": {"message": "no", "code": "bad_request"}, "id": "1"}'
    reordered = Contract(errors=Errors(body=dict(reversed(envelope.items()))))
    assert freeze("ordered", reordered, ()).digest != frozen.digest
