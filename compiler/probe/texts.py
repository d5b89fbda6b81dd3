"""Learn the texts that a field or a name accepts: their length and their characters."""

import json
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple

from compiler.probe.boundary_search import AcceptedNumbers, numbers
from compiler.probe.experiment import Experiment, ExperimentResult, Learner, ask_all
from compiler.verify.check import Fields
from router.contract.rules.patterns import MAX_REPEATS

AskText = Callable[[object], Experiment]

LENGTHS: Final = (0, 1, 2, 3, 5, 6, 32, 33, 63, 64, 65, 128, 129, 256, 257, 512, 513, 1024)

_LETTERS: Final = {
    "B": "A-Z",
    "a": "a-z",
    "3": "0-9",
    "_": "_",
    "-": "-",
    ".": ".",
    " ": " ",
    "~": "~",
    "é": "é",
    "/": "/",
    ":": ":",
    "\n": "\\n",
}
"""The characters that are tested, and the pattern for their kind."""

_TWO_BYTES: Final = "é"
_SHORTEST: Final = 2


class AcceptedTexts(NamedTuple):
    """The accepted texts: their length, the first and the further characters, and the unit of the length.

    is_length_its_own: whether a text that is too long gets another message than one with wrong characters.
    """

    lengths: AcceptedNumbers
    first: str
    rest: str
    are_bytes: bool
    results: tuple[ExperimentResult, ...]
    is_length_its_own: bool = False

    @property
    def takes_any_letter(self) -> bool:
        """Whether no letter is rejected."""
        return len(self.first) == len(self.rest) == len(_LETTERS)


def learn_texts(
    request: AskText, lengths: Sequence[int] = LENGTHS, *, are_letters_tried: bool = True
) -> Learner[AcceptedTexts]:
    """Learn which texts are accepted."""
    found = yield from numbers(lambda count: request("a" * int(count)), lengths, is_whole=True)
    fitting = [int(each) for each in found.accepted if each >= _SHORTEST]
    every = "".join(_LETTERS)
    if not fitting:
        return AcceptedTexts(found, every, every, are_bytes=False, results=found.results)
    size = fitting[min(1, len(fitting) - 1)]
    first, rest, results = every, every, list(found.results)
    if are_letters_tried:
        others = [letter for letter in _LETTERS if letter != "a"]
        led = yield from ask_all(*(request(f"{letter}{'a' * (size - 1)}") for letter in others))
        followed = yield from ask_all(*(request(f"a{letter}{'a' * (size - 2)}") for letter in others))
        first = "a" + "".join(letter for letter, result in zip(others, led, strict=True) if result.is_accepted)
        rest = "a" + "".join(letter for letter, result in zip(others, followed, strict=True) if result.is_accepted)
        results += [*led, *followed]
    are_bytes = False
    if found.high is not None and _TWO_BYTES in rest:
        wide = yield from ask_all(request(_TWO_BYTES * int(found.high.at)))
        are_bytes = wide[0].is_rejected
        results += wide
    return AcceptedTexts(found, first, rest, are_bytes, tuple(results), _is_length_its_own(found, results))


def _is_length_its_own(found: AcceptedNumbers, results: list[ExperimentResult]) -> bool:
    most = 0 if found.high is None else found.high.at
    rejected = [result for result in results if result.is_rejected]
    long = {_plain(result) for result in rejected if len(_text_of(result)) > most}
    wrong = {_plain(result) for result in rejected if len(_text_of(result)) <= most}
    return bool(most and long and wrong) and long.isdisjoint(wrong)


def _text_of(result: ExperimentResult) -> str:
    values = [value for value in result.experiment.changes.values() if isinstance(value, str)]
    return values[-1] if values else ""


def _plain(result: ExperimentResult) -> str:
    """Return the message of a response without sent values and numbers, so that equal messages are equal."""
    said, sent = result.response.body.decode(errors="replace"), _text_of(result)
    # The message may contain a text as JSON, and as JSON within JSON.
    for form in (json.dumps(json.dumps(sent, ensure_ascii=False), ensure_ascii=False)[1:-1], json.dumps(sent), sent):
        said = said.replace(form, "") if form else said
    return re.sub(r"[0-9]+|a{3,}[^ ]*|[\"\\\\]", "", said)


def rules_of_texts(texts: AcceptedTexts) -> Iterator[Fields]:
    """Yield rules that may describe the accepted texts."""
    high = texts.lengths.high
    if texts.takes_any_letter and texts.lengths.low is None:
        if high is not None and texts.are_bytes:
            yield {"max_bytes": int(high.at)}
        elif high is not None:
            yield {"pattern": pattern_of(texts)}
        return
    if high is not None and texts.is_length_its_own:
        yield {"pattern": pattern_of(texts, is_bounded=False), "max_bytes": int(high.at)}
    yield {"pattern": pattern_of(texts)}


def pattern_of(texts: AcceptedTexts, *, is_bounded: bool = True) -> str:
    """Return the pattern of the texts that are accepted."""
    low = 0 if texts.lengths.low is None else int(texts.lengths.low.at)
    high = None if texts.lengths.high is None or not is_bounded else int(texts.lengths.high.at)
    first, rest = _class(texts.first), _class(texts.rest)
    if first == rest:
        return _repeated(rest, low, high)
    return first + _repeated(rest, max(0, low - 1), None if high is None else high - 1)


def _class(letters: str) -> str:
    if set(letters) == set(_LETTERS):
        return "[\\s\\S]"
    if set(letters) == set(_LETTERS) - {"\n"}:
        return "."
    inner = "".join(_LETTERS[each] for each in _LETTERS if each in letters and each != "-")
    return f"[{inner}{'-' if '-' in letters else ''}]"


def _repeated(letters: str, low: int, high: int | None) -> str:
    if max(low, high or 0) <= MAX_REPEATS:
        return f"{letters}{_times(low, high)}"
    behind = None if high is None else high - MAX_REPEATS
    beginning = f"{letters}{_times(min(low, MAX_REPEATS), MAX_REPEATS)}"
    return beginning + _repeated(letters, max(0, low - MAX_REPEATS), behind)


def _times(low: int, high: int | None) -> str:
    if high is None:
        return {0: "*", 1: "+"}.get(low, f"{{{low},}}")
    return f"{{{low},{high}}}"
