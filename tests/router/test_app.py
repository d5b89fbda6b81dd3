"""The app where nothing outside can make it fail: unexpected exceptions."""

import logging
from collections.abc import Callable
from typing import Any

import flask
import pytest

from router.app import create_app, open_gateway
from router.artifact import freeze
from router.contract.model import Contract, Errors
from router.engines.fleet import Report
from router.line import Gateway
from router.settings import Settings

ENGINE = "http://127.0.0.1:1"


class _Broken:
    def __getattr__(self, name: str) -> Callable[..., Any]:
        raise RuntimeError("a secret of the machine")


@pytest.fixture
def app() -> flask.Flask:
    """An app whose connections to engines fail as nobody foresaw."""
    artifact = freeze("under-test", Contract(errors=Errors(bad_request_type="vendor_error")), ())
    gateway: Any = open_gateway(Settings(engines=(ENGINE,), model_id=("served",), probe_seconds=600.0), artifact)
    gateway.fleet.learn(ENGINE, Report(healthy=True))
    gateway.prober.start = lambda: None
    return create_app(Gateway(*gateway[:3], connections=_Broken(), dispatcher=_Broken(), prober=gateway.prober))


def test_an_unexpected_exception_is_a_plain_500(app: flask.Flask, caplog: pytest.LogCaptureFixture) -> None:
    """What nobody foresaw is an error in the one shape, told to the log and not to the client."""
    with caplog.at_level(logging.ERROR, "router"):
        answer = app.test_client().post("/v1/chat/completions", data=b'{"model":"served"}')
    assert answer.status_code == 500
    assert answer.headers["x-router-error-code"] == "internal_error"
    assert answer.headers["x-request-id"] in caplog.text
    assert "a secret of the machine" in caplog.text
    assert answer.get_json() == {
        "error": {
            "message": "The router failed to handle this request",
            "type": "server_error",
            "param": None,
            "code": "internal_error",
        }
    }
