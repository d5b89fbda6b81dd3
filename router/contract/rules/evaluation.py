"""The state of a request during evaluation: the first error, all violations, and the edits."""

import json
from typing import TYPE_CHECKING, Any, Final, Literal

from router.contract.errors import ApiError, without_frames
from router.contract.jsonbytes.parsing import ParsedRequest
from router.contract.jsonbytes.splice import JsonEdit
from router.contract.rules.content_parts import ContentPartIndex, content_parts_of
from router.contract.schema.conditions import Path, value_at

if TYPE_CHECKING:
    from router.contract.rules.budget import Tokens


PARTS: Final = "\0parts"
"""The feature of requests in which the content of a message consists of parts."""


class EvaluationContext:
    """The results of the rules that were evaluated so far."""

    __slots__ = ("_features", "_parts", "edits", "error", "rejected_by", "request", "tokens", "values", "violations")

    def __init__(self, request: ParsedRequest, edits: list[JsonEdit]) -> None:
        self.request = request
        self.edits = edits
        self.error: ApiError | None = None
        self.rejected_by: str | None = None
        self.violations: list[str] = []
        self._features: set[str] | None = None
        self._parts: ContentPartIndex | None = None
        self.values: dict[Path, Any] = {}
        """The values that were edited, by path."""
        self.tokens: Tokens | None = None

    def features(self) -> set[str]:
        """Return the keys and the roles of all messages, and PARTS where the content of one is more than a text."""
        if self._features is None:
            self._features = _features_of(self.request.value("messages"))
        return self._features

    def parts(self) -> ContentPartIndex:
        """Return the content parts of all messages. They are collected once for all rules."""
        if self._parts is None:
            self._parts = content_parts_of(self.request.value("messages"))
        return self._parts

    def reject(self, rule: str, error: ApiError) -> None:
        """Take the error of a rule; the client gets the first one."""
        if self.error is None:
            self.error, self.rejected_by = without_frames(error), rule

    def value_at(self, path: Path) -> Any:  # noqa: ANN401 - a JSON value may be anything
        """Return the value that an engine would get at a path as things stand; None when absent or null."""
        values = self.values
        if path in values:
            return values[path]
        if values and len(path) > 1:
            for length in range(len(path) - 1, 0, -1):
                if path[:length] in values:
                    holder = values[path[:length]]
                    return value_at(holder, path[length:]) if isinstance(holder, dict) else None
        return value_at(self.request.fields, path)

    def is_sent(self, path: Path) -> bool:
        """Return whether a field is sent, be it as null."""
        holder = value_at(self.request.fields, path[:-1]) if len(path) > 1 else self.request.fields
        return isinstance(holder, dict) and path[-1] in holder

    def put(self, rule: str, path: Path, value: Any, written: bytes) -> None:  # noqa: ANN401 - any JSON value
        """Let the engine get a value at a path, written in JSON like this."""
        kind: Literal["inject", "set"] = "inject" if self.value_at(path) is None else "set"
        self.edits.append(JsonEdit(rule, kind, path, written))
        self._remember(path, value)

    def drop(self, rule: str, path: Path) -> None:
        """Keep a field from the engine."""
        self.edits.append(JsonEdit(rule, "drop", path))
        self._remember(path, None)

    def add_edits(self, edits: list[JsonEdit]) -> None:
        """Take edits that a step has made by itself."""
        self.edits += edits
        for edit in edits:
            if edit.kind != "remove":
                self._remember(edit.path, json.loads(edit.value) if edit.value else None)

    def _remember(self, path: Path, value: Any) -> None:  # noqa: ANN401 - any JSON value
        # The cached values inside an object are invalid once the object is replaced.
        for other in [other for other in self.values if len(other) > len(path) and other[: len(path)] == path]:
            del self.values[other]
        self.values[path] = value


def _features_of(messages: object) -> set[str]:
    marks: set[str] = set()
    for message in messages if isinstance(messages, list) else ():
        if not isinstance(message, dict):
            continue
        marks.update(message)
        role, content = message.get("role"), message.get("content")
        if isinstance(role, str):
            marks.add(role)
        if content is not None and not isinstance(content, str):
            marks.add(PARTS)
    return marks
