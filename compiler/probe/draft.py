"""What was learnt → a profile in YAML, with the evidence beside each value and what is not known at its head."""

import textwrap
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, NamedTuple

from compiler.artifact.from_profile import contract_of
from compiler.diagnostics import ProfileError
from compiler.pipeline import Compilation, compile_profile
from compiler.probe.error_templates import Mismatch, mismatches, samples_of, with_words, wording_of
from compiler.probe.experiment import Reply, shown
from compiler.probe.learner import Learnt
from compiler.probe.sections import assembled
from compiler.probe.soundness import sound
from compiler.resolve.selection import Selection
from compiler.source.yaml_writer import yaml_of
from compiler.verify.check import Fields

_WIDTH: Final = 116
_LONGEST_SOURCE: Final = 1000
_MOST_TOLD: Final = 12

_NEVER_SEEN: Final = (
    "what an engine gets: defaults that are injected, values that are forced, raised, lowered, mapped or dropped",
    "whether a budget above what a model can is clamped: where no cap is written, none was met",
    "how an engine's own 400 is told, and the words of answers other than 400, 404 and 413",
    "which of two violations is told first: a draft tells them in the language's own order",
    "other models, other names for this one, and fields that the catalogue of the probe does not have",
)


class Run(NamedTuple):
    """What stands around a draft: where it comes from, the day (as 2026-11-30), and how many requests were sent."""

    name: str
    model: str
    endpoint: str
    date: str
    requests: int


class DraftError(Exception):
    """A draft does not compile: a bug of ours."""


class Draft(NamedTuple):
    """A profile as text, the values in it, and the answers that it would not give."""

    data: bytes
    values: Fields
    mismatches: tuple[Mismatch, ...]


def draft_of(learnt: Learnt, run: Run) -> Draft:
    """Return the profile that says what was learnt. Raises DraftError where it would not compile."""
    learnt = sound(learnt, run.model)
    values = _worded(learnt, run)
    contract = contract_of(values)
    wrong = tuple(mismatches(contract, learnt.replies, run.model))
    data = _head(learnt, run, wrong).encode() + yaml_of(values)
    _compiled(data)
    return Draft(data, values, wrong)


def profile_values(learnt: Learnt) -> Fields:
    """Return the bare values of the profile without words of refusals."""
    return assembled(learnt.values, learnt.cases)


def _worded(learnt: Learnt, run: Run) -> Fields:
    plain = assembled(learnt.values, learnt.cases)
    wording = wording_of(samples_of(plain, learnt.replies, run.model))
    base = with_words(learnt.values, wording, None)
    cases = {name: with_words(case, wording, name) for name, case in learnt.cases.items()}
    if wording.errors:
        base["errors"] = {**wording.errors, "source": "as seen in the refusals of this probe"}
    for case in cases.values():
        case.pop("errors", None)
    return {"name": run.name, **_dated(assembled(base, cases), run.date)}


def _dated(values: Fields, date: str) -> Fields:
    """Return values in which each source says that it is of this probe."""
    dated: Fields = {}
    for key, value in values.items():
        if key == "source" and isinstance(value, str):
            text = f"probe {date}: {' '.join(value.split())}"
            dated[key] = text if len(text) <= _LONGEST_SOURCE else f"{text[: _LONGEST_SOURCE - 1]}…"
        else:
            dated[key] = _dated(value, date) if isinstance(value, dict) else value
    return dated


def _head(learnt: Learnt, run: Run, wrong: tuple[Mismatch, ...]) -> str:
    """Return the comment at the head of a draft."""
    asked = len({reply.question.ask.key() for reply in learnt.replies if reply.verdict != "unasked"})
    lines = [
        "yaml-language-server: $schema=./profile.schema.json",
        f"A draft of what {run.model} is held to at {run.endpoint}, learnt by `profilec probe` on {run.date}.",
        "",
        f"{asked} different requests were answered. What a request did not show does not stand here:",
        *(f"- {line}" for line in _NEVER_SEEN),
    ]
    told = [*learnt.untold, *_unclear(learnt), *_unlike(wrong)]
    if told:
        lines += ["", "What could not be told, or not be said:", *(f"- {line}" for line in told)]
    return "".join(f"{line}\n" for each in lines for line in _wrapped(each))


def _wrapped(line: str) -> list[str]:
    shown = "".join(letter if letter.isprintable() else "?" for letter in line)
    if shown.startswith("yaml-language-server"):
        return [f"# {shown}"]
    indent = "  " if shown.startswith("- ") else ""
    pieces = textwrap.wrap(shown, _WIDTH, subsequent_indent=indent, break_on_hyphens=False)
    return [f"# {piece}".rstrip() for piece in pieces or [""]]


def _unclear(learnt: Learnt) -> list[str]:
    """Say what was asked and not answered, and what was not asked."""
    lines = []
    for verdict, said in _UNTOLD.items():
        by_about: dict[str, list[Reply]] = {}
        for reply in learnt.replies:
            if reply.verdict == verdict:
                by_about.setdefault(reply.question.about, []).append(reply)
        for about, replies in sorted(by_about.items()):
            answers = sorted({_answered(reply) for reply in replies} - {""})
            told = f" ({', '.join(answers)}): {'; '.join(_changes(reply) for reply in replies[:3])}" if answers else ""
            lines.append(f"{about}: {len(replies)} {said}{told}")
    return lines


_UNTOLD: Final = {
    "overflow": "too long for the context that the engine runs with, which is no rule of a contract",
    "unclear": "failed",
    "unasked": "not asked: --max-requests was reached",
}
"""What is told of replies that say nothing, by verdict."""


def _answered(reply: Reply) -> str:
    return reply.answer.failure or (str(reply.answer.status) if reply.answer.status else "")


def _changes(reply: Reply) -> str:
    return ", ".join(f"{path} {shown(value)}" for path, value in reply.question.changes.items()) or "as it is"


def _unlike(wrong: tuple[Mismatch, ...]) -> list[str]:
    """Say of which rules the draft would answer something otherwise than it was answered."""
    lines = []
    for is_verdict, said in ((True, "accepted or refused otherwise here"), (False, "refused in other words here")):
        counts: dict[str, int] = {}
        for each in wrong:
            if each.is_verdict == is_verdict:
                counts[each.reply.question.about] = counts.get(each.reply.question.about, 0) + 1
        lines += [
            f"{about}: {count} of the requests that were sent would be {said}{_WHY.get(about, '')}"
            for about, count in sorted(counts.items())
        ]
    return lines


_WHY: Final = {
    "request": ", since this router always asks for strict JSON, a model, and a stream that is true or false"
}


def _compiled(data: bytes) -> Compilation:
    with TemporaryDirectory(prefix="profilec-probe-") as folder:
        path = Path(folder) / "draft.yaml"
        path.write_bytes(data)
        try:
            return compile_profile(Selection("file", str(path), "SOURCE"))
        except ProfileError as error:
            said = "; ".join(str(each.message) for each in error.diagnostics)
            raise DraftError(f"the draft does not compile: {said}") from error
