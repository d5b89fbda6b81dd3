"""The shape of every error that the router answers."""

import json

import pytest

from router.contract.errors import STATUS_OF, ApiError, answer, body_of
from router.contract.sections import Errors

TABLE = {
    "bad_request": 400,
    "sampling_contract_violation": 400,
    "contract_violation": 400,
    "unknown_field": 400,
    "too_many_images": 400,
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
    "upstream_timeout": 504,
}


def test_the_codes_are_those_of_the_table():
    """No code is missing and none is added unseen."""
    assert STATUS_OF == TABLE


@pytest.mark.parametrize("param", [None, "temperature"])
@pytest.mark.parametrize("code", TABLE)
def test_every_error_has_the_same_shape(code, param):
    """All four keys always, the type by the kind of status, the code in a header, JSON."""
    sent = answer(ApiError(code, 'why: "é\n"', param))
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
    kind = json.loads(answer(error, Errors("vendor_error")).body)["error"]["type"]
    assert (kind == "vendor_error") == (TABLE[code] == 400)
    assert json.loads(body_of(error)) == json.loads(answer(error).body)


def test_clients_are_told_not_to_repeat_what_may_have_run():
    """Once an engine may have begun to work the answer says that it should not be asked again."""
    sent = answer(ApiError("upstream_incomplete", "why", may_have_run=True))
    assert dict(sent.headers)["x-should-retry"] == "false"


def test_retry_after_is_a_number_of_seconds():
    """`Retry-After` carries whole seconds, at least one."""
    assert int(dict(answer(ApiError("overloaded", "why")).headers)["Retry-After"]) >= 1
