"""Experiments and their results. A learner is a generator that yields experiments and is sent the results.

Nothing here sends requests: the caller of a learner sends its experiments and passes the results in.
"""

import copy
import json
import re
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, Literal, NamedTuple, TypeVar

from compiler.verify.assertion import EndpointResponse
from compiler.verify.check import ChatRequest, Fields, written
from compiler.verify.oracle.values import put
from router.contract.schema.fields import BUDGET_FIELDS, WHOLE_NUMBER_FIELDS

ResultKind = Literal["accepted", "rejected", "overflow", "unclear", "unasked"]
"""The verdict on a response.

overflow: the request is too long for the engine's context, which is no rule of a contract. unclear: the response is
about the endpoint's state or another field, or the endpoint failed. unasked: the request was not sent.
"""

_OK: Final = 200
_REJECTING: Final = range(400, 500)
_OF_ITS_STATE: Final = frozenset({401, 403, 408, 429})

T = TypeVar("T")


class Experiment(NamedTuple):
    """One request, as changes of a base request.

    about: the subject, as `--only` names it. changes: the values to set in the base request, by dotted path.
    without: top-level fields of the base to remove.
    """

    about: str
    changes: Fields
    request: ChatRequest
    without: tuple[str, ...] = ()


class ExperimentResult(NamedTuple):
    """The result of an experiment."""

    experiment: Experiment
    kind: ResultKind
    response: EndpointResponse

    @property
    def is_accepted(self) -> bool:
        """Whether the request was accepted."""
        return self.kind == "accepted"

    @property
    def is_rejected(self) -> bool:
        """Whether the request was rejected for its content."""
        return self.kind == "rejected"

    @property
    def is_conclusive(self) -> bool:
        """Whether the response allows a conclusion."""
        return self.kind in {"accepted", "rejected"}


Learner = Generator[Sequence[Experiment], Sequence[ExperimentResult], T]
"""A generator that yields batches of experiments and returns what it learned."""


class BaseRequest(NamedTuple):
    """A request that is known to be accepted; experiments change one thing in it. `text` is its prompt."""

    fields: Fields
    text: str

    def experiment(self, about: str, changes: Fields | None = None, without: Iterable[str] = ()) -> Experiment:
        """Return an experiment that changes some fields, by dotted path, and leaves others out."""
        fields = {name: copy.deepcopy(value) for name, value in self.fields.items() if name not in without}
        for path, value in (changes or {}).items():
            put(fields, path, copy.deepcopy(value))
        return Experiment(about, dict(changes or {}), ChatRequest.of(fields), tuple(without))

    def with_fields(self, switch: Fields) -> "BaseRequest":
        """Return the base with more fields in it."""
        return BaseRequest(self.experiment("", switch).request.fields(), self.text)

    def on_base(self, experiment: Experiment) -> Experiment:
        """Return an experiment on another base request as one on this base request."""
        on_base = self.experiment(experiment.about, experiment.changes, experiment.without)
        return on_base._replace(request=on_base.request._replace(length=experiment.request.length))


def result_of(experiment: Experiment, response: EndpointResponse | None) -> ExperimentResult:
    """Return the verdict on the response to an experiment; None: it was not sent."""
    if response is None:
        return ExperimentResult(experiment, "unasked", EndpointResponse(0, "", b""))
    if response.failure is None and response.status == _OK:
        return ExperimentResult(experiment, "accepted", response)
    if response.failure is not None or response.status not in _REJECTING or response.status in _OF_ITS_STATE:
        return ExperimentResult(experiment, "unclear", response)
    if _OVERFLOW.search(response.body):
        return ExperimentResult(experiment, "overflow", response)
    return ExperimentResult(experiment, "unclear" if _is_about_another(experiment, response) else "rejected", response)


_OVERFLOW: Final = re.compile(
    rb"exceed_context_size_error|available context size"  # llama.cpp
    rb"|context_length_exceeded|maximum context length"  # OpenAI; vLLM and SGLang of a prompt
    rb"|cannot be greater than max_model_len"  # vLLM of a budget
    rb"|longer than the model's context length"  # SGLang
)
"""Messages of engines for a prompt, or a prompt with its budget, that exceeds the context.

Sources: responses of llama.cpp b10434 and vLLM 0.32, SGLang 0.5.23's source, OpenAI's guide to errors.
"""


def _is_about_another(experiment: Experiment, response: EndpointResponse) -> bool:
    """Return whether a rejection names a field of the request that the experiment did not change."""
    if not experiment.changes:
        return False
    changed = {path.partition(".")[0] for path in experiment.changes}
    # Rules of other fields may look into the messages.
    others = {name for name, _ in experiment.request.members if name not in {*changed, "messages"}}
    if _param_of(response).partition(".")[0] in others:
        return True
    # Some values are too large only for the budget that every question has.
    return any(re.search(rf"\b{name}\b".encode(), response.body) for name in others & {*BUDGET_FIELDS})


def _param_of(response: EndpointResponse) -> str:
    try:
        body = json.loads(response.body)
    except (ValueError, RecursionError):
        return ""
    holder = body.get("error") if isinstance(body, dict) else None
    param = (holder if isinstance(holder, dict) else body if isinstance(body, dict) else {}).get("param")
    return param if isinstance(param, str) else ""


def is_read_otherwise(result: ExperimentResult) -> bool:
    """Return whether a result is about a fraction in a field that this router always reads as a whole number.

    Some engines truncate it (llama.cpp reads n: 1.5 as 1); no rule of the language can express that.
    """
    changes = result.experiment.changes
    fractions = (changes.get(name) for name in WHOLE_NUMBER_FIELDS)
    return any(isinstance(value, float) and not value.is_integer() for value in fractions)


def texts_in(result: ExperimentResult) -> list[str]:
    """Return the texts in the body of a response, without the names of its members."""
    try:
        body = json.loads(result.response.body)
    except (ValueError, RecursionError):
        return []
    return list(_texts(body))


def _texts(value: Any) -> Iterator[str]:  # noqa: ANN401 - any JSON value
    if isinstance(value, str):
        yield value
    elif isinstance(value, list | dict):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from _texts(inner)


def ask_all(*experiments: Experiment) -> Learner[Sequence[ExperimentResult]]:
    """Run some experiments in one batch."""
    if not experiments:
        return ()
    return (yield experiments)


def ask_one(experiment: Experiment) -> Learner[ExperimentResult]:
    """Run one experiment."""
    return (yield (experiment,))[0]


def run_together(learnings: Mapping[str, Learner[T]]) -> Learner[dict[str, T]]:
    """Run several learners concurrently, with their experiments in common batches; return the results by name."""
    results: dict[str, T] = {}
    waiting: dict[str, Sequence[Experiment]] = {}
    for name, learning in learnings.items():
        _step(name, learning, None, waiting, results)
    while waiting:
        batch = [(name, experiment) for name, experiments in waiting.items() for experiment in experiments]
        replies = yield [experiment for _, experiment in batch]
        by_name: dict[str, list[ExperimentResult]] = {name: [] for name in waiting}
        for (name, _), result in zip(batch, replies, strict=True):
            by_name[name].append(result)
        waiting = {}
        for name, own in by_name.items():
            _step(name, learnings[name], own, waiting, results)
    return {name: results[name] for name in learnings}


def _step(
    name: str,
    learning: Learner[T],
    replies: Sequence[ExperimentResult] | None,
    waiting: dict[str, Sequence[Experiment]],
    results: dict[str, T],
) -> None:
    try:
        # The first value that a generator is sent must be None.
        waiting[name] = next(learning) if replies is None else learning.send(replies)
    except StopIteration as done:
        results[name] = done.value


def shown(value: Any) -> str:  # noqa: ANN401 - any JSON value
    """Return a value as short JSON for people."""
    text = written(value)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"


_LONGEST: Final = 40
