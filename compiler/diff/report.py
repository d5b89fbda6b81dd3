"""The report of a comparison: as text, as JSON for programs, as Markdown for a pull request."""

import json
import re
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Final

import msgspec

from compiler.diagnostics import printable
from compiler.diff.change import Change, any_of
from compiler.diff.values import Value, size, text_of

FORMAT_VERSION: Final = 1
"""The version of the JSON report."""

EFFECTS: Final = ("tighter", "looser", "other")
_OUTCOMES: Final = {
    True: "some requests will newly be rejected, or the budget they ask for lowered",
    None: "some requests may newly be rejected, or the budget they ask for lowered",
    False: "no request will newly be rejected, nor the budget it asks for lowered",
}
_SEEN: Final = {
    True: "some requests will newly be rejected",
    None: "some requests may newly be rejected",
    False: "no request that was tried will newly be rejected",
}
"""The same where only what clients see is compared."""

_MEANS_SOMETHING = re.compile(r"(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])|[\\`*\[\]<>|~&]")


@dataclass(frozen=True, slots=True)
class ComparedSource:
    """One of the two sides: its name on the command line, and what it resolved to."""

    source: str
    name: str
    digest: str


@dataclass(frozen=True, slots=True)
class RequestCounts:
    """Number of requests that were tested with both contracts, and of those with different results."""

    requests: int
    differing: int


@dataclass(frozen=True, slots=True)
class Comparison:
    """The two sides and every change from the first to the second.

    models: the models that are compared; none: all. tried: the request counts, if observable results were compared.
    """

    before: ComparedSource
    after: ComparedSource
    changes: tuple[Change, ...]
    models: tuple[str, ...] = ()
    tried: RequestCounts | None = None

    def counts(self) -> dict[str, int]:
        """Return how many changes there are of each effect."""
        effects = [change.effect for change in self.changes]
        return {effect: effects.count(effect) for effect in EFFECTS}

    def verdict(self) -> str:
        """Summarise the changes in one line."""
        if not self.changes:
            return self._equal()
        counts = [(count, effect) for effect, count in self.counts().items() if count]
        number = len(self.changes)
        which = counts[0][1] if number == 1 else ", ".join(f"{count} {effect}" for count, effect in counts)
        tightens = any_of(change.tightens for change in self.changes)
        outcome = _OUTCOMES[tightens] if self.tried is None else _SEEN[tightens]
        seen = "" if self.tried is None else f", seen in {self.tried.differing:,} of {self.tried.requests:,} requests"
        return f"{number} change{'s' if number > 1 else ''} ({which}){self._scope()}{seen}: {outcome}."

    def _equal(self) -> str:
        if self.tried is None:
            return f"The contracts are equal{self._scope()}."
        counted = f"{self.tried.requests:,} requests have equal results"
        return f"A client cannot distinguish the contracts{self._scope()}: {counted}."

    def _scope(self) -> str:
        return f" for {' and '.join(map(text_of, self.models))}" if self.models else ""


def as_text(comparison: Comparison) -> str:
    """Return one line for each change, and the verdict."""
    lines = [
        f"{change.path} {' → '.join(_values(change))}: {_effect(change)}: {change.consequence}\n"
        for change in comparison.changes
    ]
    return "".join(lines) + f"{comparison.verdict()}\n"


def as_json(comparison: Comparison) -> str:
    """Return everything as one JSON object."""
    value = {
        "format_version": FORMAT_VERSION,
        "equal": not comparison.changes,
        "verdict": comparison.verdict(),
        "before": _side(comparison.before),
        "after": _side(comparison.after),
        "counts": comparison.counts(),
        "changes": [_change(change) for change in comparison.changes],
        **_asked_for(comparison),
    }
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"


def _asked_for(comparison: Comparison) -> dict[str, object]:
    """Return the limits that the command line sets for the comparison."""
    models: dict[str, object] = {"models": list(comparison.models)} if comparison.models else {}
    return models if comparison.tried is None else {**models, "observable": asdict(comparison.tried)}


def as_markdown(comparison: Comparison) -> str:
    """Return a heading, the verdict and a table."""
    before, after = (_code(printable(side.source)) for side in (comparison.before, comparison.after))
    lines = [f"### API contract: {before} → {after}", "", f"**{comparison.verdict()}**"]
    if comparison.changes:
        lines += ["", "| setting | before | after | effect | what changes |", "|---|---|---|---|---|"]
        lines += map(_row, comparison.changes)
    return "\n".join(lines) + "\n"


RENDERERS: Final[dict[str, Callable[[Comparison], str]]] = {
    "text": as_text,
    "json": as_json,
    "markdown": as_markdown,
}
"""The function that writes each `--format`."""


def _values(change: Change) -> tuple[str, str]:
    return _value(change.path, change.before), _value(change.path, change.after)


def _value(path: str, value: Value) -> str:
    return size(value) if path == "limits.max_body_bytes" and isinstance(value, int) else text_of(value)


def _effect(change: Change) -> str:
    if change.effect != "other" or change.tightens is change.loosens is False:
        return change.effect
    sure = [word for word, effect in (("tighter", change.tightens), ("looser", change.loosens)) if effect is True]
    maybe = [word for word, effect in (("tighter", change.tightens), ("looser", change.loosens)) if effect is None]
    words = sure + ([f"perhaps {' or '.join(maybe)}"] if maybe else [])
    return f"other ({' and '.join(words)})"


def _side(side: ComparedSource) -> dict[str, str]:
    return {"source": side.source, "name": side.name, "digest": side.digest}


def _change(change: Change) -> dict[str, object]:
    return {
        "path": change.path,
        "before": msgspec.to_builtins(change.before),
        "after": msgspec.to_builtins(change.after),
        "effect": change.effect,
        "tightens": change.tightens,
        "loosens": change.loosens,
        "consequence": change.consequence,
    }


def _row(change: Change) -> str:
    values = [_code(value).replace("|", "\\|") for value in _values(change)]
    words = _MEANS_SOMETHING.sub(r"\\\g<0>", change.consequence)
    return f"| {' | '.join([_code(change.path), *values, _effect(change), words])} |"


def _code(text: str) -> str:
    """Return a code span, fenced by more backticks than the text has in a row."""
    fence = "`" * (max((len(run) for run in re.findall("`+", text)), default=0) + 1)
    space = " " if text.startswith("`") or text.endswith("`") else ""
    return f"{fence}{space}{text}{space}{fence}"
