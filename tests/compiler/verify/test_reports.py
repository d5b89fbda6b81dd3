"""What a run found, as text, JSON, JUnit XML and a page."""

import json
import re
from xml.etree.ElementTree import fromstring

import pytest

from compiler.verify.check import Acceptance, Ask, Check, Refusal, Untried
from compiler.verify.judgement import Answer, Verdict
from compiler.verify.report import RENDERED_BY
from compiler.verify.run import Judged, Run

SHOWN = "<b>temperature</b> & \x1b[31m"


def judged(name: str, rule: str, verdict: Verdict) -> Judged:
    ask = Ask.of({"model": "m", "messages": [{"role": "user", "content": "<script>alert(1)</script>"}]})
    expected = Refusal(rule, 400, {"error": {"type": "t"}}, exact=True)
    if verdict.result == "pass":
        expected = Acceptance({}, untouched=True)
    check = Check(name, rule, "thinking", "m", SHOWN, ask, expected)
    return Judged(check, Answer(200, "application/json", b"<i>no</i>"), verdict, "says", "file.yaml:1:2", "docs (H)")


RUN = Run(
    "my-profile",
    "sha256:0123456789abcdef0123",
    "http://127.0.0.1:1/v1/chat/completions",
    ("m",),
    (
        judged("a", "fields.top_p", Verdict("pass")),
        *(judged(f"b{number}", "fields.n", Verdict("fail", f"reason {number}")) for number in range(5)),
        judged("c", "fields.n", Verdict("not observable", "nobody looks")),
    ),
    (Untried("limits.max_body_bytes", None, "a large body", "too large"),),
    7,
    1.5,
)
KEPT = RUN._replace(judged=RUN.judged[:1], untried=())


def test_text_tells_the_rules_and_what_failed() -> None:
    """The text has a line for each rule, the first failures whole, and a last line that sums up."""
    text = RENDERED_BY["text"](RUN).decode()
    assert re.search(r"fields\.n +5 +1$", text, re.MULTILINE)
    assert text.count("FAIL") == 3
    assert "and 2 more of fields.n" in text
    assert "file.yaml:1:2 (docs (H))" in text
    assert "5 of 7 checks failed, over 1 rule; 1 not observable, 1 not tried." in text
    assert "\x1b" not in text


def test_text_of_a_kept_contract_says_so() -> None:
    """Where nothing failed the text says how much was tried."""
    assert "1 check passed, none failed." in RENDERED_BY["text"](KEPT).decode()


def test_json_tells_all() -> None:
    """The JSON has every check with its result, and the counts."""
    value = json.loads(RENDERED_BY["json"](RUN))
    assert [value[key] for key in ("passed", "failed", "not_observable", "not_tried")] == [1, 5, 1, 1]
    assert [check["id"] for check in value["checks"]] == ["a", "b0", "b1", "b2", "b3", "b4", "c"]
    assert value["checks"][1]["came_back"] == {"status": 200, "content_type": "application/json", "body": "<i>no</i>"}


def test_junit_is_read_as_such() -> None:
    """The XML has a suite for each rule, a failure for what failed, and as skipped what was not seen or tried."""
    root = fromstring(RENDERED_BY["junit"](RUN))
    assert root.attrib | {"time": ""} == {
        "name": "profilec verify",
        "tests": "8",
        "failures": "5",
        "skipped": "2",
        "errors": "0",
        "time": "",
    }
    assert len(root.findall(".//failure")) == 5
    assert len(root.findall(".//skipped")) == 2
    assert [suite.get("name") for suite in root] == ["fields.top_p", "fields.n", "limits.max_body_bytes"]


@pytest.mark.parametrize("run", [RUN, KEPT], ids=["broken", "kept"])
def test_the_page_needs_nothing_beside_it(run: Run) -> None:
    """The page asks for nothing from elsewhere and runs nothing."""
    page = RENDERED_BY["html"](run).decode()
    assert not re.search(r"(?:src|href)=[\"'](?!#)|@import|url\(|<script|<link", page)
    assert page.startswith("<!doctype html>")


def test_the_page_shows_what_was_sent_as_text() -> None:
    """What comes from requests and answers never becomes markup."""
    page = RENDERED_BY["html"](RUN).decode()
    assert "<script>" not in page
    assert "<i>no" not in page
    assert "<b>temperature" not in page
    assert "&lt;script&gt;" in page


def test_the_page_tells_failures_with_all_that_is_known() -> None:
    """Each failure has what was sent, what came back, what was expected, what the contract says, and where."""
    page = RENDERED_BY["html"](RUN).decode()
    for fact in ("sent", "came back", "expected", "the contract", "declared"):
        assert page.count(f"<dt>{fact}</dt>") >= 5
    assert "The contract is not kept" in page
