"""The app where nothing outside can make it fail: unexpected exceptions."""

import logging
from collections.abc import Callable
from typing import Any

import pytest
from werkzeug.test import Client

from router.app import create_app, open_services
from router.artifact.format import freeze
from router.contract.schema.model import Contract
from router.contract.schema.sections import Errors
from router.middleware import Middleware
from router.runtime.semaphore import SharedSemaphore
from router.settings.declarations import Settings
from router.upstream.circuit_breaker import HealthState
from router.upstream.engine_state import HealthCheckResult

ENGINE = "http://127.0.0.1:1"


class _Broken:
    def __getattr__(self, name: str) -> Callable[..., Any]:
        raise RuntimeError("a secret of the machine")


@pytest.fixture
def client() -> Client:
    """A client of an app whose connections to engines fail as nobody foresaw."""
    artifact = freeze("under-test", Contract(errors=Errors(bad_request_type="vendor_error")), ())
    services: Any = open_services(
        Settings(engines=(ENGINE,), model_id=("served",), max_in_flight=2, access_log="off"), artifact
    )
    services.registry.record_health_check(ENGINE, HealthCheckResult(HealthState.HEALTHY, ({"id": "served"},)))
    services.discovery.start = lambda: None
    broken = services._replace(http_client=_Broken(), forwarder=_Broken(), in_flight=SharedSemaphore(2))
    return Client(Middleware(create_app(broken), broken))


def test_an_unexpected_exception_is_a_plain_500(client: Client, caplog: pytest.LogCaptureFixture) -> None:
    """What nobody foresaw is an error in the one shape, told to the log and not to the client."""
    with caplog.at_level(logging.ERROR, "router"):
        answer = client.post("/v1/chat/completions", data=b'{"model":"served"}')
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


def test_unexpected_exceptions_leave_no_request_in_flight(client: Client) -> None:
    """However often the unforeseen happens, the bound of requests in flight is not used up."""
    answers = [client.post("/v1/chat/completions", data=b'{"model":"served"}') for _ in range(10)]
    assert {answer.headers["x-router-error-code"] for answer in answers} == {"internal_error"}


def test_an_app_that_breaks_is_a_plain_500_too(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """An exception that even the app's own handlers let through gets the one shape, and is over like any other."""

    def broken(*_: Any) -> None:
        raise RuntimeError("a secret of the machine")

    monkeypatch.setattr(client.application, "_inference", broken)
    answers = [client.post("/v1/chat/completions", data=b"{}") for _ in range(10)]
    assert {answer.status_code for answer in answers} == {500}
    assert answers[-1].headers["x-request-id"]
    assert answers[-1].get_json()["error"]["code"] == "internal_error"
