import json

from hypothesis import given
from hypothesis import strategies as st

from compiler.diagnostics import Document, ProfileError
from compiler.resolve.overrides import Override, apply_override
from compiler.source.json_reader import read_json
from compiler.source.tree import node_at, plain
from compiler.source.yaml_reader import read_yaml


def test_the_flag_replaces_the_section_and_nothing_else():
    """Only the parameters of the flag are left in the section; every other section stays."""
    profile = read_yaml(b"name: a\nsampling: {conflict: allow, params: {n: 1, top_p: 0.9}}\n", "p.yaml")
    assert plain(apply_override(profile, Override('{"top_k": 5}'))) == {
        "name": "a",
        "sampling": {"conflict": "reject", "params": {"top_k": 5}},
    }


def test_the_digest_of_the_flag_covers_text_and_conflict():
    """Another text or another conflict mode gives another digest, the same flag always the same."""
    digests = {Override(text, mode).sha256() for text in ('{"n": 1}', '{"n":1}') for mode in ("reject", "allow")}
    assert len(digests) == 4
    assert Override('{"n": 1}', "reject").sha256() == Override('{"n": 1}').sha256()


def test_values_of_the_flag_know_their_line_and_column():
    """JSON over several lines has places like a file."""
    tree = read_json(Document("flag", '{"n": 1,\r\n  "top_p": [0.5, "é\\u00e9"]}'))
    at = node_at(tree, ("top_p", 1)).at
    assert (at.line, at.column, at.end_column) == (2, 18, 27)
    assert plain(tree) == {"n": 1, "top_p": [0.5, "éé"]}


@given(st.text('{}[]":,0123456789.eE+-ntfalsru\\ \n', max_size=30))
def test_the_json_reader_agrees_with_python_or_refuses(text):
    """Whatever the text, the reader reads what Python's own JSON reader reads, or tells what is wrong."""
    try:
        found = plain(read_json(Document("flag", text)))
    except ProfileError:
        return
    assert found == json.loads(text)


def test_the_flag_alone_governs_sampling_parameters():
    """Rules of fields for a sampling parameter go, in cases too, and so do their ids; all else stays."""
    profile = read_yaml(
        b"fields: {top_p: {max: 1}, a: {drop: true}}\norder: [fields.a, fields.top_p, sampling.params.n]\n"
        b"cases: {c: {when: {model: x}, sampling: {params: {n: 1}}, fields: {n: {max: 3}}}}\n",
        "p.yaml",
    )
    assert plain(apply_override(profile, Override('{"n": 5}'))) == {
        "fields": {"a": {"drop": True}},
        "order": ["fields.a", "sampling.params.n"],
        "cases": {"c": {"when": {"model": "x"}, "fields": {}}},
        "sampling": {"conflict": "reject", "params": {"n": 5}},
    }
