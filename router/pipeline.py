"""The pipeline of an inference request: read, parse, decide, edit, choose an engine, send, forward the response."""

import time
from typing import Final, NamedTuple

from router.admission import admit
from router.artifact.format import Artifact
from router.auth import ApiKeys
from router.contract.decide import BODY_SIZE, Rejection, decide
from router.contract.errors import ApiError
from router.contract.responses.rewrite_plan import ResponseRewrite
from router.contract.routing import route_by_model
from router.discovery.discovery import Discovery
from router.request.context import RequestContext
from router.request.headers import for_engine
from router.request.request import Request
from router.response import ProxyResponse, ResponseForwarding, forward_response, forward_whole
from router.runtime import cpu_executor
from router.runtime.semaphore import SharedSemaphore
from router.settings.declarations import Settings
from router.telemetry.meter import MetricsRegistry
from router.telemetry.spans import Tracer
from router.upstream.balancer import LoadBalancer
from router.upstream.client import HttpClient
from router.upstream.context_length import ContextLimits
from router.upstream.forward import Forwarder, UpstreamRequest
from router.upstream.registry import EngineRegistry
from router.upstream.whole_response import WholeResponse

_UNCOMPRESSED: Final = ("", "identity")


class Services(NamedTuple):
    """Everything that requests need: the settings, the active artifact, the engines and the telemetry."""

    settings: Settings
    artifact: Artifact
    registry: EngineRegistry
    http_client: HttpClient
    load_balancer: LoadBalancer
    forwarder: Forwarder
    discovery: Discovery
    in_flight: SharedSemaphore
    context_limits: ContextLimits
    api_keys: ApiKeys
    meter: MetricsRegistry | None = None
    tracer: Tracer | None = None


def chat(services: Services, request: Request, route: str, context: RequestContext) -> ProxyResponse:
    """Serve a chat completion request, to which the whole contract applies.

    Raises ApiError if it is rejected, ClientDisconnectedError if the client has left.
    """
    contract = services.artifact.contract
    body = _read_body(services, request, context)
    served = services.registry.served_ids()
    if len(body) <= cpu_executor.INLINE_BYTES:
        decision = decide(body, contract, served)
    else:
        decision = cpu_executor.run(len(body), decide, body, contract, served)
    context.model_asked = decision.model_asked
    if decision.is_default_model:
        context.is_default_model = True
    if decision.violations:
        context.violations = decision.violations
    case = decision.case_selection.case
    if case is not None:
        context.case = case.name
    context.errors = decision.errors
    if isinstance(decision, Rejection):
        context.rule = decision.rule
        try:
            raise decision.error
        finally:
            # The error refers to this frame; if the frame referred to the error, both would stay in memory.
            del decision
    context.model_served = decision.model_served
    context.stream = decision.stream
    context.tokens = decision.tokens
    edits = ResponseRewrite(decision.respond_as, decision.errors, decision.usage)
    headers = _upstream_headers(services, request, context, edits)
    key = _affinity_key(services, request, decision.body)
    upstream = UpstreamRequest(route, headers, decision.body, decision.model_served, key, decision.tokens)
    return _forward(services, request, context, upstream, edits)


def pass_through(services: Services, request: Request, route: str, context: RequestContext) -> ProxyResponse:
    """Serve a request on a route to which only the body limit and the model list apply.

    Raises ApiError if it is rejected, ClientDisconnectedError if the client has left.
    """
    contract = services.artifact.contract
    body = _read_body(services, request, context)
    routed = cpu_executor.run(len(body), route_by_model, body, contract, services.registry.served_ids())
    context.model_asked = routed.model_asked
    if routed.is_default_model:
        context.is_default_model = True
    if isinstance(routed, Rejection):
        context.rule = routed.rule
        try:
            raise routed.error
        finally:
            # As above.
            del routed
    context.model_served = routed.model_served
    edits = ResponseRewrite(routed.respond_as)
    headers = _upstream_headers(services, request, context, edits)
    key = _affinity_key(services, request, routed.body)
    upstream = UpstreamRequest(route, headers, routed.body, routed.model_served, key)
    return _forward(services, request, context, upstream, edits)


def _upstream_headers(
    services: Services, request: Request, context: RequestContext, edits: ResponseRewrite
) -> dict[str, str]:
    headers = for_engine(request.by_name(), context.request_id, services.settings.engine_api_key)
    if edits.is_needed():
        # A response that may be rewritten should not be compressed.
        headers["Accept-Encoding"] = "identity"
    return headers


def _read_body(services: Services, request: Request, context: RequestContext) -> bytes:
    limit = services.artifact.contract.limits.max_body_bytes
    begun = time.monotonic()
    try:
        _reject_compressed(request)
        body = request.body.read(limit, services.settings.client_body_timeout_seconds)
    except ApiError as error:
        if error.code == "request_too_large":
            context.rule = BODY_SIZE
        raise
    context.body_read_seconds = time.monotonic() - begun
    context.bytes_in = len(body)
    # Only now: a client that sends slowly must not hold a slot.
    admit(services.in_flight, context)
    return body


def _reject_compressed(request: Request) -> None:
    by_name = request.by_name()
    if "content-encoding" not in by_name and "transfer-encoding" not in by_name:
        return
    coding = by_name.get("content-encoding", "").strip().lower()
    transfer = by_name.get("transfer-encoding", "chunked").strip().lower()
    if coding not in _UNCOMPRESSED or transfer != "chunked":
        raise ApiError("unsupported_media_type", "Compressed request bodies are not accepted; send the body as it is")


def _affinity_key(services: Services, request: Request, body: bytes) -> int | None:
    if not services.load_balancer.uses_key:
        return None
    return services.load_balancer.affinity_key(request.header(services.settings.session_header.lower()), body)


def _forward(
    services: Services,
    request: Request,
    context: RequestContext,
    upstream: UpstreamRequest,
    edits: ResponseRewrite,
) -> ProxyResponse:
    client = request.client
    answer = services.forwarder.send(upstream, client, context)
    own = services.settings
    client.set_send_timeout(own.client_send_timeout_seconds)
    if isinstance(answer, WholeResponse):
        return forward_whole(answer, edits, context, own.response_headers)
    return forward_response(
        ResponseForwarding(
            answer, edits, client, context, own.sse_keepalive_interval_seconds or None, own.response_headers
        )
    )
