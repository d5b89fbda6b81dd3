"""The contract that `profilec serve` serves: an artifact, or a profile that is compiled whenever it changes."""

import hashlib
import shlex
import shutil
from pathlib import Path
from tempfile import mkdtemp
from typing import NamedTuple, Self

from compiler.cli.output import write
from compiler.diagnostics import Diagnostic
from compiler.pipeline import compile_profile
from compiler.resolve.extends import layers_of
from compiler.resolve.selection import Selection, UsageError
from router.artifact.format import Artifact, read
from router.runtime.temporary import temporary_folder


class LoadedContract(NamedTuple):
    """A valid contract, and the warnings of its profile."""

    artifact: Artifact
    warnings: tuple[Diagnostic, ...] = ()


class ServedContract:
    """The artifact that the router reads, and the files that it comes from.

    A context manager: a folder that was made for a compiled artifact is removed at the end.
    """

    def __init__(self, selection: Selection) -> None:
        if selection.content is not None:
            raise UsageError("a served contract is read again when the router reloads: name a file or a preset")
        self._selection = selection
        self._folder: Path | None = None
        self.is_compiled = selection.kind != "artifact"
        self.name = f"the preset {selection.name}" if selection.kind == "preset" else selection.name
        self.build = shlex.join(["profilec", "build", selection.name, "-o", "profile.json"])
        """The command that makes an artifact to be checked in."""
        self.artifact_path = Path(selection.name).absolute()
        """What ROUTER_PROFILE names; of a profile, only while this is entered."""
        self.versions: dict[Path, str | None] = {}
        """The SHA-256 of each file that was read at the last good load."""

    def load(self) -> LoadedContract:
        """Read the artifact, or compile the profile into it. Raises ProfileError, ArtifactError and CommandError.

        After an error the artifact is the one of the last good load.
        """
        if not self.is_compiled:
            # Before it is read, so that a change meanwhile counts as a change.
            before = {self.artifact_path: version_of(self.artifact_path)}
            artifact = read(self.artifact_path)
            self.versions = before
            return LoadedContract(artifact)
        compilation = compile_profile(self._selection)
        write(compilation.data(), str(self.artifact_path))
        self.versions = {layer.path: layer.sha256 for layer in layers_of(compilation.chain)}
        return LoadedContract(compilation.artifact, compilation.warnings)

    def __enter__(self) -> Self:
        if self.is_compiled:
            self._folder = Path(mkdtemp(prefix="profilec-serve-", dir=temporary_folder()))
            self.artifact_path = self._folder / "profile.json"
        return self

    def __exit__(self, *_: object) -> None:
        self.remove()

    def remove(self) -> None:
        """Remove the folder of a compiled artifact."""
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)


def version_of(path: Path) -> str | None:
    """Return the SHA-256 of a file; None while it cannot be read."""
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError:
        return None
