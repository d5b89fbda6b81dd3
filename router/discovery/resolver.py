"""A single DNS query for the addresses of a name."""

import dns.exception
import dns.resolver

from router.settings.declarations import DnsServer
from router.upstream.errors import DnsError


def query_addresses(name: str, kind: str, server: DnsServer | None, seconds: float) -> tuple[str, ...]:
    """Return the addresses of a name in records of one type, an empty tuple if there are none.

    Queries the given name server, else those of the system, with a timeout of `seconds`. Raises DnsError.
    """
    try:
        resolver = dns.resolver.Resolver(configure=server is None)
        resolver.lifetime = seconds
        if server is not None:
            resolver.nameservers = [server.address]
            resolver.port = server.port
        response = resolver.resolve(name, kind, search=server is None, raise_on_no_answer=False)
    except dns.resolver.NXDOMAIN:
        return ()
    except dns.exception.DNSException as error:
        raise DnsError(_reason_of(error)) from error
    return tuple(record.address for record in response)


def _reason_of(error: dns.exception.DNSException) -> str:
    if isinstance(error, dns.exception.Timeout):
        return "the name server does not respond"
    if isinstance(error, dns.resolver.NoResolverConfiguration):
        return "the system names no name server"
    last = next((failure[3] for failure in reversed(error.kwargs.get("errors", ()))), None)
    if isinstance(last, OSError):
        return "the name server cannot be reached"
    return f"the name server responds {last}" if isinstance(last, str) else "the name server's response is malformed"
