"""Many small cases in one test: quick to collect and to run, and each failure is reported by its case's name."""

import functools
import inspect
from collections.abc import Callable, Iterable, Mapping
from itertools import product
from typing import Any, NamedTuple

import pytest


class Case(NamedTuple):
    """One case: its name and its arguments."""

    name: str
    arguments: Mapping[str, Any]


def batched(
    names: str | Iterable[str], values: Iterable[Any], ids: Callable[[Any], object] | Iterable[Any] | None = None
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Run a test function for all cases within one test; takes what `pytest.mark.parametrize` takes, and stacks alike.

    A case that fails is a failed subtest, and the cases behind it are run all the same. Fixtures are made once for all
    cases, except that each has a folder of its own in `tmp_path`; `monkeypatch` cannot be used. `--case TEXT` runs only
    the cases with that text in their name.
    """
    columns = [name.strip() for name in names.split(",")] if isinstance(names, str) else list(names)
    cases = _cases(columns, list(values), ids)

    def decorate(test: Callable[..., None]) -> Callable[..., None]:
        inner, more = getattr(test, "batch", (test, [Case("", {})]))
        together = [_joined(first, second) for first, second in product(more, cases)]
        return _one_test(inner, together)

    return decorate


def _cases(columns: list[str], values: list[Any], ids: Any) -> list[Case]:
    named = list(ids) if isinstance(ids, Iterable) else None
    cases = []
    for number, value in enumerate(values):
        is_param = isinstance(value, type(pytest.param()))
        row = value.values if is_param else value if len(columns) > 1 else (value,)
        if is_param and value.id is not None:
            name = str(value.id)
        elif named is not None:
            name = str(named[number])
        else:
            name = "-".join(str(ids(each) if ids else each) for each in row)
        assert not (is_param and value.marks), f"{name}: a case of a batch has no marks"
        cases.append(Case(name, dict(zip(columns, row, strict=True))))
    return cases


def _joined(first: Case, second: Case) -> Case:
    return Case("-".join(name for name in (first.name, second.name) if name), {**first.arguments, **second.arguments})


def _one_test(test: Callable[..., None], cases: list[Case]) -> Callable[..., None]:
    assert cases, f"{test.__qualname__} has no cases"
    signature = inspect.signature(test)
    fixtures = [name for name in signature.parameters if name not in cases[0].arguments]
    assert "monkeypatch" not in fixtures, f"{test.__qualname__}: what one case changes would hold for the next one"

    @functools.wraps(test)
    def run(*args: Any, **given: Any) -> None:
        subtests, request = given["subtests"], given["request"]
        shared = {name: given[name] for name in fixtures if name in given}
        for number, (name, arguments) in enumerate(cases):
            if request.config.getoption("case") not in name:
                continue
            if "tmp_path" in shared:
                shared["tmp_path"] = given["tmp_path"] / str(number)
                shared["tmp_path"].mkdir()
            try:
                test(*args, **shared, **arguments)
            except (Exception, pytest.fail.Exception):
                with subtests.test(name):
                    raise

    added = [name for name in ("subtests", "request") if name not in fixtures]
    kinds = inspect.Parameter
    run.__signature__ = signature.replace(  # type: ignore[attr-defined]
        parameters=[
            *(signature.parameters[name] for name in fixtures),
            *(kinds(name, kinds.KEYWORD_ONLY) for name in added),
        ]
    )
    run.batch = (test, cases)  # type: ignore[attr-defined]
    return run
