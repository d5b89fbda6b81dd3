"""Send experiments and return results: within a limit on requests, and none that is already recorded."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple, TypeVar

from compiler.probe.experiment import Learner, result_of
from compiler.verify.assertion import EndpointResponse
from compiler.verify.cassette import Record
from compiler.verify.check import ChatRequest
from compiler.verify.client import ATTEMPTS, EndpointClient, EndpointError

T = TypeVar("T")

Send = Callable[[Sequence[ChatRequest]], Mapping[str, EndpointResponse]]
"""Returns the responses to requests, by their keys; a request without a response was not sent."""

_OK: Final = 200
_MOST_FAILURES: Final = 5


def run_learner(learning: Learner[T], send: Send) -> T:
    """Run a learner to its end, and return what it learned."""
    results = None
    while True:
        try:
            experiments = next(learning) if results is None else learning.send(results)
        except StopIteration as done:
            result: T = done.value
            return result
        responses = send([experiment.request for experiment in experiments])
        results = [result_of(experiment, responses.get(experiment.request.key())) for experiment in experiments]


class RequestSender(NamedTuple):
    """The sender of requests: an endpoint (None: none), the known responses, and the record for new ones.

    most: limit on requests in total, retries included. on_sent: receives the number of requests sent.
    """

    client: EndpointClient | None
    known: dict[str, EndpointResponse]
    record: Record | None
    most: int
    on_sent: Callable[[int], None]

    def responses(self, chat_requests: Sequence[ChatRequest]) -> Mapping[str, EndpointResponse]:
        """Return the responses to requests: the known ones, and new ones up to the limit.

        Raises EndpointError if the endpoint rejects the credentials, is unreachable, or stops responding.
        """
        left = list({request.key(): request for request in chat_requests if request.key() not in self.known}.values())
        failures = 0
        while left and self.client is not None:
            # Each may be sent again, and the bound holds for these, too.
            room = (self.most - self.client.requests_sent) // ATTEMPTS
            chunk, left = left[:room], left[room:]
            if not chunk:
                break
            try:
                for request, response in self._sent(self.client, chunk):
                    self._keep(request, response)
                    failures = 0
            except EndpointError as error:
                failures += 1
                if failures >= _MOST_FAILURES or not any(response.status == _OK for response in self.known.values()):
                    raise
                # The first of the remaining requests failed; others may succeed.
                unanswered = [request for request in chunk if request.key() not in self.known]
                self.known[unanswered[0].key()] = EndpointResponse(0, "", b"", failure=str(error))
                left = [*unanswered[1:], *left]
        return self.known

    def _sent(
        self, client: EndpointClient, chat_requests: Sequence[ChatRequest]
    ) -> Iterator[tuple[ChatRequest, EndpointResponse]]:
        return client.responses((request, _OK) for request in chat_requests)

    def _keep(self, request: ChatRequest, response: EndpointResponse) -> None:
        self.known[request.key()] = response
        if self.record is not None:
            self.record.add(request, response)
        if self.client is not None:
            self.on_sent(self.client.requests_sent)
