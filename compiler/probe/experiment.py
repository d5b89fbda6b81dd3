"""Questions, replies, and learning as a conversation: a generator that yields questions and is sent the replies.

Nothing here asks anybody: whoever drives a learning sends its questions and passes the replies in.
"""

import copy
import json
import re
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, Literal, NamedTuple, TypeVar

from compiler.verify.assertion import Answer
from compiler.verify.check import Ask, Fields, written
from compiler.verify.oracle.values import put
from router.contract.schema.fields import BUDGET_FIELDS, WHOLE_NUMBER_FIELDS

Verdict = Literal["accepted", "refused", "overflow", "unclear", "unasked"]
"""What came of a request.

overflow: it is too long for the context that the engine runs with, which is no rule of a contract. unclear: what came
back tells of the endpoint's state or of another field, or fails within it. unasked: it was not sent.
"""

_OK: Final = 200
_REFUSING: Final = range(400, 500)
_OF_ITS_STATE: Final = frozenset({401, 403, 408, 429})

T = TypeVar("T")


class Question(NamedTuple):
    """One request, and what it changes in a base request.

    about: what is asked about, in the words of `--only`. changes: by dotted path, what is set in the base request.
    without: top-level fields of the base that are left out.
    """

    about: str
    changes: Fields
    ask: Ask
    without: tuple[str, ...] = ()


class Reply(NamedTuple):
    """What came of a question."""

    question: Question
    verdict: Verdict
    answer: Answer

    @property
    def is_accepted(self) -> bool:
        """Whether the request was answered."""
        return self.verdict == "accepted"

    @property
    def is_refused(self) -> bool:
        """Whether the request was refused for what stands in it."""
        return self.verdict == "refused"

    @property
    def is_told(self) -> bool:
        """Whether the reply says anything."""
        return self.verdict in {"accepted", "refused"}


Learning = Generator[Sequence[Question], Sequence[Reply], T]
"""Asks in batches until it knows what it returns."""


class Base(NamedTuple):
    """A request that is known to be answered, to be changed in one thing at a time; `text` is the prompt in it."""

    fields: Fields
    text: str

    def question(self, about: str, changes: Fields | None = None, without: Iterable[str] = ()) -> Question:
        """Return a question that changes some fields, by dotted path, and leaves others out."""
        fields = {name: copy.deepcopy(value) for name, value in self.fields.items() if name not in without}
        for path, value in (changes or {}).items():
            put(fields, path, copy.deepcopy(value))
        return Question(about, dict(changes or {}), Ask.of(fields), tuple(without))

    def switched(self, switch: Fields) -> "Base":
        """Return the base with more fields in it."""
        return Base(self.question("", switch).ask.fields(), self.text)

    def moved(self, question: Question) -> Question:
        """Return a question that was asked of another base as one of this base."""
        moved = self.question(question.about, question.changes, question.without)
        return moved._replace(ask=moved.ask._replace(length=question.ask.length))


def reply_to(question: Question, answer: Answer | None) -> Reply:
    """Return what an answer says to a question; None: it was not sent."""
    if answer is None:
        return Reply(question, "unasked", Answer(0, "", b""))
    if answer.failure is None and answer.status == _OK:
        return Reply(question, "accepted", answer)
    if answer.failure is not None or answer.status not in _REFUSING or answer.status in _OF_ITS_STATE:
        return Reply(question, "unclear", answer)
    if _OVERFLOW.search(answer.body):
        return Reply(question, "overflow", answer)
    return Reply(question, "unclear" if _is_about_another(question, answer) else "refused", answer)


_OVERFLOW: Final = re.compile(
    rb"exceed_context_size_error|available context size"  # llama.cpp
    rb"|context_length_exceeded|maximum context length"  # OpenAI; vLLM and SGLang of a prompt
    rb"|cannot be greater than max_model_len"  # vLLM of a budget
    rb"|longer than the model's context length"  # SGLang
)
"""How engines say that a prompt, or a prompt with its budget, does not fit into their context.

Sources: llama.cpp b10434 and vLLM 0.32 as they answer, SGLang 0.5.23's source, OpenAI's guide to errors.
"""


def _is_about_another(question: Question, answer: Answer) -> bool:
    """Tell whether a refusal names a field of the request that the question did not change."""
    if not question.changes:
        return False
    changed = {path.partition(".")[0] for path in question.changes}
    # Rules of other fields may look into the messages.
    others = {name for name, _ in question.ask.members if name not in {*changed, "messages"}}
    if _param_of(answer).partition(".")[0] in others:
        return True
    # Some values are too large only for the budget that every question has.
    return any(re.search(rf"\b{name}\b".encode(), answer.body) for name in others & {*BUDGET_FIELDS})


def _param_of(answer: Answer) -> str:
    try:
        body = json.loads(answer.body)
    except (ValueError, RecursionError):
        return ""
    holder = body.get("error") if isinstance(body, dict) else None
    param = (holder if isinstance(holder, dict) else body if isinstance(body, dict) else {}).get("param")
    return param if isinstance(param, str) else ""


def is_read_otherwise(reply: Reply) -> bool:
    """Tell whether a reply is about a fraction in a field that this router reads as a whole number, whatever is ruled.

    Some engines cut it off (llama.cpp answers n: 1.5 as 1); no rule of the language takes it.
    """
    changes = reply.question.changes
    fractions = (changes.get(name) for name in WHOLE_NUMBER_FIELDS)
    return any(isinstance(value, float) and not value.is_integer() for value in fractions)


def texts_in(reply: Reply) -> list[str]:
    """Return the texts in the body of an answer, without the names of its members."""
    try:
        body = json.loads(reply.answer.body)
    except (ValueError, RecursionError):
        return []
    return list(_texts(body))


def _texts(value: Any) -> Iterator[str]:  # noqa: ANN401 - any JSON value
    if isinstance(value, str):
        yield value
    elif isinstance(value, list | dict):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from _texts(inner)


def asked(*questions: Question) -> Learning[Sequence[Reply]]:
    """Ask some questions at once."""
    if not questions:
        return ()
    return (yield questions)


def one(question: Question) -> Learning[Reply]:
    """Ask one question."""
    return (yield (question,))[0]


def together(learnings: Mapping[str, Learning[T]]) -> Learning[dict[str, T]]:
    """Learn several things side by side, so that their questions go out together; the results by their names."""
    results: dict[str, T] = {}
    waiting: dict[str, Sequence[Question]] = {}
    for name, learning in learnings.items():
        _step(name, learning, None, waiting, results)
    while waiting:
        batch = [(name, question) for name, questions in waiting.items() for question in questions]
        replies = yield [question for _, question in batch]
        by_name: dict[str, list[Reply]] = {name: [] for name in waiting}
        for (name, _), reply in zip(batch, replies, strict=True):
            by_name[name].append(reply)
        waiting = {}
        for name, own in by_name.items():
            _step(name, learnings[name], own, waiting, results)
    return {name: results[name] for name in learnings}


def _step(
    name: str,
    learning: Learning[T],
    replies: Sequence[Reply] | None,
    waiting: dict[str, Sequence[Question]],
    results: dict[str, T],
) -> None:
    try:
        # A generator that has not begun can only be sent nothing.
        waiting[name] = next(learning) if replies is None else learning.send(replies)
    except StopIteration as done:
        results[name] = done.value


def shown(value: Any) -> str:  # noqa: ANN401 - any JSON value
    """Return a value as short JSON for people."""
    text = written(value)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"


_LONGEST: Final = 40
