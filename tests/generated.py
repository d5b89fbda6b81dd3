"""Everything in the repository that is generated; `python -m tests.generated` writes it anew.

In the Markdown files only what stands between `<!-- NAME: generated … -->` and `<!-- end of NAME -->` is generated.
"""

import re
import sys

from compiler.docs import reference
from compiler.docs.json_schema import json_schema_bytes
from compiler.pipeline import compile_profile
from compiler.resolve.presets import preset_names
from compiler.resolve.selection import Selection
from router.artifact.json_schema import artifact_schema_bytes
from router.settings import markdown_table
from router.telemetry import metrics
from tests.checkout import CHECKOUT


def generated() -> dict[str, bytes]:
    """Return the paths of all generated files with what they hold today."""
    return {
        **{f"build/{name}.json": _artifact(name) for name in preset_names()},
        "build/artifact.schema.json": artifact_schema_bytes(),
        "profiles/profile.schema.json": json_schema_bytes(preset_names()),
        "profiles/README.md": _filled(
            "profiles/README.md",
            {
                "keys": reference.keys(),
                "sampling": reference.sampling(),
                "fields": reference.fields(),
                "checks": reference.checks(),
                "words": reference.words(),
                "presets": reference.presets(),
                "beyond": reference.beyond(),
            },
        ),
        "router/README.md": _filled(
            "router/README.md", {"settings": markdown_table.reference(), "metrics": metrics.reference()}
        ),
        "README.md": _filled("README.md", {"vendors": reference.vendors()}),
    }


def stale() -> list[str]:
    """Return the paths of the files that do not hold what they should."""
    return [name for name, data in generated().items() if _read(name) != data]


def _artifact(preset: str) -> bytes:
    return compile_profile(Selection("preset", preset, "SOURCE")).data()


def _filled(name: str, blocks: dict[str, str]) -> bytes:
    text = _read(name).decode()
    for block, content in blocks.items():
        marked = re.compile(rf"(<!-- {block}: generated .*-->\n)(?:.*\n)*?(<!-- end of {block} -->\n)")
        assert marked.search(text), f"{name} has no block {block}"
        text = marked.sub(lambda found, content=content: f"{found[1]}{content}{found[2]}", text)
    return text.encode()


def _read(name: str) -> bytes:
    path = CHECKOUT / name
    return path.read_bytes() if path.exists() else b""


if __name__ == "__main__":
    for name in stale():
        sys.stdout.write(f"{name}\n")
        (CHECKOUT / name).write_bytes(generated()[name])
