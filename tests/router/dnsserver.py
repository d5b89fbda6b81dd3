"""A small DNS server on loopback, over UDP and TCP, for tests: what it answers is set while it runs."""

import socket
import struct
import threading
from contextlib import suppress
from typing import Self

import dns.flags
import dns.message
import dns.rcode
import dns.rdatatype
import dns.rrset

MOST_UDP_BYTES = 512


class DnsServer:
    """Answers every name from what `set` says of it; others do not exist.

    rcode: what all questions get instead, such as SERVFAIL; None: what is set.
    silent: whether no question is answered.
    """

    def __init__(self) -> None:
        self.rcode: dns.rcode.Rcode | None = None
        self.silent = False
        self.asked_over: list[str] = []
        """How each question came, `udp` or `tcp`."""
        self._addresses: dict[str, tuple[str, ...]] = {}
        self._changed = threading.Condition()
        self._tcp, self._udp = _same_port()

    @property
    def port(self) -> int:
        return int(self._udp.getsockname()[1])

    @property
    def address(self) -> str:
        """Where it listens, as ROUTER_DNS_SERVER says it."""
        return f"127.0.0.1:{self.port}"

    def set(self, name: str, *addresses: str) -> None:
        """Let a name have these addresses, or exist without any."""
        with self._changed:
            self._addresses[name] = addresses

    def unset(self, name: str) -> None:
        """Let a name not exist."""
        with self._changed:
            self._addresses.pop(name, None)

    def wait_for_questions(self, count: int) -> None:
        """Wait until so many more questions have come."""
        with self._changed:
            wanted = len(self.asked_over) + count
            assert self._changed.wait_for(lambda: len(self.asked_over) >= wanted, 30), self.asked_over

    def __enter__(self) -> Self:
        for serve in (self._serve_udp, self._serve_tcp):
            threading.Thread(target=serve, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        for listener in (self._udp, self._tcp):
            with suppress(OSError):
                listener.shutdown(socket.SHUT_RDWR)  # wakes the thread that waits in it
            listener.close()

    def _serve_udp(self) -> None:
        with suppress(OSError):
            while True:
                data, peer = self._udp.recvfrom(65535)
                answer = self._answer(data, "udp") if data else None
                if answer is not None:
                    self._udp.sendto(_cut(answer), peer)

    def _serve_tcp(self) -> None:
        with suppress(OSError):
            while True:
                connection, _ = self._tcp.accept()
                with connection, connection.makefile("rb") as file, suppress(OSError, struct.error):
                    connection.settimeout(5)
                    (length,) = struct.unpack("!H", file.read(2))
                    answer = self._answer(file.read(length), "tcp")
                    if answer is not None:
                        data = answer.to_wire(max_size=65535)
                        connection.sendall(struct.pack("!H", len(data)) + data)

    def _answer(self, data: bytes, over: str) -> dns.message.Message | None:
        question = dns.message.from_wire(data)
        answer = dns.message.make_response(question)
        with self._changed:
            if not self.silent:
                self._fill(answer)
            self.asked_over.append(over)
            self._changed.notify_all()
            return None if self.silent else answer

    def _fill(self, answer: dns.message.Message) -> None:
        (asked,) = answer.question
        name = asked.name.to_text(omit_final_dot=True)
        if self.rcode is not None or name not in self._addresses:
            answer.set_rcode(dns.rcode.NXDOMAIN if self.rcode is None else self.rcode)
            return
        kind = dns.rdatatype.to_text(asked.rdtype)
        found = [each for each in self._addresses[name] if kind == ("AAAA" if ":" in each else "A")]
        if found:
            answer.answer.append(dns.rrset.from_text(asked.name, 5, "IN", kind, *found))


def _cut(answer: dns.message.Message) -> bytes:
    """Return a message for UDP: without its records, and marked as truncated, where it is too long."""
    data = answer.to_wire(max_size=65535)
    if len(data) <= MOST_UDP_BYTES:
        return data
    answer.flags |= dns.flags.TC
    answer.answer.clear()
    return answer.to_wire()


def _same_port() -> tuple[socket.socket, socket.socket]:
    """Return a listening TCP socket and a UDP socket that share a port."""
    while True:
        tcp = socket.create_server(("127.0.0.1", 0))
        udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        try:
            udp.bind(tcp.getsockname())
        except OSError:  # somebody else's
            tcp.close()
            udp.close()
        else:
            return tcp, udp
