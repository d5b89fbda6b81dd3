import pytest

from compiler.compilation import compile_profile
from compiler.presets import describe, preset_names
from compiler.selection import Selected
from router.artifact import shipped_folder
from router.contract.model import Contract, Interval, Sampling


def compiled(name):
    return compile_profile(Selected("preset", name, "SOURCE"))


def test_presets_are_listed_with_what_they_are():
    """Every preset has a name and a first comment line that says what it is."""
    assert set(preset_names()) >= {"moonshot-kimi", "openai-compatible"}
    assert all(describe(name).endswith(".") for name in preset_names())


@pytest.mark.parametrize("name", preset_names())
def test_compiled_presets_in_the_repository_are_fresh(name):
    """`build/` holds, byte for byte, what the presets compile to today; if not, run `profilec build NAME -o FILE`."""
    assert (shipped_folder("build") / f"{name}.json").read_bytes() == compiled(name).data()


def test_nothing_is_built_from_a_preset_that_is_gone():
    """`build/` holds no artifact without its preset."""
    assert {path.stem for path in shipped_folder("build").glob("*.json")} == set(preset_names())


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
