import re
import time
import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compiler.diagnostics import ProfileError, render
from compiler.source.tree import node_at, plain
from compiler.source.yaml_reader import MAX_FILE_BYTES, read_yaml


def read(text):
    return plain(read_yaml(text.encode(), "profile.yaml"))


def refused(data):
    with pytest.raises(ProfileError) as caught:
        read_yaml(data, "profile.yaml")
    return "\n".join(map(render, caught.value.diagnostics))


def read_or_rendered(data):
    try:
        return plain(read_yaml(data, "profile.yaml"))
    except ProfileError as error:
        return [render(diagnostic) for diagnostic in error.diagnostics] or None


def test_every_value_knows_its_place():
    """Line and column of a value are counted from 1, in characters, a byte order mark not counted."""
    tree = read_yaml("\ufeffname: é\nmodels: {aliases: [a, 'b c']}\n".encode(), "p.yaml")
    at = node_at(tree, ("models", "aliases", 1)).at
    assert (at.line, at.column, at.end_line, at.end_column) == (2, 23, 2, 28)
    assert str(node_at(tree, ("name",)).at) == "p.yaml:1:7"


def test_json_is_yaml():
    """A profile may be written as JSON."""
    assert read('{"name": "a\\/b\\u00e9", "limits": {"max_images": 3}}') == {
        "name": "a/bé",
        "limits": {"max_images": 3},
    }


def test_bytes_that_are_not_utf_8_are_refused_with_their_place():
    """The first byte that is not UTF-8 is named, with line and column."""
    assert refused(b"# \xc3\xa9\r\nname: \xc3\xa9\xff\n") == (
        "profile.yaml:2:8: error: the byte 0xff is not UTF-8\n"
        "  2 | name: é\ufffd\n"
        "    |        ^\n"
        "  hint: save the file as UTF-8\n"
    )


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-be", "utf-16-le", "utf-32"])
def test_other_encodings_are_refused(encoding):
    """A file in UTF-16 or UTF-32 is refused, with or without a byte order mark, and never guessed at."""
    assert refused("name: kimi\n".encode(encoding)).startswith("profile.yaml:1:")


def test_utf_16_is_called_by_its_name():
    """A file that begins with the mark of UTF-16 is told so."""
    assert refused("name: kimi\n".encode("utf-16")) == (
        "profile.yaml:1:1: error: the file is UTF-16 or UTF-32\n  1 |\n    | ^\n  hint: save the file as UTF-8\n"
    )


def test_files_are_bounded():
    """A file of exactly 1 MiB is read, one of a byte more is refused."""
    comment = b"#" * (MAX_FILE_BYTES - 1) + b"\n"
    assert plain(read_yaml(comment, "profile.yaml")) == {}
    assert refused(comment + b"\n") == (
        "profile.yaml:1:1: error: the file is larger than 1048576 bytes (1 MiB)\n  1 |\n    | ^\n"
    )


def billion_laughs():
    return "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
        f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]\n" for i in range(1, 30)
    )


BOMBS = {
    "aliases": billion_laughs(),
    "keys": "".join(f"key{i}: {i}\n" for i in range(100_000))[:MAX_FILE_BYTES],
    "levels of brackets": "a: " + "[" * 10_000,
    "levels of braces": "a: " + "{a: " * 10_000,
    "levels of indentation": "".join(" " * i + "a:\n" for i in range(1_400)),
    "levels of dashes": "- " * 10_000,
    "anchors": "".join(f"a{i}: &a{i} x\n" for i in range(50_000))[:MAX_FILE_BYTES],
    "repeated keys": "a: 1\n" * 200_000,
    "empty values": "a:\n" * 300_000,
}


@pytest.mark.parametrize("text", BOMBS.values(), ids=BOMBS)
def test_bombs_are_refused_quickly_and_in_little_memory(text):
    """What is small but unfolds, or is large without meaning, is refused within a second and 100 MB."""
    data = text.encode()
    started = time.process_time()
    with pytest.raises(ProfileError):
        read_yaml(data, "profile.yaml")
    assert time.process_time() - started < 1

    tracemalloc.start()
    with pytest.raises(ProfileError):
        read_yaml(data, "profile.yaml")
    assert tracemalloc.get_traced_memory()[1] < 100_000_000
    tracemalloc.stop()


def test_anchors_within_the_bound_are_read():
    """An alias stands for the very value that its anchor marks, the latest of that name."""
    expected = {"a": 1, "b": 1, "c": [2], "d": [2]}
    assert read("a: &x 1\nb: *x\nc: &x [2]\nd: *x\n") == expected


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=80))
def test_random_bytes_are_read_or_refused(data):
    """Whatever the bytes, the reader returns a tree or errors that can be rendered; it never crashes."""
    assert read_or_rendered(data) is not None


@settings(max_examples=500, deadline=None)
@given(st.text("ab:-?,[]{}#&*!|>'\"%@`~01.e_\\u \n\t\ufeff\u2028\x00\x85é", max_size=60))
def test_random_yaml_is_read_or_refused(text):
    """Whatever is made of YAML's own characters, the reader returns a tree or errors that can be rendered."""
    assert read_or_rendered(text.encode()) is not None


PIECES = [
    *("name", "a", "1", "\\x4", "\\q", "%YAML 1.2", "%YAML", "%TAG", "---", "...", "~", "é", "http://x", "min:1"),
    *(" ", "  ", "\n", "\n", "\n  ", "\t", ":", ": ", "- ", "-", "? ", ", ", "[", "]", "{", "}", "#", " #"),
    *("'", '"', "|", ">", "|0", "*", "*a ", "&", "&a ", "!", "!<", "!x!y ", "!%zz", "@", "`", "<<: ", "\\"),
]
JARGON = re.compile(
    "<|while (?:scanning|parsing)|could not|but (?:found|got)|token|scalar|sequence|block|flow|stream|URI|^expected"
)


@settings(max_examples=500)
@given(st.lists(st.sampled_from(PIECES), max_size=25).map("".join))
def test_no_message_is_told_in_the_words_of_the_parser(text):
    """Whatever is wrong with a text, it is told in words that need no knowledge of a YAML parser, and with a hint."""
    try:
        read_yaml(text.encode(), "profile.yaml")
    except ProfileError as error:
        for found in error.diagnostics:
            # What stands behind this hint is the text itself.
            hint = re.sub("(?<=^a colon needs a space after it: ).*", "", found.hint or "")
            told = [found.message, hint, *(note.text for note in found.notes)]
            if found.code == "syntax":
                assert found.hint
                assert not any(JARGON.search(words) for words in told), told
