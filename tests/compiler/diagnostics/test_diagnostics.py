from compiler.diagnostics import Diagnostic, Document, Location, Note, ProfileError, nearest, printable, quoted, render


def at(text, line, column, width=1):
    return within(Document("profile.yaml", text), line, column, width)


def within(document, line, column, width=1):
    return Location(document, line, column, line, column + width)


def test_everything_is_rendered_in_one_order():
    """Place and message come first, then the line with its caret, other places, hops, expectation and hint."""
    hop = at("extends: base.yaml", 1, 10, 9)
    base = Document("base.yaml", "a: 1\ncap: 0", hop)
    diagnostic = Diagnostic(
        "wrong-value",
        "cap is 0",
        within(base, 2, 6),
        expected="at least 1",
        hint="write 1",
        notes=(Note(within(base, 1, 1), "first set here"),),
    )
    assert render(diagnostic) == (
        "base.yaml:2:6: error: cap is 0\n"
        "  2 | cap: 0\n"
        "    |      ^\n"
        "  base.yaml:1:1: first set here\n"
        "  via profile.yaml:1:10: extends base.yaml\n"
        "  expected: at least 1\n"
        "  hint: write 1\n"
    )


def test_an_error_without_a_place_names_the_program():
    """What stands in no file is told as the program's own error."""
    assert render(Diagnostic("unreadable-file", "cannot read it")) == "profilec: error: cannot read it\n"


def test_caret_stands_under_the_value_after_tabs_and_wide_characters():
    """The caret is moved by what a terminal shows: a tab stays a tab, a wide character takes two cells."""
    assert render(Diagnostic("wrong-value", "x", at("\t月é: 1", 1, 6))).split("\n")[2] == "    | \t     ^"


def test_caret_of_a_value_over_several_lines_ends_with_the_first():
    """A value that goes on below is marked to the end of its first line."""
    document = Document("p.yaml", 'a: "b\n  c"')
    render_error = render(Diagnostic("wrong-value", "x", Location(document, 1, 4, 2, 5)))
    assert render_error.split("\n")[2] == "    |    ^^"


def test_long_lines_are_cut_around_the_caret():
    """Of a very long line only the part around the caret is shown, and the caret still stands under it."""
    line = "x" * 5000 + "HERE" + "y" * 5000
    _, shown_line, caret, *_ = render(Diagnostic("wrong-value", "x", at(line, 1, 5001, 4))).split("\n")
    assert len(shown_line) < 130
    assert shown_line[caret.index("^") : caret.rindex("^") + 1] == "HERE"


def test_nothing_reaches_the_terminal_that_it_would_obey():
    """Escape sequences in messages, file names and source lines are shown as escapes."""
    render_error = render(Diagnostic("wrong-value", "\x1b[31m", within(Document("\x1b[2J.yaml", "a: \x1b[0m"), 1, 4)))
    assert "\x1b" not in render_error
    assert "\\x1b[2J.yaml:1:4: error: \\x1b[31m" in render_error


def test_errors_are_told_in_reading_order():
    """The compiled file comes before its parents, and within a file the first line comes first."""
    hop = at("extends: base.yaml", 1, 10)
    late, early = Diagnostic("alias", "late", at("", 9, 1)), Diagnostic("alias", "early", at("", 2, 1))
    parent = Diagnostic("alias", "parent", within(Document("base.yaml", "", hop), 1, 1))
    assert ProfileError(parent, late, early).diagnostics == (early, late, parent)


def test_values_are_shown_shortened_and_quoted():
    """A value in a message is quoted, escaped and cut to a length that people read."""
    assert quoted('a"b\\\n') == '"a\\"b\\\\\\n"'
    assert len(quoted("x" * 1000)) == 62
    assert printable("é月") == "é月"


def test_nearest_word_ignores_case_and_gives_up_on_strangers():
    """The nearest known word is found in spite of case; nothing is suggested for a word that is like none."""
    assert nearest("Top_P", ["top_p", "top_k"]) == "top_p"
    assert nearest("zebra", ["top_p", "top_k"]) is None
