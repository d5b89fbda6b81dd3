"""The inference routes, and the responses for errors."""

import logging
from typing import Final

from router import pipeline
from router.contract.errors import ApiError, build_error_response, without_frames
from router.contract.schema.sections import Errors
from router.pipeline import Services
from router.request import headers, routes
from router.request.context import RequestContext
from router.request.request import Request
from router.request_filter import RequestFilter
from router.response import ProxyResponse
from router.server.disconnect import ClientDisconnectedError

CLIENT_CLOSED_REQUEST: Final = 499
"""The status in logs for a client that disconnected (nginx's); it is never sent."""

_LOG = logging.getLogger("router")


class InferenceEndpoint:
    """The inference routes of one worker; they take POST only."""

    def __init__(self, services: Services, request_filter: RequestFilter) -> None:
        self._services = services
        self._request_filter = request_filter
        self._errors = services.artifact.contract.errors

    def respond(self, request: Request, context: RequestContext) -> ProxyResponse:
        """Return the response to a request, also to one that is rejected."""
        try:
            self._services.discovery.start()
            self._request_filter.check(request, context)
            return self.serve(request, context)
        except ApiError as error:
            return error_response(error, self._errors, context)
        except ClientDisconnectedError:
            return client_closed_response(context)
        except Exception as error:  # noqa: BLE001 - any failure is a 500 to the client
            return internal_error_response(error, self._errors, context)

    def serve(self, request: Request, context: RequestContext) -> ProxyResponse:
        """Run the pipeline for a request. Raises ApiError, ClientDisconnectedError."""
        route = request.path
        step = pipeline.chat if route == routes.CHAT else pipeline.pass_through
        return step(self._services, request, route, context)


def error_response(error: ApiError, errors: Errors, context: RequestContext) -> ProxyResponse:
    """Return the response for an error, with the error texts of the contract's case if there is one."""
    without_frames(error)
    error.details.setdefault("model", context.model_asked)
    status, own_headers, body = build_error_response(
        error, context.errors or errors, context.request_id, context.protocol
    )
    if context.attempts > 1:
        own_headers.append((headers.ATTEMPTS, str(context.attempts)))
    return ProxyResponse(status, own_headers, body)


def internal_error_response(error: Exception, errors: Errors, context: RequestContext) -> ProxyResponse:
    """Log an unexpected exception and return the response for it."""
    _LOG.error("request %s failed", context.request_id, exc_info=error)
    without_frames(error)
    return error_response(ApiError("internal_error", "The router failed to handle this request"), errors, context)


def client_closed_response(context: RequestContext) -> ProxyResponse:
    """Return the response that logs show for a client that disconnected."""
    context.client_gone = True
    return ProxyResponse(CLIENT_CLOSED_REQUEST, [], b"")
