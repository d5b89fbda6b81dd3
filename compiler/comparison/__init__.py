"""`profilec diff`: two contracts compared, in the contract's terms: what changes for a client, setting by setting."""

from argparse import Namespace
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from compiler.comparison.cases import compare
from compiler.comparison.change import Change
from compiler.comparison.report import RENDERERS, Comparison, Side
from compiler.compilation import compile_profile
from compiler.output import refuse_overwriting, write
from compiler.selection import Named, select
from router.artifact import Artifact, read

DIFFERS: Final = 1


@dataclass(frozen=True, slots=True)
class _Loaded:
    """A profile or artifact that was named, and the files that its contract came from."""

    source: str
    artifact: Artifact
    files: tuple[Path, ...]

    def side(self) -> Side:
        return Side(self.source, self.artifact.name, self.artifact.digest)


def show(arguments: Namespace) -> int:
    """Write how the contract of B differs from that of A; return 1 when it does in the way `--fail-on` asks about."""
    before, after = _load(arguments.a, "A"), _load(arguments.b, "B")
    refuse_overwriting(arguments.output, (*before.files, *after.files), "a source of what is compared")
    changes = compare(before.artifact.contract, after.artifact.contract)
    comparison = Comparison(before.side(), after.side(), changes)
    write(RENDERERS[arguments.format](comparison).encode(), arguments.output)
    return DIFFERS if any(fails(change, arguments.fail_on) for change in changes) else 0


def fails(change: Change, fail_on: str) -> bool:
    """Tell whether a change is of the kind asked about, or may be; one of both directions is of both."""
    return {"any": True, "tighter": change.tightens is not False, "looser": change.loosens is not False}[fail_on]


def _load(source: str, named_by: str) -> _Loaded:
    selected = replace(select(Named(source), {}), chosen_by=named_by)
    if selected.kind == "artifact":
        return _Loaded(source, read(Path(source)), (Path(source),))
    compiled = compile_profile(selected)
    return _Loaded(source, compiled.artifact, tuple(link.path for link in compiled.chain))
