import json

import pytest

from compiler.pipeline import compile_profile
from compiler.resolve import presets
from compiler.resolve.presets import MODELINE, describe, not_known, preset_names, preset_path
from compiler.resolve.selection import Selection
from router.artifact.release import shipped_folder
from router.contract.schema.model import Contract
from router.contract.schema.sections import Interval, Sampling


def compiled(name):
    return compile_profile(Selection("preset", name, "SOURCE"))


def test_presets_are_listed_with_what_they_are():
    """Every preset has a name and a first comment line that says what it is."""
    assert set(preset_names()) >= {"moonshot-kimi", "openai-compatible"}
    assert all(describe(name).endswith(".") for name in preset_names())


@pytest.mark.parametrize("name", preset_names())
def test_editors_find_the_schema_of_a_preset(name):
    """Each preset begins with the line that leads editors to the JSON Schema beside it."""
    preset = preset_path(name)
    modeline, value = preset.read_text().splitlines()[0].split("$schema=")
    assert modeline.strip() == MODELINE
    assert json.loads((preset.parent / value).read_text())["title"] == "API profile"


def test_nothing_is_built_from_a_preset_that_is_gone():
    """`build/` holds no artifact without its preset."""
    artifacts = [path for path in shipped_folder("build").glob("*.json") if not path.name.endswith(".schema.json")]
    assert {path.stem for path in artifacts} == set(preset_names())


def test_openai_compatible_enforces_nothing():
    """The preset that is taken when nobody names one has a contract of defaults alone."""
    assert compiled("openai-compatible").artifact.contract == Contract()


def test_moonshot_kimi_governs_sampling_alone():
    """Moonshot's preset pins what the vendor fixes, holds temperature within 0 and 1, and says nothing else."""
    params = {
        "temperature": Interval(0, 1),
        "top_p": 0.95,
        "top_k": 1000,
        "frequency_penalty": 0,
        "presence_penalty": 0,
        "n": 1,
    }
    assert compiled("moonshot-kimi").artifact.contract == Contract(sampling=Sampling("reject", params))


@pytest.mark.parametrize(
    ("header", "told"),
    [
        ("# What it is.\n# Not known: a, b;\n# and c.\nname: x\n# not this\n", "a, b; and c."),
        ("# What it is.\n# Not known: a.\n#\n# More.\n", "a."),
        ("# What it is.\n# Not known: a.\n# Not done: b.\n", "a."),
        ("# What it is.\n# Not known: a, and of this\n# Model: b.\n", "a, and of this Model: b."),
        ("# What it is.\nname: x\n", ""),
    ],
)
def test_what_is_not_known_stands_in_the_header(header, told, tmp_path, monkeypatch):
    """What a preset's vendor leaves open is its header from the mark on, up to the end of the paragraph or a label."""
    (tmp_path / "mine.yaml").write_text(header)
    monkeypatch.setattr(presets, "shipped_folder", lambda _: tmp_path)
    assert not_known("mine") == told
