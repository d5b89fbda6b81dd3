from typing import get_args

import pytest

from compiler.cli import main
from compiler.diagnostics import Code, formats, render
from tests.compiler.cases import all_cases, name_of

SHOWN_ELSEWHERE = {
    "artifact-too-large": "test_compilation.py",
    "file-too-large": "test_reading.py",
    "large-artifact": "test_linting.py",
    "not-utf-8": "test_reading.py",
    "unusable-name": "test_inheritance.py",
}
"""Errors whose input no text file can hold, and the module that shows them rendered."""


def run(case, folder, capsysbinary):
    for name, text in case.files().items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(text.encode())
    told = ""
    for arguments in case.commands:
        code = main.main(arguments)
        out, err = capsysbinary.readouterr()
        told += (out + err).decode() + (f"exit {code}\n" if code else "")
    return told


@pytest.mark.parametrize("case", all_cases(), ids=name_of)
def test_case_comes_out_as_its_golden_file_says(case, tmp_path, capsysbinary, pytestconfig):
    """Each golden case gives exactly the output, the words and the exit code that stand in its file."""
    actual = run(case, tmp_path, capsysbinary)
    if pytestconfig.getoption("update", default=False):
        case.update(actual)
    else:
        assert actual == case.expected


def test_every_kind_of_error_stands_rendered_in_a_golden_file(tmp_path, capsysbinary, monkeypatch):
    """No kind of error can be told to people that nobody has looked at, rendered."""
    seen = set(SHOWN_ELSEWHERE)
    monkeypatch.setattr(formats, "render", lambda diagnostic, _: seen.add(diagnostic.code) or render(diagnostic))

    for number, case in enumerate(all_cases()):
        folder = tmp_path / str(number)
        folder.mkdir()
        monkeypatch.chdir(folder)
        run(case, folder, capsysbinary)

    assert seen == set(get_args(Code))
