"""The straight line of an inference request: read, parse, decide, edit, pick an engine, send, relay."""

import logging
from typing import Any, NamedTuple

import flask

from router.artifact import Artifact
from router.contract.decision import Refusal, decide
from router.contract.errors import ApiError
from router.engines.connection import UNREACHABLE, Answer, Connections
from router.engines.fleet import Fleet
from router.engines.probing import Prober
from router.headers import for_engine
from router.intake import read_body
from router.relay import AnswerEdits, relay
from router.settings import Settings

_LOG = logging.getLogger("router")


class Gateway(NamedTuple):
    """What the line works with: the settings, the artifact in force and the engines."""

    settings: Settings
    artifact: Artifact
    fleet: Fleet
    connections: Connections
    prober: Prober


def chat(gateway: Gateway, environ: dict[str, Any], route: str, request_id: str) -> flask.Response:
    """Answer a chat completion request, which is under the whole contract. Raises ApiError where it refuses."""
    contract = gateway.artifact.contract
    body = read_body(environ, contract.limits.max_body_bytes, gateway.settings.body_seconds)
    decision = decide(body, contract, gateway.fleet.served_ids())
    if isinstance(decision, Refusal):
        raise decision.error
    edits = AnswerEdits(decision.answer_as, contract.errors.bad_request_type)
    headers = for_engine(environ, request_id, gateway.settings.engine_api_key)
    if edits.due():
        # What may have to be edited should not come compressed.
        headers["Accept-Encoding"] = "identity"
    answer = _send(gateway, gateway.fleet.pick(decision.model_served), route, headers, decision.body)
    return relay(answer, edits)


def pass_through(gateway: Gateway, environ: dict[str, Any], route: str, request_id: str) -> flask.Response:
    """Answer a request on a route where only the body limit holds. Raises ApiError where it refuses."""
    body = read_body(environ, gateway.artifact.contract.limits.max_body_bytes, gateway.settings.body_seconds)
    headers = for_engine(environ, request_id, gateway.settings.engine_api_key)
    answer = _send(gateway, gateway.fleet.pick(None), route, headers, body)
    return relay(answer, AnswerEdits())


def _send(gateway: Gateway, engine: str, route: str, headers: dict[str, str], body: bytes) -> Answer:
    try:
        answer = gateway.connections.post(engine + route, headers, body)
    except ApiError as error:
        if not error.may_have_run:
            # No connection came about; a connection that broke proves nothing against the engine.
            _LOG.warning("engine %s is taken out until a probe succeeds: %s", engine, error.code)
            gateway.fleet.note_unreachable(engine)
        gateway.prober.look_now(engine)
        raise
    if answer.status in (401, 403) and gateway.settings.engine_api_key is not None:
        answer.close()
        _LOG.error("engine %s refused the key in ROUTER_ENGINE_API_KEY with %d", engine, answer.status)
        raise ApiError("upstream_unreachable", UNREACHABLE)
    return answer
