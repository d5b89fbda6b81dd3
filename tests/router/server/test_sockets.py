"""A client's socket: it never blocks, and a task that waits for it waits no longer than it should."""

import socket
import ssl
import threading
import time

import pytest

from router.server import sockets
from router.server.sockets import SEND_PIECE_BYTES, TlsClientSocket


@pytest.fixture
def pair():
    """A client's socket and its other end."""
    ours, other = socket.socketpair()
    with sockets.of_accepted(ours) as client, other:
        yield client, other


def test_a_deadline_is_for_all_receptions_together(pair):
    """Bytes that keep coming do not move the deadline."""
    client, other = pair
    over = threading.Event()

    def dribble():
        while not over.wait(0.01):
            other.send(b"x")

    thread = threading.Thread(target=dribble)
    thread.start()
    deadline = time.monotonic() + 0.2
    try:
        with pytest.raises(TimeoutError):
            _receive_for_ever(client, deadline)
    finally:
        over.set()
        thread.join()


def _receive_for_ever(client, deadline):
    while client.receive(1, deadline):
        continue


def test_what_was_received_in_time_is_read_after_the_deadline(pair):
    """Bytes in the buffer count, whenever the process gets to read them; then the deadline holds."""
    client, other = pair
    other.send(b"x")
    assert client.receive(10, 0.0) == b"x"
    with pytest.raises(TimeoutError):
        client.receive(10, 0.0)
    other.close()
    assert client.receive(10, 0.0) == b""


def test_a_half_closed_client_is_seen(pair):
    """It is the end of what the client sends, of which nothing has to be read first."""
    client, other = pair
    other.send(b"x")
    assert not client.is_half_closed()
    other.shutdown(socket.SHUT_WR)
    assert client.is_half_closed()


def test_a_client_that_stops_reading_counts_as_gone(pair):
    """What cannot be sent in time ends as if the client had closed."""
    client, _ = pair
    client.send_seconds = 0.1
    with pytest.raises(BrokenPipeError):
        client.sendall(bytes(64 * 1024 * 1024))


@pytest.mark.parametrize("length", [0, 1, SEND_PIECE_BYTES, SEND_PIECE_BYTES + 1, 10 * SEND_PIECE_BYTES - 1])
def test_all_is_sent(pair, length):
    """Whatever the length, all of it arrives."""
    client, other = pair
    client.send_seconds = 20
    data = bytes(number % 251 for number in range(length))
    received = bytearray()

    def receive():
        while piece := other.recv(1024 * 1024):
            received.extend(piece)

    thread = threading.Thread(target=receive)
    thread.start()
    client.sendall(data)
    client.shutdown(socket.SHUT_WR)
    thread.join()
    assert received == data


def test_nothing_is_sent_where_no_handshake_was(pair):
    """Nothing that is sent to a client that stalls in the handshake goes on with it."""
    client, other = pair
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.sslsocket_class = TlsClientSocket
    with context.wrap_socket(client, server_side=True, do_handshake_on_connect=False) as encrypted:
        other.send(b"\x16")
        with pytest.raises(ssl.SSLWantReadError):
            encrypted.do_handshake()
        with pytest.raises(BrokenPipeError):
            encrypted.sendall(b"x")
    assert other.recv(100) == b""
