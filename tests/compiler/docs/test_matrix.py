import pytest

from compiler.docs.matrix import COLUMNS, NOTHING, matrix
from compiler.pipeline import compile_profile
from compiler.resolve.presets import preset_names
from compiler.resolve.selection import Selection


def contract_of(text, folder):
    (folder / "profile.yaml").write_text(text)
    return compile_profile(Selection("file", str(folder / "profile.yaml"), "SOURCE")).artifact.contract


@pytest.mark.parametrize(
    ("column", "profile", "told"),
    [
        ("fixed values", "sampling: {params: {n: 1}}\nfields: {a: {fixed: 1}, b: {max: 1}}", "`n`, `a`"),
        ("ranges", "sampling: {params: {top_p: {min: 0.1, max: 1}}}\nfields: {a: {above: 1}}", "`top_p`, `a`"),
        ("sets", "fields: {a: {allowed: [1, 2]}, b: {allowed: [1]}}", "`a`"),
        ("required, refused, types", "fields: {a: {required: true}, b: {type: string}, c: {max: 1}}", "`a`, `b`"),
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
        ("unknown fields", "unknown_fields: {policy: reject}", "refused"),
        ("names", "models: {aliases: [a, b, c, d, e]}", "`a`, `b`, `c`, 2 more"),
        ("modes and cases", "mode: {default: a}\ncases: {x: {when: {fields: {y: 1}}}}", "modes `a`; 1 case"),
        ("errors", "errors: {body: {e: '{message}'}, codes: {bad_request: no}}", "envelope; words of 1 codes"),
        ("usage in streams", "response: {stream: {usage: tail_frame}}", "in a frame of its own"),
    ],
)
def test_each_kind_of_rule_has_a_column(column, profile, told, tmp_path):
    """A column tells what a contract says of its kind of rule, and nothing of a contract of defaults."""
    assert COLUMNS[column](contract_of(profile, tmp_path)) == told
    assert COLUMNS[column](contract_of("", tmp_path)) == ""


def test_cases_count_too(tmp_path):
    """What holds in one case alone stands in the table."""
    profile = "cases: {x: {when: {fields: {y: 1}}, fields: {a: {fixed: 1}}}}"
    assert COLUMNS["fixed values"](contract_of(profile, tmp_path)) == "`a`"


def test_every_preset_has_a_row():
    """The table has a row for each preset and a cell for each column; the plain preset has nothing in any."""
    head, rows = matrix()
    assert [row[0] for row in rows] == [f"`{name}`" for name in preset_names()]
    assert {len(row) for row in rows} == {len(head)}
    assert set(next(row for row in rows if row[0] == "`openai-compatible`")[1:]) == {NOTHING}
