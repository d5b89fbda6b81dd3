"""`profilec diff`: compare two contracts, setting by setting, and say what changes for a client."""

from argparse import Namespace
from dataclasses import dataclass, replace
from pathlib import Path

from compiler.cli.exit_codes import FAILED, OK
from compiler.cli.output import reject_overwriting, write
from compiler.diagnostics import CommandError
from compiler.diff.cases import compare
from compiler.diff.change import Change
from compiler.diff.narrow import of_models
from compiler.diff.report import RENDERERS, ComparedSource, Comparison, RequestCounts
from compiler.pipeline import compile_profile
from compiler.resolve.extends import layers_of
from compiler.resolve.selection import STANDARD_INPUT, SourceOptions, UsageError, select
from compiler.resolve.streams import artifact_of, with_content
from router.artifact.format import Artifact, digest_of


@dataclass(frozen=True, slots=True)
class _Loaded:
    """A profile or artifact that was named, and the files that its contract came from."""

    source: str
    artifact: Artifact
    files: tuple[Path, ...]

    def side(self) -> ComparedSource:
        return ComparedSource(self.source, self.artifact.name, self.artifact.digest)


def show(arguments: Namespace) -> int:
    """Report how contract B differs from contract A; return 1 if there is a change that `--fail-on` selects."""
    if arguments.a == arguments.b == STANDARD_INPUT:
        raise UsageError("A and B cannot both be standard input")
    before, after = _load(arguments.a, "A"), _load(arguments.b, "B")
    reject_overwriting(arguments.output, (*before.files, *after.files), "a source of what is compared")
    comparison = _compared(arguments, before, after)
    write(RENDERERS[arguments.format](comparison).encode(), arguments.output)
    return FAILED if any(fails(change, arguments.fail_on) for change in comparison.changes) else OK


def _compared(arguments: Namespace, before: _Loaded, after: _Loaded) -> Comparison:
    """Compare the settings of two contracts; with --observable, compare the results of requests.

    Raises UsageError for conflicting flags, CommandError if there is no request to compare with.
    """
    models = tuple(dict.fromkeys(arguments.model or ()))
    old, new = before.artifact.contract, after.artifact.contract
    if not arguments.observable:
        if arguments.ignore_messages:
            raise UsageError("--ignore-messages needs --observable")
        sides = (of_models(old, models), of_models(new, models)) if models else (old, new)
        return Comparison(before.side(), after.side(), compare(*sides), models)
    from compiler.diff.observe import observe  # noqa: PLC0415 - no other comparison waits for it
    from compiler.diff.observed_changes import observed_changes  # noqa: PLC0415

    observation = observe(old, new, models, reads_messages=not arguments.ignore_messages)
    if not observation.requests and digest_of(old) != digest_of(new):
        raise CommandError("no request was found that A or B lets pass, so what clients see cannot be compared")
    tried = RequestCounts(observation.requests, len(observation.differences))
    return Comparison(before.side(), after.side(), observed_changes(observation), models, tried)


def fails(change: Change, fail_on: str) -> bool:
    """Return whether a change has, or may have, the selected direction; a change of both directions matches either."""
    return {"any": True, "tighter": change.tightens is not False, "looser": change.loosens is not False}[fail_on]


def _load(source: str, named_by: str) -> _Loaded:
    selection = with_content(replace(select(SourceOptions(source), {}), chosen_by=named_by))
    if selection.kind == "artifact":
        return _Loaded(source, artifact_of(selection), (Path(source),))
    compilation = compile_profile(selection)
    return _Loaded(source, compilation.artifact, tuple(link.path for link in layers_of(compilation.chain)))
