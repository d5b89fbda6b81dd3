"""Checks before any route: the port, the API key, the Host header and the exact spelling of the route."""

import re
from typing import Any, Final

from router.auth import ApiKeys
from router.contract.errors import ApiError
from router.request import headers, routes
from router.request.context import context_of
from router.settings.declarations import Settings

_HOST = re.compile(r"(?:[A-Za-z0-9._~!$&'()*+,;=%-]+|\[[0-9A-Fa-f:.]+\])(?::[0-9]{1,5})?", re.ASCII)
_MODEL: Final = f"{routes.MODELS}/"


class RequestFilter:
    """Checks requests. On the separate metrics port only the metrics and the health routes exist."""

    def __init__(self, settings: Settings, api_keys: ApiKeys) -> None:
        self._metrics_port = settings.metrics_port
        self._api_keys = api_keys

    def check(self, environ: dict[str, Any]) -> None:
        """Check a request. Raises ApiError to reject it."""
        on_own_port = self._metrics_port is not None and self._check_port(environ)
        if not on_own_port and self._api_keys.are_required():
            self._authenticate(environ)
        _check_host(environ)
        _check_exact_route(environ)

    def _check_port(self, environ: dict[str, Any]) -> bool:
        """Return whether a request came to the separate metrics port.

        Raises ApiError `not_found` for a route of the other port.
        """
        on_own_port = _port_of(environ) == self._metrics_port
        path = routes.raw_path(environ)
        is_out_of_place = path == routes.METRICS and not on_own_port
        if is_out_of_place or (on_own_port and path not in (routes.METRICS, *routes.HEALTH_ROUTES)):
            raise ApiError("not_found", "There is no such route here")
        return on_own_port

    def _authenticate(self, environ: dict[str, Any]) -> None:
        """Check the API key of a request, record its name, and remove the key from the request."""
        if routes.raw_path(environ) in routes.HEALTH_ROUTES:
            return
        context_of(environ).key_name = self._api_keys.authenticate(environ)
        headers.remove_credentials(environ)


def _port_of(environ: dict[str, Any]) -> int | None:
    """Return the port of a request by its socket: for a Unix socket gunicorn trusts the Host header."""
    client = environ.get("gunicorn.socket")
    address = client.getsockname() if client is not None else None
    return address[1] if isinstance(address, tuple) else None


def _check_exact_route(environ: dict[str, Any]) -> None:
    # Servers and Werkzeug normalize paths; a route matches only the raw target.
    raw = routes.raw_path(environ)
    as_sent = raw == environ["PATH_INFO"] and not raw.startswith("//")
    if not as_sent and not raw.startswith(_MODEL):
        raise ApiError("not_found", "There is no such route here")


def _check_host(environ: dict[str, Any]) -> None:
    host = environ.get("HTTP_HOST")
    missing = host is None and environ.get("SERVER_PROTOCOL") != "HTTP/1.0"
    if missing or (host and not _HOST.fullmatch(host)):
        raise ApiError("bad_request", "The Host header is missing or invalid")
