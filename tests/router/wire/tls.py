"""TLS in front of a plain server, with a certificate made on the spot."""

import socket
import ssl
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


def make_certificate(folder: Path) -> tuple[Path, Path]:
    """Make a self-signed certificate for 127.0.0.1; return its PEM file and its key's."""
    certificate, key = folder / "certificate.pem", folder / "key.pem"
    made = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -addext subjectAltName=IP:127.0.0.1"
    files = ["-subj", "/CN=engine under test", "-keyout", str(key), "-out", str(certificate)]
    subprocess.run(["openssl", *made.split(), *files], check=True, capture_output=True)
    return certificate, key


@contextmanager
def tls_in_front_of(port: int, certificate: Path, key: Path) -> Iterator[int]:
    """Run a TLS server that hands everything on to a plain one on loopback; yields its port."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=_accept, args=(listener, context, port), daemon=True).start()
        yield listener.getsockname()[1]
        listener.shutdown(socket.SHUT_RDWR)


def _accept(listener: socket.socket, context: ssl.SSLContext, port: int) -> None:
    with suppress(OSError):
        while True:
            client, _ = listener.accept()
            threading.Thread(target=_serve, args=(client, context, port), daemon=True).start()


def _serve(client: socket.socket, context: ssl.SSLContext, port: int) -> None:
    with (
        client,
        suppress(OSError),
        context.wrap_socket(client, server_side=True) as outer,
        socket.create_connection(("127.0.0.1", port)) as inner,
    ):
        back = threading.Thread(target=_pump, args=(inner, outer), daemon=True)
        back.start()
        _pump(outer, inner)
        back.join()


def _pump(source: socket.socket, sink: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(65536):
            sink.sendall(data)
    with suppress(OSError):
        sink.shutdown(socket.SHUT_WR)
