"""Learn the limits on images and bodies: the number, sources and size of images, and the size of the body."""

from collections.abc import Callable
from typing import Any, Final, NamedTuple

from compiler.artifact.sizes import size_of
from compiler.probe.boundary_search import numbers
from compiler.probe.conversations import LearnedChecks, error_words
from compiler.probe.evidence import evidence_of
from compiler.probe.experiment import BaseRequest, Experiment, ExperimentResult, Learner, ask_all, ask_one
from compiler.verify.check import Fields, run_of_letters
from compiler.verify.generation.limits import PIXEL
from router.contract.schema.sections import DEFAULT_MAX_BODY_BYTES

IsAccepted = Callable[[ExperimentResult], bool]
"""Returns whether a size was accepted, given the result."""

MIB: Final = 1024 * 1024
_MEGABYTE: Final = 1_000_000
_DATA: Final = "data:image/png;base64,"
_COUNTS: Final = (1, 2, 3, 4, 5, 8, 10, 16, 20, 30, 32, 50, 60, 64, 100, 128, 250, 251, 256, 512, 600, 1024, 1500, 2048)
_SMALL: Final = f"{_DATA}AA=="


class LearnedLimits(NamedTuple):
    """The sections `limits` and `checks.images` as a profile writes them, and what could not be determined."""

    limits: Fields
    checks: dict[str, Fields]
    undetermined: tuple[str, ...] = ()


def learn_images(base: BaseRequest, max_body: int) -> Learner[LearnedLimits]:
    """Learn how many images are taken, from where, and how large."""
    first = yield from ask_one(_showing(base, "limits.max_images", [PIXEL]))
    if first.is_rejected:
        more = yield from ask_all(*(_showing(base, "limits.max_images", [PIXEL] * count) for count in (2, 3)))
        said = evidence_of([], ["1 image", "2 images"], [first, *more])
        size, undetermined = yield from _learn_size(base, max_body, usual=error_words(first))
        return LearnedLimits({"max_images": 0, "source": said}, {} if size is None else {"images": size}, undetermined)
    if not first.is_accepted:
        return LearnedLimits({}, {}, ("limits.max_images: no image was answered or rejected",))
    sources = yield from _learn_sources(base)
    small = [_SMALL]
    counted = yield from largest_count(lambda count: _showing(base, "limits.max_images", small * count), "max_images")
    check: Fields = sources.rules.get("images", {})
    undetermined = (*sources.undetermined, *counted.undetermined)
    limits = counted.limits
    if limits:
        beyond = ["https://127.0.0.1/a.png"] * (limits["max_images"] + 1)
        elsewhere = yield from ask_one(_showing(base, "limits.max_images", beyond))
        if elsewhere.is_accepted:
            check = {**check, "max_data_urls": limits["max_images"], "source": limits["source"]}
            limits = {}
    size, size_gaps = yield from _learn_size(base, max_body)
    undetermined = (*undetermined, *size_gaps)
    if size is not None:
        check = {**check, **size}
    return LearnedLimits(limits, {"images": check} if check else {}, undetermined)


def largest_count(carrying: Callable[[int], Experiment], limit: str) -> Learner[LearnedLimits]:
    """Learn the largest accepted number of parts, as a member of `limits`; one part is accepted."""
    most = yield from ask_one(carrying(_COUNTS[-1]))
    if most.is_accepted:
        return LearnedLimits({}, {})
    counted = yield from numbers(lambda count: carrying(int(count)), _COUNTS, is_whole=True)
    if any(result.response.status == _TOO_LARGE for result in counted.results):
        return LearnedLimits({}, {}, (f"limits.{limit}: so many parts make a body that is too large",))
    if counted.high is None:
        return LearnedLimits({}, {})
    count = int(counted.high.at)
    noun = limit.removeprefix("max_")
    return LearnedLimits(
        {limit: count, "source": evidence_of([f"{count} {noun}"], [f"{count + 1}"], counted.results)}, {}
    )


def merged_limits(one_section: Fields, other: Fields) -> Fields:
    """Return the members of two sections `limits`, with the evidence of both."""
    source = "; ".join(each["source"] for each in (one_section, other) if "source" in each)
    return {**one_section, **other, **({"source": source} if source else {})}


def _showing(base: BaseRequest, about: str, urls: list[Any]) -> Experiment:
    parts = [{"type": "image_url", "image_url": {"url": url}} for url in urls]
    message = {"role": "user", "content": [{"type": "text", "text": base.text}, *parts]}
    return base.experiment(about, {"messages": [message]})


_SOURCES: Final = {
    "data": (_SMALL,),
    "http": ("http://127.0.0.1/a.png", "https://127.0.0.1/a.png"),
    "file": ("file-0123", "ms://0123", "file://0123", "other:0123"),
}


def _learn_sources(base: BaseRequest) -> Learner[LearnedChecks]:
    """Learn the accepted sources of images."""
    urls = [url for group in _SOURCES.values() for url in group]
    results = yield from ask_all(*(_showing(base, "checks.images", [url]) for url in urls))
    taken = {url: result.is_accepted for url, result in zip(urls, results, strict=True)}
    if all(taken.values()) or not taken[_SMALL]:
        return LearnedChecks({})
    files = [url for url in _SOURCES["file"] if taken[url]]
    sources = ["data", *(["http"] if taken[urls[1]] else []), *(["file"] if files else [])]
    section: Fields = {"sources": sources}
    if 0 < len(files) < len(_SOURCES["file"]):
        section["file_prefix"] = files[0].removesuffix("0123")
    accepted, rejected = [url for url in urls if taken[url]], [url for url in urls if not taken[url]]
    return LearnedChecks({"images": {**section, "source": evidence_of(accepted[1:], rejected, results)}})


def _learn_size(
    base: BaseRequest, max_body: int, usual: str | None = None
) -> Learner[tuple[Fields | None, tuple[str, ...]]]:
    """Return the sizes in `checks.images`, and what could not be determined."""
    try:
        return (yield from _size(base, max_body, usual)), ()
    except _InconclusiveError as error:
        return None, (f"checks.images: the largest image could not be determined: {error}",)


def _size(base: BaseRequest, max_body: int, usual: str | None) -> Learner[Fields | None]:
    """Learn the size limits of an image, as a data URL and decoded, up to the limit of request bodies.

    usual: the rejection of every image, if all are rejected; an image that is too large gets another message.
    """

    def is_taken(result: ExperimentResult) -> bool:
        return result.is_accepted if usual is None else error_words(result) == usual

    def of_bytes(size: int) -> Experiment:
        return _showing(base, "checks.images", [f"{_DATA}{run_of_letters(-(-size * 4 // 3))}"])

    most = max_body * 3 // 4 - _SPARE
    if most < 1:
        return None
    if usual is not None:
        largest = yield from ask_one(of_bytes(most))
        if is_taken(largest) or not largest.is_rejected:
            return None
    edge = yield from _edge(of_bytes, most, is_taken)
    if edge is None:
        return None
    at, (taken, rejected) = edge
    if rejected.response.status == _TOO_LARGE:
        return None
    name, size = yield from _measured(base, at, is_taken)
    said = evidence_of([f"{size:,} bytes"], ["a byte more"], [taken, rejected])
    return {name: size_of(size) if size % 1024 == 0 else size, "source": said}


def _measured(base: BaseRequest, at: int, is_taken: IsAccepted) -> Learner[tuple[str, int]]:
    """Return which size is bounded, that of the image or that of its URL, and the bound; `at` is the image's."""
    for size in _ROUND:
        if abs(size * 3 // 4 - at) >= MIB:
            continue
        kept, beyond = yield from ask_all(_url(base, size), _url(base, size + 1))
        if is_taken(kept) and not is_taken(beyond):
            return "max_url_bytes", size
    return "max_bytes", at


def _url(base: BaseRequest, size: int) -> Experiment:
    """Return an experiment with a data URL of a size in bytes."""
    return _showing(base, "checks.images", [f"{_DATA}{run_of_letters(size - len(_DATA))}"])


_ROUND: Final = (20 * MIB, 10 * MIB)
"""Round numbers; only these distinguish a limit on the URL's length from one on the image."""

_SPARE: Final = 4096
"""Bytes that the rest of a request may take."""

_TOO_LARGE: Final = 413


def learn_body(base: BaseRequest, max_body: int) -> Learner[LearnedLimits]:
    """Learn the largest body, by blanks after the request."""

    def of_bytes(size: int) -> Experiment:
        experiment = base.experiment("limits.max_body_bytes")
        return experiment._replace(request=experiment.request._replace(length=size))

    try:
        edge = yield from _edge(of_bytes, max_body)
    except _InconclusiveError as error:
        return LearnedLimits({}, {}, (f"limits.max_body_bytes: could not be determined: {error}",))
    if edge is None:
        return _without_limit(max_body)
    at, results = edge
    said = evidence_of([f"{at:,} bytes"], ["a byte more"], results)
    return LearnedLimits({"max_body_bytes": size_of(at) if at % 1024 == 0 else at, "source": said}, {})


class _InconclusiveError(Exception):
    """The response allows no conclusion about a size; the message describes the response."""


def _conclusive_result(experiment: Experiment) -> Learner[ExperimentResult]:
    """Run one experiment. Raises _InconclusiveError if the response allows no conclusion."""
    result = yield from ask_one(experiment)
    if not result.is_conclusive:
        size = experiment.request.size()
        raise _InconclusiveError(
            f"{result.response.failure or result.response.status or 'not asked'} for {size:,} bytes"
        )
    return result


def _without_limit(max_body: int) -> LearnedLimits:
    """Return the limit to write if the largest body was accepted: only one above the default, which would reject it."""
    line = f"limits.max_body_bytes: a body of {max_body:,} bytes is accepted; more was not tried"
    if max_body <= DEFAULT_MAX_BODY_BYTES:
        return LearnedLimits({}, {}, (f"{line}, so the profile has the default limit",))
    size = max_body if max_body % 1024 else size_of(max_body)
    said = f"no limit of the endpoint: {max_body:,} bytes accepted, more was not tried"
    return LearnedLimits({"max_body_bytes": size, "source": said}, {}, (line,))


def _is_accepted(result: ExperimentResult) -> bool:
    return result.is_accepted


def _edge(
    of_bytes: Callable[[int], Experiment], most: int, is_taken: IsAccepted = _is_accepted
) -> Learner[tuple[int, tuple[ExperimentResult, ExperimentResult]] | None]:
    """Return the largest accepted size, by doubling and then bisection; None if nothing is rejected."""
    low, high = 0, None
    step = MIB
    while low < most:
        size = min(step, most)
        result = yield from _conclusive_result(of_bytes(size))
        if not is_taken(result):
            high = size
            break
        low, step = size, step * 2
    if high is None:
        return (yield from _just_above(of_bytes, low, is_taken))
    for unit in (MIB, _MEGABYTE, 64 * 1024, 1024):
        low, high = yield from _bracketed(of_bytes, (low, high), unit, is_taken)
        exact = yield from _exact(of_bytes, low, high, is_taken)
        if exact is not None and exact[0]:
            return exact
    while high - low > 1:
        found = yield from _bracketed(of_bytes, (low, high), max(1, (high - low) // 2), is_taken)
        if found == (low, high):
            break
        low, high = found
    exact = yield from _exact(of_bytes, low, high, is_taken)
    if exact is None or exact[0] < 1:
        raise _InconclusiveError(f"bodies of {low:,} bytes are answered now so and now otherwise")
    return exact


def _just_above(
    of_bytes: Callable[[int], Experiment], low: int, is_taken: IsAccepted
) -> Learner[tuple[int, tuple[ExperimentResult, ExperimentResult]] | None]:
    kept, beyond = yield from ask_all(of_bytes(low), of_bytes(low + 1))
    return (low, (kept, beyond)) if is_taken(kept) and beyond.is_rejected and not is_taken(beyond) else None


def _exact(
    of_bytes: Callable[[int], Experiment], low: int, high: int, is_taken: IsAccepted
) -> Learner[tuple[int, tuple[ExperimentResult, ExperimentResult]] | None]:
    if low:
        found = yield from _just_above(of_bytes, low, is_taken)
        if found is not None:
            return found
    below, at = yield from ask_all(of_bytes(high - 1), of_bytes(high))
    return (high - 1, (below, at)) if is_taken(below) and at.is_rejected and not is_taken(at) else None


def _bracketed(
    of_bytes: Callable[[int], Experiment], sizes: tuple[int, int], unit: int, is_taken: IsAccepted
) -> Learner[tuple[int, int]]:
    """Narrow two sizes to neighbours among the multiples of a unit."""
    low, high = sizes
    first, last = low // unit, -(-high // unit)
    while last - first > 1:
        middle = (first + last) // 2
        size = middle * unit
        if not low < size < high:
            first, last = (middle, last) if size <= low else (first, middle)
            continue
        result = yield from _conclusive_result(of_bytes(size))
        if is_taken(result):
            low, first = size, middle
        else:
            high, last = size, middle
    return low, high
