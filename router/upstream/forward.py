"""A request brought to an engine, and to another one where it is certain that the first did not work on it."""

import logging
import time
from functools import partial
from http import HTTPStatus
from typing import Final, NamedTuple

from router.balancing.in_flight import Loads
from router.content_encoding import UNENCODED, UndecodableError, decoded
from router.contract.errors import ApiError
from router.contract.responses.upstream_errors import is_budget_overflow
from router.contract.rules.budget import Tokens, without_budget
from router.request.context import RequestContext
from router.request.outcome import Outcome, outcome_of
from router.runtime import cpu_executor
from router.server.disconnect import Client
from router.settings import Settings
from router.upstream.balancer import Chooser
from router.upstream.client import Connections
from router.upstream.context_length import Contexts
from router.upstream.errors import EngineError, reason_of
from router.upstream.foreign_responses import SentIds
from router.upstream.poller import Watch
from router.upstream.registry import Fleet
from router.upstream.response import Answer
from router.upstream.retry import RetryBudget, backoff_seconds

_REFUSALS: Final = (HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE)
"""An engine that answers so did not begin to work."""
_KEY_REFUSED: Final = (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN)
MAX_ERROR_BYTES: Final = 64 * 1024
"""Longest beginning of an engine's 400 that is looked at for what it is about."""
_LOG = logging.getLogger("router")


def _is_unreached(error: ApiError) -> bool:
    return isinstance(error, EngineError) and error.outcome is Outcome.UNREACHABLE


def _rejects_budget(answer: Answer) -> bool:
    """Tell whether an engine's 400 is about the budget, and leave it to be read."""
    try:
        body = answer.peek(MAX_ERROR_BYTES)
    except BaseException:
        answer.close()
        raise
    codings = answer.header("Content-Encoding").strip().lower()
    try:
        plain = decoded(body, codings, MAX_ERROR_BYTES) if codings not in UNENCODED else body
    except UndecodableError:
        return False
    return is_budget_overflow(plain)


class Request(NamedTuple):
    """What goes to an engine: the route, the headers, the body, and the model that it has to list.

    `key` is the hash of what the request should stay together with, None where nothing tells or nobody asks.
    `tokens` is the output budget, where the contract sets one.
    """

    route: str
    headers: dict[str, str]
    body: bytes
    model: str
    key: int | None = None
    tokens: Tokens | None = None

    def without_budget(self) -> "Request":
        """Return the request without the budget that the router has injected."""
        return self._replace(body=cpu_executor.run(len(self.body), without_budget, self.body), tokens=None)


class Dispatcher:
    """Has engines chosen, sends, and sends again where that is safe; counts what is in flight."""

    def __init__(  # noqa: PLR0913 - what it works with, each a part of its own
        self,
        settings: Settings,
        fleet: Fleet,
        connections: Connections,
        chooser: Chooser,
        loads: Loads,
        *,
        contexts: Contexts,
    ) -> None:
        self._settings = settings
        self._fleet = fleet
        self._connections = connections
        self._chooser = chooser
        self._loads = loads
        self._contexts = contexts
        self._budget = RetryBudget()
        self._sent_ids = SentIds()

    def send(self, request: Request, client: Client, context: RequestContext) -> Answer:
        """Return an engine's answer, of which the head was read.

        A request goes to another engine when no connection came about or when the engine refused it with 429 or 503,
        and once more on a new connection when the engine had closed the kept one, or without the budget that the router
        has injected where that is what the engine rejects. Raises EngineError, or ApiError `no_healthy_engines`, and
        ClientGoneError.
        """
        self._budget.earn()
        tried: list[str] = []
        refusal: Answer | None = None
        try:
            while True:
                try:
                    engine = self._chooser.choose(request.model, request.key, tried)
                    tried.append(engine)
                    answer = self._send_within_context(engine, request, client, context)
                    reason = "refused"
                except ApiError as error:
                    if not _is_unreached(error) or not self._may_retry(request.model, tried):
                        # A refusal invites to ask again, which what may have run does not bear.
                        if refusal is None or error.may_have_run:
                            raise
                        told, refusal = refusal, None
                        return told
                    reason = "unreachable"
                else:
                    if answer.status not in _REFUSALS or not self._may_retry(request.model, tried):
                        return answer
                    if refusal is not None:
                        refusal.close()
                    refusal = answer
                context.retries += (reason,)
                Watch(client).sleep(backoff_seconds(len(tried) - 1))
        finally:
            if refusal is not None:
                refusal.close()

    def _may_retry(self, model: str, tried: list[str]) -> bool:
        return len(tried) <= self._settings.retries and self._fleet.has_other(model, tried) and self._budget.spend()

    def _send_within_context(self, engine: str, request: Request, client: Client, context: RequestContext) -> Answer:
        """Send to one engine, without the injected budget where that exceeds the engine's context."""
        tokens, model = request.tokens, request.model
        if tokens is None or tokens.source != "default":
            return self._send_to(engine, request, client, context)
        if self._contexts.is_too_short(engine, model, tokens.granted):
            return self._send_to(engine, request.without_budget(), client, context)
        answer = self._send_to(engine, request, client, context)
        if answer.status != HTTPStatus.BAD_REQUEST or not _rejects_budget(answer):
            return answer
        answer.close()
        context.retries += ("context",)
        answer = self._send_to(engine, request.without_budget(), client, context)
        if answer.status == HTTPStatus.OK:
            self._contexts.note_overflow(engine, model, tokens.granted)
        return answer

    def _send_to(self, engine: str, request: Request, client: Client, context: RequestContext) -> Answer:
        """Send to one engine, on a second connection where the first was closed before it read anything."""
        context.engine = engine
        context.tokens = request.tokens
        try:
            return self._attempt(engine, request, client, context)
        except EngineError as error:
            if not error.is_unread:
                raise
        context.retries += ("closed",)
        return self._attempt(engine, request, client, context, is_fresh=True)

    def _attempt(
        self, engine: str, request: Request, client: Client, context: RequestContext, *, is_fresh: bool = False
    ) -> Answer:
        counted = self._loads.begin(engine)
        try:
            answer = self._post(engine, request, client, context, is_fresh=is_fresh)
        except BaseException:
            counted.end()
            raise
        answer.on_close = counted.end
        return answer

    def _post(
        self, engine: str, request: Request, client: Client, context: RequestContext, *, is_fresh: bool
    ) -> Answer:
        context.attempts += 1
        context.attempted_engines += (engine,)
        context.sent_at = time.monotonic()
        self._sent_ids.note(engine, context.request_id)
        if context.first_attempt_at is None:
            context.first_attempt_at = context.sent_at
        try:
            headers = request.headers
            if context.trace is not None:
                headers = context.trace.begin_attempt(engine, headers)
            answer = self._connections.post(engine + request.route, headers, request.body, client, is_fresh=is_fresh)
        except EngineError as error:
            if not error.is_unread:
                _LOG.info("engine %s: %s", engine, reason_of(error))
                self._note(engine, context, error.outcome)
            raise
        context.first_byte_at = time.monotonic()
        if context.trace is not None:
            context.trace.attempts[-1].status = answer.status
        self._refuse_own_key(engine, answer)
        outcome = outcome_of(answer.status)
        if outcome is Outcome.SUCCEEDED:
            answer.is_foreign = partial(self._sent_ids.is_foreign, engine, context.request_id)
            answer.on_end = partial(self._note, engine, context)
        else:
            self._note(engine, context, outcome)
        return answer

    def _note(self, engine: str, context: RequestContext, outcome: Outcome) -> None:
        if outcome is not Outcome.SUCCEEDED:
            context.upstream_errors += ((engine, outcome),)
        if context.trace is not None:
            context.trace.tell(outcome)
        self._fleet.note(engine, outcome)

    def _refuse_own_key(self, engine: str, answer: Answer) -> None:
        """Raise EngineError when the engine refused the router's key, which is not the client's affair."""
        if self._settings.engine_api_key is None or answer.status not in _KEY_REFUSED:
            return
        answer.close()
        _LOG.error("engine %s refused the key in ROUTER_ENGINE_API_KEY with %d", engine, answer.status)
        raise ApiError("upstream_unreachable", "The engine could not be reached")
