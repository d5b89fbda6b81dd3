import pytest

from compiler.docs.matrix import KINDS, NO_VENDOR, VENDORS, enforced_by, presets_of
from compiler.pipeline import compile_profile
from compiler.resolve.presets import preset_names
from compiler.resolve.selection import Selection


def contract_of(text, folder):
    (folder / "profile.yaml").write_text(text)
    return compile_profile(Selection("file", str(folder / "profile.yaml"), "SOURCE")).artifact.contract


@pytest.mark.parametrize(
    ("kind", "profile", "words"),
    [
        ("fixed values", "sampling: {params: {n: 1}}\nfields: {a: {fixed: 1}, b: {max: 1}}", "`n`, `a`"),
        ("ranges", "sampling: {params: {top_p: {min: 0.1, max: 1}}}\nfields: {a: {above: 1}}", "`top_p`, `a`"),
        ("sets", "fields: {a: {allowed: [1, 2]}, b: {allowed: [1]}}", "`a`"),
        ("required, rejected, types", "fields: {a: {required: true}, b: {type: string}, c: {max: 1}}", "`a`, `b`"),
        ("defaults", "fields: {a: {default: 1}, b: {fixed: 1}}", "`a`"),
        ("lengths", "fields: {a: {max_items: 1}, b: {pattern: x}, c: {}}", "`a`, `b`"),
        ("cross-field", "fields: {a: {requires: [b]}, c: {excludes: [d]}}", "`a`, `c`"),
        ("mapped, forced, dropped", "fields: {a: {map: {x: y}}, b: {drop: true}, c: {force: 0}}", "`a`, `b`, `c`"),
        ("output cap", "output: {max_tokens: {cap: 9, on_exceed: clamp}}", "9 (lowered above)"),
        ("messages and tools", "checks: {alternation: {}, images: {max_bytes: 1}}", "`alternation`"),
        (
            "images, videos, audios, files",
            "limits: {max_images: 3, max_files: 0}\nchecks: {images: {max_bytes: 1}}",
            "at most 3 images; at most 0 files; sources and sizes of images",
        ),
        ("unknown fields", "unknown_fields: {policy: reject}", "rejected"),
        ("aliases", "models: {aliases: [a, b, c, d, e, f, g]}", "`a`, `b`, `c`, `d`, `e`, 2 more"),
        ("modes and cases", "mode: {default: a}\ncases: {x: {when: {fields: {y: 1}}}}", "modes `a`; 1 case"),
        (
            "errors",
            "errors: {body: {e: '{message}'}, codes: {bad_request: no}}",
            "envelope; own texts for 1 error code",
        ),
        ("usage in streams", "response: {stream: {usage: tail_frame}}", "in a frame of its own"),
    ],
)
def test_each_kind_of_rule_has_its_words(kind, profile, words, tmp_path):
    """A row says what a contract enforces of its kind of rule, and nothing of a contract of defaults."""
    assert KINDS[kind](contract_of(profile, tmp_path)) == words
    assert KINDS[kind](contract_of("", tmp_path)) == ""


def test_cases_count_too(tmp_path):
    """What holds in one case alone stands in the table."""
    profile = "cases: {x: {when: {fields: {y: 1}}, fields: {a: {fixed: 1}}}}"
    assert KINDS["fixed values"](contract_of(profile, tmp_path)) == "`a`"


def test_every_preset_belongs_to_one_vendor():
    """Each preset is listed under exactly one vendor; the preset that enforces nothing is listed under none."""
    listed = [name for vendor in VENDORS for name in presets_of(vendor)]
    assert sorted([*listed, NO_VENDOR]) == list(preset_names())
    assert not any(
        words_of(compile_profile(Selection("preset", NO_VENDOR, "SOURCE")).artifact.contract)
        for words_of in KINDS.values()
    )


@pytest.mark.parametrize("vendor", VENDORS)
def test_a_vendor_has_a_table(vendor):
    """A vendor's table has a row for each kind of rule that one of its presets enforces, and no empty cell."""
    rows = enforced_by(vendor)
    assert {kind for kind, _ in rows} <= set(KINDS)
    assert rows
    assert all(words for _, words in rows)


def test_presets_that_differ_are_named():
    """Where presets of a vendor differ, each text names the presets it holds for, or those it does not hold for."""
    rows = dict(enforced_by("OpenAI"))
    assert rows["output cap"] == "16384 (rejected above) (`openai-gpt-4o`)"
    assert "(all but `" in "".join(dict(enforced_by("Moonshot")).values())
