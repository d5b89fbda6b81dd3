"""A request while the rules are run: the first refusal, all violations, the edits due."""

from typing import TYPE_CHECKING, Any, Literal

from router.contract.conditions import Path, value_at
from router.contract.editing import Edit
from router.contract.errors import ApiError
from router.contract.parsing import Request

if TYPE_CHECKING:
    from router.contract.budget import Tokens


class Draft:
    """What the rules have said of a request so far."""

    __slots__ = ("edits", "error", "refused_by", "request", "tokens", "values", "violations")

    def __init__(self, request: Request, edits: list[Edit]) -> None:
        self.request = request
        self.edits = edits
        self.error: ApiError | None = None
        self.refused_by: str | None = None
        self.violations: list[str] = []
        self.values: dict[Path, Any] = {}
        """The values that were edited, by path."""
        self.tokens: Tokens | None = None

    def refuse(self, rule: str, error: ApiError) -> None:
        """Take the error of a rule; the first one is what the client is told."""
        if self.error is None:
            self.error, self.refused_by = error, rule

    def value_at(self, path: Path) -> Any:  # noqa: ANN401 - a JSON value may be anything
        """Return the value that an engine would get at a path as things stand; None when absent or null."""
        return self.values[path] if path in self.values else value_at(self.request.fields, path)

    def put(self, rule: str, path: Path, value: Any, written: bytes) -> None:  # noqa: ANN401 - any JSON value
        """Let the engine get a value at a path, written in JSON like this."""
        kind: Literal["inject", "set"] = "inject" if self.value_at(path) is None else "set"
        self.edits.append(Edit(rule, kind, path, written))
        self.values[path] = value

    def drop(self, rule: str, path: Path) -> None:
        """Keep a field from the engine."""
        self.edits.append(Edit(rule, "drop", path))
        self.values[path] = None
