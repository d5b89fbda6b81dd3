"""Checks before any route: the port, the API key, the Host header and the exact spelling of the route."""

import re
from functools import lru_cache
from typing import Final

from router.auth import ApiKeys
from router.contract.errors import ApiError
from router.request import routes
from router.request.context import RequestContext
from router.request.request import Request
from router.settings.declarations import Settings

_HOST = re.compile(r"(?:[A-Za-z0-9._~!$&'()*+,;=%-]+|\[[0-9A-Fa-f:.]+\])(?::[0-9]{1,5})?", re.ASCII)
_HTTP_1_0: Final = (1, 0)
_CREDENTIALS: Final = ("authorization", "x-api-key")
_MODEL: Final = f"{routes.MODELS}/"


class RequestFilter:
    """Checks requests. On the separate metrics port only the metrics and the health routes exist."""

    def __init__(self, settings: Settings, api_keys: ApiKeys) -> None:
        self._metrics_port = settings.metrics_port
        self._api_keys = api_keys

    def check(self, request: Request, context: RequestContext) -> None:
        """Check a request. Raises ApiError to reject it."""
        on_own_port = self._metrics_port is not None and self._check_port(request)
        if not on_own_port and self._api_keys.are_required():
            self._authenticate(request, context)
        _check_host(request)
        _check_exact_route(request.path)

    def _check_port(self, request: Request) -> bool:
        """Return whether a request came to the separate metrics port.

        Raises ApiError `not_found` for a route of the other port.
        """
        local = request.client.local
        on_own_port = local is not None and local[1] == self._metrics_port
        path = request.path
        is_out_of_place = path == routes.METRICS and not on_own_port
        if is_out_of_place or (on_own_port and path not in (routes.METRICS, *routes.HEALTH_ROUTES)):
            raise ApiError("not_found", "There is no such route here")
        return on_own_port

    def _authenticate(self, request: Request, context: RequestContext) -> None:
        """Check the API key of a request, record its name, and remove the key: no engine may get it."""
        if request.path in routes.HEALTH_ROUTES:
            return
        shown = (request.header(name) or "" for name in _CREDENTIALS)
        context.key_name = self._api_keys.authenticate(*shown)
        for name in _CREDENTIALS:
            request.remove_header(name)


def _check_exact_route(path: str) -> None:
    # Servers and Werkzeug decode and normalize paths; a route matches only the raw target.
    as_sent = path.startswith("/") and not path.startswith("//") and "%" not in path and "#" not in path
    if not as_sent and not path.startswith(_MODEL):
        raise ApiError("not_found", "There is no such route here")


def _check_host(request: Request) -> None:
    host = request.header("host")
    missing = host is None and request.version != _HTTP_1_0
    if missing or (host and not _is_host(host)):
        raise ApiError("bad_request", "The Host header is missing or invalid")


@lru_cache(maxsize=1024)
def _is_host(host: str) -> bool:
    return _HOST.fullmatch(host) is not None
