"""Questions sent and replies brought back: within a bound on requests, and never twice what is known already."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple, TypeVar

from compiler.probe.experiment import Learning, reply_to
from compiler.verify.assertion import Answer
from compiler.verify.cassette import Record
from compiler.verify.check import Ask
from compiler.verify.exchange import ATTEMPTS, EndpointError, Exchange

T = TypeVar("T")

Answering = Callable[[Sequence[Ask]], Mapping[str, Answer]]
"""Answers requests, by their keys; what is not among them was not sent."""

_OK: Final = 200
_MOST_FAILURES: Final = 5


def drive(learning: Learning[T], answering: Answering) -> T:
    """Let a learning ask until it knows, and return what it learnt."""
    replies = None
    while True:
        try:
            questions = next(learning) if replies is None else learning.send(replies)
        except StopIteration as done:
            result: T = done.value
            return result
        answers = answering([question.ask for question in questions])
        replies = [reply_to(question, answers.get(question.ask.key())) for question in questions]


class Asker(NamedTuple):
    """Who is asked: an endpoint (None: nobody), what is known of it already, and where to write down what is new.

    most: how many requests may be sent in all, repetitions included. tell: is told how many were sent.
    """

    exchange: Exchange | None
    known: dict[str, Answer]
    record: Record | None
    most: int
    tell: Callable[[int], None]

    def answers(self, asks: Sequence[Ask]) -> Mapping[str, Answer]:
        """Return the answers to requests, those that are not known as far as the bound lets them be sent.

        Raises EndpointError where the endpoint lets nobody in, is not there, or has gone.
        """
        left = list({ask.key(): ask for ask in asks if ask.key() not in self.known}.values())
        failures = 0
        while left and self.exchange is not None:
            # Each may be sent again, and the bound holds for these, too.
            room = (self.most - self.exchange.requests_sent) // ATTEMPTS
            chunk, left = left[:room], left[room:]
            if not chunk:
                break
            try:
                for ask, answer in self._sent(self.exchange, chunk):
                    self._keep(ask, answer)
                    failures = 0
            except EndpointError as error:
                failures += 1
                if failures >= _MOST_FAILURES or not any(answer.status == _OK for answer in self.known.values()):
                    raise
                # The first of those that are left failed; others may be answered.
                unanswered = [ask for ask in chunk if ask.key() not in self.known]
                self.known[unanswered[0].key()] = Answer(0, "", b"", failure=str(error))
                left = [*unanswered[1:], *left]
        return self.known

    def _sent(self, exchange: Exchange, asks: Sequence[Ask]) -> Iterator[tuple[Ask, Answer]]:
        return exchange.answers((ask, _OK) for ask in asks)

    def _keep(self, ask: Ask, answer: Answer) -> None:
        self.known[ask.key()] = answer
        if self.record is not None:
            self.record.add(ask, answer)
        if self.exchange is not None:
            self.tell(self.exchange.requests_sent)
