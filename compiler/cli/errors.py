"""The errors that a user can cause, and the text of a profile's errors; imported only after an error was raised."""

from compiler.cli.loading import render_error
from compiler.diagnostics import CommandError, ProfileError
from compiler.resolve.selection import UsageError
from router.artifact.format import ArtifactError

__all__ = ["ArtifactError", "CommandError", "ProfileError", "UsageError", "render_error"]
