"""A client's socket, which waits no longer than it should."""

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


def test_what_was_received_is_received_again_before_the_rest(pair):
    """In pieces no longer than they may be, and even when the client has had its time."""
    client, other = pair
    other.send(b"fg")
    client.held = b"abcde"
    client.is_late = True
    assert [client.recv(2), client.recv(2), client.recv(2)] == [b"ab", b"cd", b"e"]
    with pytest.raises(TimeoutError):
        client.recv(2)
    client.is_late = False
    assert client.recv(2) == b"fg"


def test_a_deadline_is_for_all_receptions_together(pair):
    """Bytes that keep coming do not move the deadline."""
    client, other = pair
    over = threading.Event()

    def dribble():
        while not over.wait(0.01):
            other.send(b"x")

    thread = threading.Thread(target=dribble)
    thread.start()
    client.deadline = time.monotonic() + 0.2
    try:
        with pytest.raises(TimeoutError):
            _receive_for_ever(client)
    finally:
        over.set()
        thread.join()


def _receive_for_ever(client):
    while client.recv(1):
        continue


def test_a_client_that_is_late_gives_nothing_more(pair):
    """Once a client has had its time nothing is received, not even what has come."""
    client, other = pair
    other.send(b"x")
    client.is_late = True
    with pytest.raises(TimeoutError):
        client.recv(1)


def test_without_a_deadline_bytes_are_received_as_ever(pair):
    """A socket with no deadline is like any other, to the end of the connection."""
    client, other = pair
    other.send(b"abc")
    other.close()
    assert (client.recv(2), client.recv(2), client.recv(2)) == (b"ab", b"c", b"")


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
    client.setblocking(False)
    with context.wrap_socket(client, server_side=True, do_handshake_on_connect=False) as encrypted:
        other.send(b"\x16")
        with pytest.raises(ssl.SSLWantReadError):
            encrypted.do_handshake()
        with pytest.raises(BrokenPipeError):
            encrypted.sendall(b"x")
    assert other.recv(100) == b""
