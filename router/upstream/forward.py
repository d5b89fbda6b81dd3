"""Forwarding with failover: a request goes to another engine if the first certainly did not run it."""

import logging
import time
from functools import partial
from http import HTTPStatus
from typing import Final, NamedTuple

from router.balancing.in_flight import InFlightTable
from router.content_encoding import IDENTITY_CODINGS, DecodingError, decode
from router.contract.errors import ApiError
from router.contract.responses.upstream_errors import is_budget_overflow
from router.contract.rules.budget import Tokens, without_budget
from router.request.context import RequestContext
from router.request.outcome import Outcome, outcome_of
from router.request.request import ClientConnection
from router.runtime import cpu_executor
from router.settings.declarations import Settings
from router.upstream.balancer import LoadBalancer
from router.upstream.client import HttpClient
from router.upstream.context_length import ContextLimits
from router.upstream.errors import EngineError, reason_of
from router.upstream.foreign_responses import SentRequestIds
from router.upstream.poller import Poller
from router.upstream.registry import EngineRegistry
from router.upstream.response import UpstreamResponse
from router.upstream.retry import RetryBudget, backoff_seconds
from router.upstream.whole_response import WholeResponse

_RETRYABLE_STATUSES: Final = (HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE)
"""Statuses with which an engine says that it did not run the request."""
_AUTH_STATUSES: Final = (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN)
MAX_ERROR_BYTES: Final = 64 * 1024
"""How much of an engine's 400 is read to find its cause."""
_SUCCEEDED: Final = Outcome.SUCCEEDED  # reading a member of an enumeration takes longer than a call
_LOG = logging.getLogger("router")


def _is_unreachable(error: ApiError) -> bool:
    return isinstance(error, EngineError) and error.outcome is Outcome.UNREACHABLE


def _is_budget_rejection(response: UpstreamResponse) -> bool:
    """Return whether an engine's 400 is about the token limit, and leave the body unread."""
    try:
        body = response.peek(MAX_ERROR_BYTES)
    except BaseException:
        response.close()
        raise
    codings = response.header("Content-Encoding").strip().lower()
    try:
        plain = decode(body, codings, MAX_ERROR_BYTES) if codings not in IDENTITY_CODINGS else body
    except DecodingError:
        return False
    return is_budget_overflow(plain)


class UpstreamRequest(NamedTuple):
    """A request to an engine: route, headers, body, and the model that the engine has to list.

    `key` is the affinity key; None if there is none, or the policy uses none.
    `tokens` is the output budget, where the contract sets one.
    """

    route: str
    headers: dict[str, str]
    body: bytes
    model: str
    key: int | None = None
    tokens: Tokens | None = None

    def without_budget(self) -> "UpstreamRequest":
        """Return the request without the budget that the router has injected."""
        return self._replace(body=cpu_executor.run(len(self.body), without_budget, self.body), tokens=None)


class Forwarder:
    """Sends requests to engines, retries where that is safe, and counts what is in flight."""

    def __init__(  # noqa: PLR0913 - its collaborators
        self,
        settings: Settings,
        registry: EngineRegistry,
        http_client: HttpClient,
        load_balancer: LoadBalancer,
        in_flight_table: InFlightTable,
        *,
        context_limits: ContextLimits,
    ) -> None:
        self._settings = settings
        self._registry = registry
        self._http_client = http_client
        self._load_balancer = load_balancer
        self._in_flight_table = in_flight_table
        self._context_limits = context_limits
        self._retry_budget = RetryBudget()
        self._sent_ids = SentRequestIds()

    def send(
        self, request: UpstreamRequest, client: ClientConnection, context: RequestContext
    ) -> WholeResponse | UpstreamResponse:
        """Return an engine's response, whole or after reading its headers.

        Retries on another engine if no connection opened or the engine rejected the request with 429 or 503. Retries on
        the same engine if it had closed the reused connection, or without the injected budget if the engine rejected
        that. Raises EngineError, ApiError `no_healthy_engines`, and ClientDisconnectedError.
        """
        self._retry_budget.deposit()
        tried: list[str] = []
        refusal: UpstreamResponse | None = None
        try:
            while True:
                try:
                    engine = self._load_balancer.choose(request.model, request.key, tried)
                    tried.append(engine)
                    response = self._send_without_overflow(engine, request, client, context)
                    if isinstance(response, WholeResponse):
                        return response
                    reason = "refused"
                except ApiError as error:
                    if not _is_unreachable(error) or not self._may_retry(request.model, tried):
                        # A 429 or 503 invites a retry, which is not safe for a request that may have run.
                        if refusal is None or error.may_have_run:
                            raise
                        rejection, refusal = refusal, None
                        return rejection
                    reason = "unreachable"
                else:
                    if response.status not in _RETRYABLE_STATUSES or not self._may_retry(request.model, tried):
                        return response
                    if refusal is not None:
                        refusal.close()
                    refusal = response
                context.retries += (reason,)
                Poller(client).sleep(backoff_seconds(len(tried) - 1))
        finally:
            if refusal is not None:
                refusal.close()

    def _may_retry(self, model: str, tried: list[str]) -> bool:
        return (
            len(tried) <= self._settings.retries
            and self._registry.has_candidates(model, tried)
            and self._retry_budget.withdraw()
        )

    def _send_without_overflow(
        self, engine: str, request: UpstreamRequest, client: ClientConnection, context: RequestContext
    ) -> WholeResponse | UpstreamResponse:
        """Send to one engine, without the injected budget where that exceeds the engine's context."""
        tokens, model = request.tokens, request.model
        if tokens is None or tokens.source != "default":
            return self._send_to(engine, request, client, context)
        if self._context_limits.is_exceeded_by(engine, model, tokens.granted):
            return self._send_to(engine, request.without_budget(), client, context)
        response = self._send_to(engine, request, client, context)
        if (
            isinstance(response, WholeResponse)
            or response.status != HTTPStatus.BAD_REQUEST
            or not _is_budget_rejection(response)
        ):
            return response
        response.close()
        context.retries += ("context",)
        response = self._send_to(engine, request.without_budget(), client, context)
        if isinstance(response, WholeResponse) or response.status == HTTPStatus.OK:
            self._context_limits.record_overflow(engine, model, tokens.granted)
        return response

    def _send_to(
        self, engine: str, request: UpstreamRequest, client: ClientConnection, context: RequestContext
    ) -> WholeResponse | UpstreamResponse:
        """Send to one engine, on a new connection if the reused one was stale."""
        context.engine = engine
        context.tokens = request.tokens
        try:
            return self._attempt(engine, request, client, context)
        except EngineError as error:
            if not error.is_stale_connection:
                raise
        context.retries += ("closed",)
        return self._attempt(engine, request, client, context, reuse=False)

    def _attempt(
        self,
        engine: str,
        request: UpstreamRequest,
        client: ClientConnection,
        context: RequestContext,
        *,
        reuse: bool = True,
    ) -> WholeResponse | UpstreamResponse:
        counted = self._in_flight_table.begin(engine)
        try:
            response = self._post(engine, request, client, context, reuse=reuse)
            if isinstance(response, WholeResponse):
                counted.end()
                self._end_whole(engine, response, context)
                return response
            self._begin_reading(engine, response, context)
        except BaseException:
            counted.end()
            raise
        response.on_close = counted.end
        return response

    def _post(
        self, engine: str, request: UpstreamRequest, client: ClientConnection, context: RequestContext, *, reuse: bool
    ) -> WholeResponse | UpstreamResponse:
        context.attempts += 1
        context.attempted_engines += (engine,)
        context.sent_at = sent_at = time.monotonic()
        self._sent_ids.add(engine, context.request_id)
        if context.first_attempt_at is None:
            context.first_attempt_at = sent_at
        headers = request.headers
        if context.trace is not None:
            headers = context.trace.begin_attempt(engine, headers)
        try:
            response = self._http_client.post(engine + request.route, headers, request.body, client, reuse=reuse)
        except EngineError as error:
            if not error.is_stale_connection:
                _LOG.info("engine %s: %s", engine, reason_of(error))
                self._record_outcome(engine, context, error.outcome)
            raise
        context.first_byte_at = time.monotonic()
        return response

    def _end_whole(self, engine: str, response: WholeResponse, context: RequestContext) -> None:
        """Record the success of a whole response. Raises EngineError for the response of another request."""
        if context.trace is not None:
            context.trace.attempts[-1].status = HTTPStatus.OK
        if self._sent_ids.is_foreign(engine, context.request_id, response.body):
            self._http_client.quarantine(engine)
            self._record_outcome(engine, context, Outcome.BROKEN)
            raise EngineError(Outcome.BROKEN)
        self._record_outcome(engine, context, _SUCCEEDED)

    def _begin_reading(self, engine: str, response: UpstreamResponse, context: RequestContext) -> None:
        """Prepare a response whose body is still to be read."""
        if context.trace is not None:
            context.trace.attempts[-1].status = response.status
        self._check_engine_key(engine, response)
        outcome = outcome_of(response.status)
        if outcome is _SUCCEEDED:
            response.is_foreign = partial(self._sent_ids.is_foreign, engine, context.request_id)
            response.on_outcome = partial(self._record_outcome, engine, context)
        else:
            self._record_outcome(engine, context, outcome)

    def _record_outcome(self, engine: str, context: RequestContext, outcome: Outcome) -> None:
        if outcome is not _SUCCEEDED:
            context.upstream_errors += ((engine, outcome),)
        if context.trace is not None:
            context.trace.end_attempt(outcome)
        self._registry.record_outcome(engine, outcome)

    def _check_engine_key(self, engine: str, response: UpstreamResponse) -> None:
        """Raise ApiError when the engine rejected the router's key, which the client cannot mend."""
        if self._settings.engine_api_key is None or response.status not in _AUTH_STATUSES:
            return
        response.close()
        _LOG.error("engine %s rejected the key in ROUTER_ENGINE_API_KEY with %d", engine, response.status)
        raise ApiError("upstream_unreachable", "The engine could not be reached")
