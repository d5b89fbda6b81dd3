"""An endpoint in this process: the router's decision on a contract and an engine that agrees to everything."""

import json
from functools import partial

from compiler.verify.assertion import EVENT_STREAM, EndpointResponse
from compiler.verify.check import ChatRequest
from compiler.verify.generation.requests import ENGINE_ANSWERS
from router.contract.decide import Forward, Rejection, ServedIds, decide
from router.contract.errors import build_error_response
from router.contract.responses.rewrite import rename_model, retype_bad_request
from router.contract.responses.stream_rewrite import StreamRewriter
from router.contract.responses.upstream_errors import map_upstream_error
from router.contract.schema.model import Contract

_JSON = "application/json"
_USAGE = {"prompt_tokens": 3, "completion_tokens": 1, "total_tokens": 4}


class Endpoint:
    """Answers as the router does with a contract, in front of an engine that serves these models."""

    def __init__(self, contract: Contract, served: tuple[str, ...]) -> None:
        self._decide = partial(decide, contract=contract, served_ids=ServedIds(served))

    def response(self, request: ChatRequest) -> EndpointResponse:
        """Return what comes back to a request, and what the engine got."""
        decision = self._decide(request.body())
        if isinstance(decision, Rejection):
            told = build_error_response(decision.error, decision.errors, request.request_id())
            return EndpointResponse(told.status, _JSON, told.body, None, is_captured=True)
        if request.engine is not None:
            return _rejected_by_engine(request, decision)
        kind, body = _streamed(decision) if decision.stream else _whole(decision)
        return EndpointResponse(200, kind, body, decision.body, is_captured=True)


def _rejected_by_engine(request: ChatRequest, decision: Forward) -> EndpointResponse:
    body = json.dumps(ENGINE_ANSWERS[request.engine or ""]).encode()
    told = (
        map_upstream_error(body, decision.errors, request.request_id())
        if decision.errors.engine_400 is not None
        else None
    )
    if told is not None:
        return EndpointResponse(told.status, _JSON, told.body, decision.body, is_captured=True)
    if decision.errors.bad_request_type is not None:
        body = retype_bad_request(body, decision.errors.bad_request_type)
    return EndpointResponse(400, _JSON, body, decision.body, is_captured=True)


def _whole(decision: Forward) -> tuple[str, bytes]:
    choice = {"index": 0, "message": {"role": "assistant", "content": "OK."}, "finish_reason": "stop"}
    body = json.dumps({"model": decision.model_served, "choices": [choice], "usage": _USAGE}).encode()
    return _JSON, body if decision.respond_as is None else rename_model(body, decision.respond_as)


def _streamed(decision: Forward) -> tuple[str, bytes]:
    frames = [
        {"model": decision.model_served, "choices": [{"index": 0, "delta": {"content": "OK."}, "finish_reason": None}]},
        {"model": decision.model_served, "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]},
    ]
    options = json.loads(decision.body).get("stream_options")
    if isinstance(options, dict) and options.get("include_usage"):
        frames.append({"model": decision.model_served, "choices": [], "usage": _USAGE})
    stream = b"".join(b"data: " + json.dumps(frame).encode() + b"\n\n" for frame in frames) + b"data: [DONE]\n\n"
    if decision.respond_as is None and decision.usage is None:
        return EVENT_STREAM, stream
    editor = StreamRewriter(decision.respond_as, decision.usage)
    return EVENT_STREAM, editor.feed(stream) + editor.flush()
