"""Which release this is."""

from importlib.metadata import PackageNotFoundError, version

from router.artifact import FORMAT_VERSION


def describe() -> str:
    """Return the release and the artifact format that it writes."""
    try:
        release = version("profilec")
    except PackageNotFoundError:  # run from a checkout that was never installed
        release = "(not installed)"
    return f"profilec {release} (artifact format {FORMAT_VERSION})"
