"""Which release this is."""

from importlib.metadata import PackageNotFoundError, version

from router.artifact.release import FORMAT_VERSION


def describe() -> str:
    """Return the release and the artifact format that it writes."""
    return f"profilec {release() or '(not installed)'} (artifact format {FORMAT_VERSION})"


def release() -> str | None:
    """Return the version of this release, or None where it runs from a checkout that was never installed."""
    try:
        return version("profilec")
    except PackageNotFoundError:
        return None
