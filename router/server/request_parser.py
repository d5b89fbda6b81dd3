"""The fast request parser: it reads plain requests; gunicorn's parser reads all others.

A request is plain if it is an HTTP/1.1 POST to a known route with short headers of printable ASCII, none repeated, and
a body with a Content-Length that is not too long. The result equals that of gunicorn's parser; a test compares the two.
"""

import io
import os
import re
from collections.abc import Iterable
from typing import Any, Final, NamedTuple

from gunicorn.http.wsgi import base_environ

from router.server.connection import Connection
from router.server.request_body import HELD
from router.server.sockets import ClientSocket

_NAME = re.compile(r"[!#$%&'*+\-.^`|~0-9A-Za-z]+", re.ASCII)
_JUDGED: Final = frozenset({"EXPECT", "TRANSFER-ENCODING", "TRAILER", "TE", "UPGRADE", "HTTP2-SETTINGS"})
"""Headers that gunicorn interprets. A request with one of them is not plain."""
_VARIABLES: Final = {"CONTENT-TYPE": "CONTENT_TYPE", "CONTENT-LENGTH": "CONTENT_LENGTH"}
LONGEST_BYTES: Final = 4 * 1024 * 1024
"""Longest body that is served in a task of the event loop. Evaluating a longer one would block other tasks."""

PIECE_BYTES: Final = 64 * 1024
"""Most bytes of such a body that are received in one call."""

_MOST_KNOWN: Final = 1000
_KEEPS: Final = {"keep-alive": True, "close": False}


class Plain(NamedTuple):
    """A parsed plain request: its environ, whether the connection is kept alive, and the bytes of the next request.

    `rest` is the body if it is not complete yet.
    """

    environ: dict[str, Any]
    keeps: bool
    left: bytes
    rest: "Rest | None" = None


class Rest:
    """An incomplete body. The rest is received when the app reads it, in a task of the event loop."""

    def __init__(self, sock: ClientSocket, begun: bytes, length: int) -> None:
        self._sock = sock
        self._begun = begun
        self._left = length

    def read(self, size: int = -1) -> bytes:
        """Return up to `size` bytes of the body, all if negative; fewer if it ends early. Raises TimeoutError."""
        wanted = self._left if size < 0 else min(size, self._left)
        pieces, self._begun = [self._begun[:wanted]], self._begun[wanted:]
        left = wanted - len(pieces[0])
        # Allocate only for received bytes: many clients may announce long bodies and send nothing.
        while left and (piece := self._sock.receive(min(left, PIECE_BYTES))):
            pieces.append(piece)
            left -= len(piece)
        self._left -= wanted - left
        return b"".join(pieces)

    def is_read(self) -> bool:
        """Return whether the body was read completely."""
        return self._left == 0


class PlainReader:
    """Reads plain requests to some routes, under the options of gunicorn."""

    def __init__(self, cfg: Any, routes: Iterable[str]) -> None:  # noqa: ANN401 - gunicorn's Config
        self._lines = {f"POST {route} HTTP/1.1": route for route in routes} if _is_plain(cfg) else {}
        self._most_headers = cfg.limit_request_fields
        self._most_bytes = min(cfg.limit_request_line, cfg.limit_request_field_size)
        self._scheme_headers = frozenset(map(str.upper, cfg.secure_scheme_headers))
        self._variables: dict[str, str | None] = {}
        """The variable of the environ for each name of a header as it was sent; None for those that are not plain."""

    def read(self, connection: Connection) -> Plain | None:
        """Parse the received request of a connection, at least its headers; None if it is not plain."""
        # Over a Unix socket clients have no address, and gunicorn believes what they say of others.
        parts = connection.arrival.parts() if self._lines and isinstance(connection.client, tuple) else None
        if parts is None:
            return None
        head, body, length, left = parts
        if length > LONGEST_BYTES:
            return None
        lines = head.decode("latin-1").split("\r\n")
        route = self._lines.get(lines[0])
        if route is None or len(head) > self._most_bytes or len(lines) - 3 > self._most_headers:
            return None
        environ = self._common(connection).copy()
        keeps = self._read_headers(lines[1:-2], environ)
        if keeps is None or int(environ.get("CONTENT_LENGTH", "0")) != length:
            return None
        environ["RAW_URI"] = environ["PATH_INFO"] = route
        environ["gunicorn.socket"] = connection.sock
        if len(body) < length:
            environ["wsgi.input"] = rest = Rest(connection.sock, body, length)
            return Plain(environ, keeps, left, rest)
        environ["wsgi.input"] = io.BytesIO(body)
        environ[HELD] = body
        return Plain(environ, keeps, left)

    def _read_headers(self, lines: list[str], environ: dict[str, Any]) -> bool | None:
        """Put headers into an environ; return whether they keep the connection, None where they are not plain."""
        variables = self._variables
        for line in lines:
            name, colon, value = line.partition(":")
            variable = variables[name] if name in variables else self._learn(name)
            if variable is None or variable in environ or not (colon and value.isprintable() and value.isascii()):
                return None
            environ[variable] = value.strip(" ")
        return _KEEPS.get(environ.get("HTTP_CONNECTION", "keep-alive").lower())

    def _common(self, connection: Connection) -> dict[str, Any]:
        """Return the part of the environ that all plain requests of a connection share."""
        if connection.common is None:
            client, server = connection.client, connection.server
            connection.common = {
                **base_environ(connection.cfg),
                "wsgi.multithread": True,
                "wsgi.url_scheme": "http",
                "REQUEST_METHOD": "POST",
                "QUERY_STRING": "",
                "SERVER_PROTOCOL": "HTTP/1.1",
                "REMOTE_ADDR": client[0],
                "REMOTE_PORT": str(client[1]),
                "SERVER_NAME": server[0],
                "SERVER_PORT": str(server[1]),
                "SCRIPT_NAME": "",
            }
        return connection.common

    def _learn(self, name: str) -> str | None:
        upper = name.upper()
        is_plain = _NAME.fullmatch(name) and upper not in _JUDGED and upper not in self._scheme_headers
        variable = _VARIABLES.get(upper, "HTTP_" + upper.replace("-", "_")) if is_plain else None
        if len(self._variables) < _MOST_KNOWN and len(name) <= _MOST_KNOWN:
            self._variables[name] = variable
        return variable


def _is_plain(cfg: Any) -> bool:  # noqa: ANN401 - gunicorn's Config
    """Return whether gunicorn's options let it only parse requests, without any other processing."""
    return (
        not cfg.is_ssl
        and cfg.http2_cleartext == "off"
        and cfg.protocol == "http"
        and cfg.proxy_protocol == "off"
        and cfg.keepalive > 0
        and not cfg.statsd_host
        and cfg.pre_request is cfg.settings["pre_request"].default
        and cfg.post_request is cfg.settings["post_request"].default
        and not os.environ.get("SCRIPT_NAME")
    )
