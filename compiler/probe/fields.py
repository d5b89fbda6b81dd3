"""Learn one request field: send test values, and find the rule that explains the results best."""

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple

from compiler.artifact.from_profile import field_of
from compiler.language.constraints import CONSTRAINTS
from compiler.language.samples import FOREIGN, items_of
from compiler.probe.boundary_search import AcceptedNumbers, RangeEnd, numbers
from compiler.probe.evidence import evidence_of_numbers, evidence_of_values
from compiler.probe.experiment import (
    BaseRequest,
    ExperimentResult,
    Learner,
    ask_all,
    ask_one,
    is_read_otherwise,
    shown,
    texts_in,
)
from compiler.probe.seed_corpus import CorpusEntry
from compiler.probe.texts import AcceptedTexts, learn_texts, rules_of_texts
from compiler.verify.check import Fields
from compiler.verify.oracle.values import at
from router.contract.rules.field_tests import tests_of
from router.contract.schema.rule_list import FieldRule

_KINDS: Final = ("number", "integer", "string", "boolean", "array", "object")
_ODD: Final[tuple[Any, ...]] = ("hot", "", True, 1, 1.5, [1], [], {"a": 1})
_ODD_NUMBERS: Final[tuple[Any, ...]] = (2.0,)
_ODD_SWITCHES: Final[tuple[Any, ...]] = ("true", "1", 0)
_SCREEN_OF_NUMBERS: Final[tuple[Any, ...]] = (0.37, 1, "hot", [1])
_SCREEN_OF_WORDS: Final[tuple[Any, ...]] = (FOREIGN, 1, True, [1], {"a": 1})
_SCREEN_OF_OBJECTS: Final[tuple[Any, ...]] = ("hot", 1, True, [1], {})
_MOST_GAPS: Final = 6
_LONGEST_TEXTS: Final = (1, 16, 32, 33, 64, 65, 128, 256, 257, 1024, 4096)


class LearnedField(NamedTuple):
    """What was learned about a field: its rule in the profile language, in which `source` gives the evidence.

    good: a value that is accepted (None: none is known). undetermined: lines on what could not be determined.
    """

    rule: Fields
    good: Any = None
    undetermined: tuple[str, ...] = ()


def learn_field(base: BaseRequest, entry: CorpusEntry) -> Learner[LearnedField]:
    """Learn the rule of a field, with the companion fields that some endpoints require."""
    if not entry.beside:
        return (yield from _learn(base, entry, {}))
    alone = yield from ask_one(base.experiment(f"fields.{entry.path}", entry.beside))
    beside = entry.beside if alone.is_accepted else {}
    found = yield from _learn(base, entry, beside)
    if found.good is None or not beside:
        return found
    return (yield from _required_beside(base, entry, found))


def _learn(base: BaseRequest, entry: CorpusEntry, beside: Fields) -> Learner[LearnedField]:
    about = f"fields.{entry.path}"
    trials = _ValueTrials(base, about, entry.path, beside)
    screen = _screen_of(entry)
    yield from trials.about(*screen)
    if entry.kind == "words":
        entry = entry._replace(values=(*entry.values, *_words_listed(trials.results, entry)))
        yield from trials.about(*entry.values)
    if all(result.is_accepted for result in trials.results):
        return LearnedField({}, next(iter(_good_of(trials.results, entry)), None))
    if not any(result.is_conclusive for result in trials.results):
        return LearnedField({}, None, (f"{about}: nothing that was tried was answered or rejected",))
    of_numbers, of_texts = None, None
    if entry.kind in {"fraction", "whole"}:
        of_numbers = yield from _numbers(trials, entry)
    elif entry.kind == "list":
        of_numbers = yield from _counts(trials, entry)
        if entry.path == "stop":
            of_texts = yield from learn_texts(trials.experiment, _LONGEST_TEXTS, are_letters_tried=False)
    elif entry.kind == "text":
        of_texts = yield from learn_texts(trials.experiment)
    if of_texts is not None:
        trials.keep(of_texts.results)
    if entry.kind not in {"list", "text"} or entry.path == "stop":
        yield from trials.about(*_ODD, *_odd_of(entry))
    return _fitted(entry, trials.results, of_numbers, of_texts)


def _words_listed(results: Iterable[ExperimentResult], entry: CorpusEntry) -> list[str]:
    """Return the quoted words of the rejection of an unknown value; some may be accepted values."""
    rejected = [result for result in results if result.is_rejected and FOREIGN in result.experiment.changes.values()]
    said = " ".join(text for result in rejected for text in texts_in(result))
    words = dict.fromkeys(_QUOTED.findall(said))
    return [word for word in words if word not in {*entry.values, entry.path, FOREIGN}][:_MOST_WORDS]


_QUOTED: Final = re.compile(r"['\"`]([a-z][a-z0-9_-]{1,24})['\"`]")
_MOST_WORDS: Final = 8


def _odd_of(entry: CorpusEntry) -> tuple[Any, ...]:
    """Return values that some engines read as others of their kind."""
    if entry.kind in {"fraction", "whole"}:
        return _ODD_NUMBERS
    return _ODD_SWITCHES if True in entry.values or False in entry.values else ()


class _ValueTrials:
    """Tests values of one field and keeps all results."""

    def __init__(self, base: BaseRequest, about: str, path: str, beside: Fields) -> None:
        self._base, self._about, self._path, self._beside = base, about, path, beside
        self._seen: set[str] = set()
        self.results: list[ExperimentResult] = []

    def experiment(self, value: object) -> Any:  # noqa: ANN401 - a question
        return self._base.experiment(self._about, {**self._beside, self._path: value})

    def about(self, *values: object) -> Learner[None]:
        new = [value for value in values if repr(value) not in self._seen]
        self._seen |= {repr(value) for value in new}
        self.results += yield from ask_all(*map(self.experiment, new))

    def keep(self, results: Iterable[ExperimentResult]) -> None:
        self.results += results


def _screen_of(entry: CorpusEntry) -> tuple[Any, ...]:
    """Return the few values that show whether anything is rejected at all."""
    if entry.kind in {"fraction", "whole"}:
        return (entry.values[0], entry.values[-1], *_SCREEN_OF_NUMBERS)
    if entry.kind == "words":
        return (*entry.values, *_SCREEN_OF_WORDS)
    if entry.kind == "list":
        counts = [items_of(entry.path, int(count)) for count in (0, 1, entry.values[-1])]
        return (*counts, "~", 1, "a" * 4096) if entry.path == "stop" else tuple(counts)
    if entry.kind == "text":
        return ("a", "abcdef", "é/ \n~", "a" * 1024, 1)
    return _SCREEN_OF_OBJECTS


def _numbers(trials: _ValueTrials, entry: CorpusEntry) -> Learner[AcceptedNumbers]:
    ladder = [float(value) for value in entry.values]
    found = yield from numbers(
        lambda number: trials.experiment(_plain(number)),
        [_plain(each) for each in ladder],
        is_whole=entry.kind == "whole",
    )
    trials.keep(found.results)
    if found.accepted:
        good, bad = found.accepted[-1], -1000000
        yield from trials.about(str(good), f" {good} ", f"{good}x", str(bad))
    return found


def _counts(trials: _ValueTrials, entry: CorpusEntry) -> Learner[AcceptedNumbers]:
    found = yield from numbers(
        lambda count: trials.experiment(_items(entry.path, int(count))),
        [int(each) for each in entry.values],
        is_whole=True,
    )
    trials.keep(found.results)
    return found


def _items(path: str, count: int) -> list[Any]:
    """Return a list of `count` items; messages alternate between roles, the user first and last."""
    if path != "messages" or count % 2 or not count:
        return items_of(path, count)
    return [{"role": "system", "content": "Say OK."}, *items_of(path, count - 1)]


def _plain(number: float) -> float:
    return int(number) if float(number).is_integer() else number


def _fitted(
    entry: CorpusEntry,
    results: list[ExperimentResult],
    of_numbers: AcceptedNumbers | None,
    of_texts: AcceptedTexts | None,
) -> LearnedField:
    """Return the rule that explains the results best; of equally good ones the simplest."""
    conclusive = [result for result in results if result.is_conclusive]
    if not any(result.is_accepted for result in conclusive):
        if entry.path == "messages":
            return LearnedField({}, None, ("fields.messages: every number of messages that was tried is rejected",))
        return LearnedField({"reject": True, "source": f"every value that was tried is rejected {_status(conclusive)}"})
    if all(result.is_accepted for result in conclusive):
        return LearnedField({}, next(iter(_good_of(conclusive, entry)), None))
    best, fewest = {}, None
    for rule in _hypotheses(entry, conclusive, of_numbers, of_texts):
        wrong = _missed(entry.path, rule, conclusive)
        if wrong is not None and (fewest is None or wrong < fewest):
            best, fewest = rule, wrong
    undetermined = []
    if of_numbers is not None and any(edge and not edge.is_exact for edge in (of_numbers.low, of_numbers.high)):
        undetermined.append(f"fields.{entry.path}: an edge lies between two decimals of four places")
    if of_numbers is not None and of_numbers.gaps and entry.kind != "list":
        gaps = ", ".join(map(shown, of_numbers.gaps[:_MOST_GAPS]))
        undetermined.append(
            f"fields.{entry.path}: {gaps} rejected between values that are accepted; no rule says just that"
        )
    if of_numbers is not None and of_numbers.kind == "set" and entry.kind != "list" and "allowed" in best:
        undetermined.append(f"fields.{entry.path}: other values than those that were tried may be accepted")
    if not best:
        rejected = [
            shown(at(result.experiment.request.fields(), entry.path)) for result in conclusive if result.is_rejected
        ]
        undetermined.append(
            f"fields.{entry.path}: {', '.join(rejected[:6])} rejected; no rule of the language says just that"
        )
        return LearnedField({}, next(iter(_good_of(conclusive, entry)), None), tuple(undetermined))
    is_set = of_numbers is not None and of_numbers.kind == "set" and "allowed" in best
    said = (
        evidence_of_numbers(of_numbers)
        if of_numbers is not None and (is_set or _is_about_numbers(best))
        else evidence_of_values(conclusive, entry.path)
    )
    return LearnedField({**best, "source": said}, next(iter(_good_of(conclusive, entry)), None), tuple(undetermined))


def _is_about_numbers(rule: Fields) -> bool:
    return not rule.keys().isdisjoint({*_RANGE, "min_items", "max_items"})


_RANGE: Final = tuple(constraint.key for constraint in CONSTRAINTS if constraint.is_of_numbers)


def _hypotheses(
    entry: CorpusEntry,
    conclusive: list[ExperimentResult],
    of_numbers: AcceptedNumbers | None,
    of_texts: AcceptedTexts | None,
) -> Iterator[Fields]:
    """Yield rules that may explain the results, the simplest first."""
    plain: list[Fields] = [{}]
    if of_numbers is not None and of_numbers.kind == "band":
        plain.append(_bounds(of_numbers, "items" if entry.kind == "list" else ""))
    if of_texts is not None:
        plain += [{**rule, **more} for rule in list(plain) for more in rules_of_texts(of_texts)]
    allowed = _accepted_scalars(conclusive, entry) if _is_listed(entry, conclusive, of_numbers) else []
    sets: list[Fields] = [{"allowed": allowed}] if allowed else []
    kinds = _kinds_taken(conclusive, entry)
    yield from plain
    yield from ({"type": kind} for kind in kinds)
    yield from sets
    yield from ({"type": kind, **rule} for rule in (*plain[1:], *sets) for kind in kinds)


def _is_listed(entry: CorpusEntry, conclusive: list[ExperimentResult], of_numbers: AcceptedNumbers | None) -> bool:
    """Return whether the accepted values may be a list. Numbers are one if some between them are rejected."""
    if of_numbers is not None:
        return entry.kind != "list" and of_numbers.kind == "set"
    taken = [at(result.experiment.request.fields(), entry.path) for result in conclusive if result.is_accepted]
    return entry.kind == "words" and not any(type(value) in {int, float} for value in taken)


def _kinds_taken(conclusive: list[ExperimentResult], entry: CorpusEntry) -> list[Any]:
    """Return the `type` of the accepted values."""
    kinds: list[Any] = [kind for kind in _KINDS if _takes_kind(conclusive, entry.path, kind)]
    if entry.kind == "whole":
        kinds.sort(key=lambda kind: kind != "integer")
    pair = [["string", "array"]] if "string" in kinds and "array" in kinds else []
    # Whole numbers are numbers.
    wide = [kind for kind in kinds if kind != "integer" or "number" not in kinds]
    narrow = [kind for kind in kinds if kind != "number"]
    return [*kinds, *pair, *(each for each in (narrow, wide) if len(each) > 1 and each != pair)]


def _accepted_scalars(conclusive: list[ExperimentResult], entry: CorpusEntry) -> list[Any]:
    values = [at(result.experiment.request.fields(), entry.path) for result in conclusive if result.is_accepted]
    scalars = [value for value in values if isinstance(value, bool | int | float | str)]
    numbers_in = sorted({each for each in scalars if isinstance(each, int | float) and not isinstance(each, bool)})
    words = [each for each in scalars if isinstance(each, bool) or (isinstance(each, str) and each in entry.values)]
    if numbers_in:
        # A true that is taken as the number 1 is no value of its own.
        words = [each for each in words if isinstance(each, str) or (1 if each else 0) not in numbers_in]
    order = {repr(value): place for place, value in enumerate(entry.values)}
    return [*numbers_in, *sorted(dict.fromkeys(words), key=lambda each: order.get(repr(each), len(order)))]


def _takes_kind(conclusive: list[ExperimentResult], path: str, kind: str) -> bool:
    rule = tuple(tests_of(FieldRule(path, field_of({"type": kind}), path)))
    for result in conclusive:
        fields = result.experiment.request.fields()
        value = at(fields, path)
        if result.is_accepted and value is not None and rule[0](value, fields) is None:
            return True
    return False


def _bounds(found: AcceptedNumbers, suffix: str) -> Fields:
    if suffix:
        sides = {"min_items": found.low, "max_items": found.high}
        return {name: int(edge.at) for name, edge in sides.items() if edge is not None}
    return {**_side(found.low, "min", "above"), **_side(found.high, "max", "below")}


def _side(edge: RangeEnd | None, closed: str, is_open: str) -> Fields:
    return {} if edge is None else {closed if edge.is_inside else is_open: edge.at}


def _missed(path: str, rule: Fields, conclusive: Sequence[ExperimentResult]) -> int | None:
    """Return the number of rejections that a rule does not explain; None if it rejects an accepted value."""
    tests = tuple(tests_of(FieldRule(path, field_of(rule), path)))
    missed, is_of_numbers = 0, not rule.keys().isdisjoint({*_RANGE, "allowed"})
    for result in conclusive:
        fields = result.experiment.request.fields()
        value = at(fields, path)
        passes = value is None or all(test(value, fields) is None for test in tests)
        if result.is_accepted and not passes and not (is_of_numbers and is_read_otherwise(result)):
            return None
        missed += passes and result.is_rejected
    return missed


def _good_of(results: Iterable[ExperimentResult], entry: CorpusEntry) -> Iterator[Any]:
    """Yield accepted values, the known values of the field first."""
    accepted = [at(result.experiment.request.fields(), entry.path) for result in results if result.is_accepted]
    likely = (1, 0.95, 0, *entry.values, ["~0"], "abcdef")
    yield from (value for value in accepted if any(value == each and type(value) is type(each) for each in likely))
    yield from (value for value in accepted if value is not None)


def _status(conclusive: Iterable[ExperimentResult]) -> str:
    found = sorted({result.response.status for result in conclusive if result.is_rejected})
    return f"({', '.join(map(str, found))})"


def _required_beside(base: BaseRequest, entry: CorpusEntry, found: LearnedField) -> Learner[LearnedField]:
    """Learn whether a field needs the companion fields that were sent."""
    about = f"fields.{entry.path}"
    ((path, value),) = entry.beside.items()
    other = (not value) if isinstance(value, bool) else FOREIGN
    alike = ("true", 1) if value is True else ()
    without, *otherwise = yield from ask_all(
        base.experiment(about, {entry.path: found.good}),
        *(base.experiment(about, {path: each, entry.path: found.good}) for each in (other, *alike)),
    )
    if not without.is_rejected:
        return found
    requires: Any = {path: value} if all(result.is_rejected for result in otherwise) else [path]
    needed = f"{path} {shown(value)}" if isinstance(requires, dict) else path
    said = f"needs {needed}: rejected without {_status([without])}"
    source = f"{found.rule['source']}; {said}" if found.rule else said
    return found._replace(rule={**found.rule, "requires": requires, "source": source})
