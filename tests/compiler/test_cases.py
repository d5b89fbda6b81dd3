from typing import get_args

import pytest

from compiler.cli import main
from compiler.diagnostics import Code, formats, render
from tests.compiler.cases import all_cases, name_of

SHOWN_ELSEWHERE = {
    "artifact-too-large": "test_pipeline.py",
    "file-too-large": "test_yaml_reader.py",
    "large-artifact": "test_lint.py",
    "not-utf-8": "test_yaml_reader.py",
    "unusable-name": "test_extends.py",
}
"""Errors whose input no text file can hold, and the module that shows them rendered."""


def run(case, folder, capsysbinary):
    for name, text in case.files().items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(text.encode())
    output = ""
    for arguments in case.commands:
        code = main.main(arguments)
        out, err = capsysbinary.readouterr()
        output += (out + err).decode() + (f"exit {code}\n" if code else "")
    return output


@pytest.mark.parametrize("case", all_cases(), ids=name_of)
def test_case_comes_out_as_its_golden_file_says(case, tmp_path, capsysbinary, pytestconfig):
    """Each golden case gives exactly the output, the messages and the exit code of its file."""
    actual = run(case, tmp_path, capsysbinary)
    if pytestconfig.getoption("update", default=False):
        case.update(actual)
    else:
        assert actual == case.expected


@pytest.mark.exhaustive
def test_every_kind_of_error_stands_rendered_in_a_golden_file(tmp_path, capsysbinary, monkeypatch):
    """Each diagnostic code appears in a golden file, or in a test that is named here."""
    rendered = set(SHOWN_ELSEWHERE)
    monkeypatch.setattr(formats, "render", lambda diagnostic, _: rendered.add(diagnostic.code) or render(diagnostic))

    for number, case in enumerate(all_cases()):
        folder = tmp_path / str(number)
        folder.mkdir()
        monkeypatch.chdir(folder)
        run(case, folder, capsysbinary)

    assert rendered == set(get_args(Code))
