"""Questions, replies, and learning as a conversation: a generator that yields questions and is sent the replies.

Nothing here asks anybody: whoever drives a learning sends its questions and passes the replies in.
"""

import copy
import json
from collections.abc import Generator, Iterable, Mapping, Sequence
from typing import Any, Final, Literal, NamedTuple, TypeVar

from compiler.verify.check import Ask, Fields, written
from compiler.verify.judgement import Answer
from compiler.verify.meaning.values import put

Verdict = Literal["accepted", "refused", "unclear", "unasked"]
"""unclear: what came back tells of the endpoint's state, or fails within it; unasked: it was not sent."""

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
    refuses = answer.failure is None and answer.status in _REFUSING and answer.status not in _OF_ITS_STATE
    is_refusal = refuses and not _is_about_another(question, answer)
    return Reply(question, "refused" if is_refusal else "unclear", answer)


def _is_about_another(question: Question, answer: Answer) -> bool:
    """Tell whether a refusal names a field of the request that the question did not change."""
    try:
        body = json.loads(answer.body)
    except (ValueError, RecursionError):
        return False
    holder = body.get("error") if isinstance(body, dict) else None
    param = (holder if isinstance(holder, dict) else body if isinstance(body, dict) else {}).get("param")
    if not isinstance(param, str) or not question.changes:
        return False
    root = param.partition(".")[0]
    changed = {path.partition(".")[0] for path in question.changes}
    # Rules of other fields may look into the messages.
    return root not in {*changed, "messages"} and any(root == name for name, _ in question.ask.members)


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
