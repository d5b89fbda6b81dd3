"""Write what was learned as a profile in YAML, with evidence for each value and a header that lists open questions."""

import textwrap
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, NamedTuple

from compiler.artifact.from_profile import contract_of
from compiler.diagnostics import ProfileError
from compiler.pipeline import Compilation, compile_profile
from compiler.probe.error_templates import Mismatch, mismatches, samples_of, with_words, wording_of
from compiler.probe.experiment import ExperimentResult, shown
from compiler.probe.learner import LearnedContract
from compiler.probe.sections import assembled
from compiler.probe.soundness import without_wrong_rejections
from compiler.resolve.selection import Selection
from compiler.source.yaml_writer import yaml_of
from compiler.verify.check import Fields

_WIDTH: Final = 116
_LONGEST_SOURCE: Final = 1000
_MOST_SHOWN: Final = 12

_NOT_PROBED: Final = (
    "what an engine receives: defaults that are injected, values that are forced, raised, lowered, mapped or dropped",
    "whether a budget above the model's limit is clamped: a missing cap means that none was found",
    "the error text for an engine's own 400, and of responses other than 400, 404 and 413",
    "which of two violations is reported first: a draft has the default order of the language",
    "other models, other names for this one, and fields that the catalogue of the probe does not have",
)


class ProbeRun(NamedTuple):
    """The metadata of a draft: the endpoint and model, the day (as 2026-11-30), and the number of requests."""

    name: str
    model: str
    endpoint: str
    date: str
    requests: int


_FIRST_WORDS: Final = "A draft of"
DRAFT_MARK: Final = f"\n# {_FIRST_WORDS} "
"""What the header of every draft contains."""


class DraftError(Exception):
    """A draft does not compile: a bug of ours."""


class ProfileDraft(NamedTuple):
    """A profile as text, the values in it, and the responses that it would not give."""

    data: bytes
    values: Fields
    mismatches: tuple[Mismatch, ...]


def draft_of(learned: LearnedContract, run: ProbeRun) -> ProfileDraft:
    """Return the profile of what was learned. Raises DraftError if it would not compile."""
    learned = without_wrong_rejections(learned, run.model)
    values = _worded(learned, run)
    contract = contract_of(values)
    wrong = tuple(mismatches(contract, learned.results, run.model))
    data = _head(learned, run, wrong).encode() + yaml_of(values)
    _compiled(data)
    return ProfileDraft(data, values, wrong)


def profile_values(learned: LearnedContract) -> Fields:
    """Return the plain values of the profile without error texts."""
    return assembled(learned.values, learned.cases)


def _worded(learned: LearnedContract, run: ProbeRun) -> Fields:
    plain = assembled(learned.values, learned.cases)
    wording = wording_of(samples_of(plain, learned.results, run.model))
    base = with_words(learned.values, wording, None)
    cases = {name: with_words(case, wording, name) for name, case in learned.cases.items()}
    if wording.errors:
        base["errors"] = {**wording.errors, "source": "as in the rejections of this probe"}
    for case in cases.values():
        case.pop("errors", None)
    return {"name": run.name, **_dated(assembled(base, cases), run.date)}


def _dated(values: Fields, date: str) -> Fields:
    """Return values in which each source names this probe."""
    dated: Fields = {}
    for key, value in values.items():
        if key == "source" and isinstance(value, str):
            text = f"probe {date}: {' '.join(value.split())}"
            dated[key] = text if len(text) <= _LONGEST_SOURCE else f"{text[: _LONGEST_SOURCE - 1]}…"
        else:
            dated[key] = _dated(value, date) if isinstance(value, dict) else value
    return dated


def _head(learned: LearnedContract, run: ProbeRun, wrong: tuple[Mismatch, ...]) -> str:
    """Return the comment at the head of a draft."""
    asked = len({result.experiment.request.key() for result in learned.results if result.kind != "unasked"})
    lines = [
        "yaml-language-server: $schema=./profile.schema.json",
        f"{_FIRST_WORDS} what {run.model} is held to at {run.endpoint}, learned by `profilec probe` on {run.date}.",
        "",
        f"{asked} different requests got a response. The probe cannot find out:",
        *(f"- {line}" for line in _NOT_PROBED),
    ]
    open_questions = [*learned.undetermined, *_unclear(learned), *_unlike(wrong)]
    if open_questions:
        lines += ["", "What could not be determined or expressed:", *(f"- {line}" for line in open_questions)]
    return "".join(f"{line}\n" for each in lines for line in _wrapped(each))


def _wrapped(line: str) -> list[str]:
    shown = "".join(letter if letter.isprintable() else "?" for letter in line)
    if shown.startswith("yaml-language-server"):
        return [f"# {shown}"]
    indent = "  " if shown.startswith("- ") else ""
    pieces = textwrap.wrap(shown, _WIDTH, subsequent_indent=indent, break_on_hyphens=False)
    return [f"# {piece}".rstrip() for piece in pieces or [""]]


def _unclear(learned: LearnedContract) -> list[str]:
    """Return lines on the requests without a conclusive response, and on those that were not sent."""
    lines = []
    for kind, said in _INCONCLUSIVE.items():
        by_about: dict[str, list[ExperimentResult]] = {}
        for result in learned.results:
            if result.kind == kind:
                by_about.setdefault(result.experiment.about, []).append(result)
        for about, results in sorted(by_about.items()):
            responses = sorted({_answered(result) for result in results} - {""})
            details = (
                f" ({', '.join(responses)}): {'; '.join(_changes(result) for result in results[:3])}"
                if responses
                else ""
            )
            lines.append(f"{about}: {len(results)} {said}{details}")
    return lines


_INCONCLUSIVE: Final = {
    "overflow": "too long for the context that the engine runs with, which is no rule of a contract",
    "unclear": "failed",
    "unasked": "not asked: --max-requests was reached",
}
"""Texts for inconclusive responses, by verdict."""


def _answered(result: ExperimentResult) -> str:
    return result.response.failure or (str(result.response.status) if result.response.status else "")


def _changes(result: ExperimentResult) -> str:
    return ", ".join(f"{path} {shown(value)}" for path, value in result.experiment.changes.items()) or "as it is"


def _unlike(wrong: tuple[Mismatch, ...]) -> list[str]:
    """Return lines on the rules for which the draft would respond differently than the endpoint did."""
    lines = []
    for is_verdict, said in ((True, "accepted or rejected otherwise here"), (False, "rejected in other words here")):
        counts: dict[str, int] = {}
        for each in wrong:
            if each.is_verdict == is_verdict:
                counts[each.result.experiment.about] = counts.get(each.result.experiment.about, 0) + 1
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
