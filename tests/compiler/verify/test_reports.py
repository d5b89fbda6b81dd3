"""What a run found, as text, JSON, JUnit XML and a page."""

import json
import re
from xml.etree.ElementTree import fromstring

import pytest

from compiler.verify.assertion import CheckVerdict, EndpointResponse
from compiler.verify.check import ChatRequest, Check, ExpectedAcceptance, ExpectedRejection, SkippedCheck
from compiler.verify.report import RENDERED_BY
from compiler.verify.report.as_text import text_of
from compiler.verify.report.page_style import STYLE
from compiler.verify.run import CompletedCheck, VerifyRun

SHOWN = "<b>temperature</b> & \x1b[31m"


def completed(name: str, rule: str, verdict: CheckVerdict) -> CompletedCheck:
    request = ChatRequest.of({"model": "m", "messages": [{"role": "user", "content": "<script>alert(1)</script>"}]})
    expected = ExpectedRejection(rule, 400, {"error": {"type": "t"}}, exact=True)
    if verdict.result == "pass":
        expected = ExpectedAcceptance({}, untouched=True)
    check = Check(name, rule, "thinking", "m", SHOWN, request, expected)
    return CompletedCheck(
        check, EndpointResponse(200, "application/json", b"<i>no</i>"), verdict, "says", "file.yaml:1:2", "docs (H)"
    )


RUN = VerifyRun(
    "my-profile",
    "sha256:0123456789abcdef0123",
    "http://127.0.0.1:1/v1/chat/completions",
    ("m",),
    (
        completed("a", "fields.top_p", CheckVerdict("pass")),
        *(completed(f"b{number}", "fields.n", CheckVerdict("fail", f"reason {number}")) for number in range(5)),
        completed("c", "fields.n", CheckVerdict("not observable", "nobody looks")),
    ),
    (SkippedCheck("limits.max_body_bytes", None, "a large body", "too large"),),
    7,
    1.5,
    "2026-11-30T16:56:46Z",
    "1.2.3",
)
KEPT = RUN._replace(completed=RUN.completed[:1], skipped=())
REPLAYED = RUN._replace(requests=0, record="a.jsonl", remembered=7)
RESUMED = RUN._replace(requests=3, record="a.jsonl", remembered=4)
ASTRAY = KEPT._replace(completed=(KEPT.completed[0]._replace(response=EndpointResponse(404, "text/html", b"")),))
FORMATS = sorted(RENDERED_BY)


def told(run: VerifyRun, form: str) -> str:
    return RENDERED_BY[form](run).decode()


@pytest.mark.parametrize("form", FORMATS)
def test_every_format_says_what_was_asked_when_and_by_which_release(form: str) -> None:
    """A report that is sent on says by itself what it is about."""
    text = told(RUN, form)
    assert RUN.target in text
    assert re.search(r"2026-11-30.16:56:46", text)
    assert "1.2.3" in text


@pytest.mark.parametrize(
    ("run", "said"),
    [
        (RUN, "7 requests in 1.5 s"),
        (REPLAYED, "7 responses from the record a.jsonl, nothing asked again"),
        (RESUMED, "3 requests in 1.5 s, and 4 responses from the record a.jsonl"),
    ],
)
@pytest.mark.parametrize("form", ["html", "junit", "text"])
def test_answers_of_a_record_do_not_count_as_asked(run: VerifyRun, said: str, form: str) -> None:
    """What was taken from a record is told as that, and the endpoint stays what was asked once."""
    assert said in told(run, form)
    assert RUN.target in told(run, form)


def test_a_record_that_does_not_say_when_is_told() -> None:
    """Where nobody wrote down when a record was made no date is made up."""
    assert "at an unknown time" in told(REPLAYED._replace(begun=None, release=None), "text")
    assert "timestamp" not in told(REPLAYED._replace(begun=None), "junit")


@pytest.mark.parametrize("form", FORMATS)
def test_an_address_that_answers_nothing_is_suspected(form: str) -> None:
    """Where no request at all was answered with 200 every format warns that the address or the model is wrong."""
    assert "Not one request was answered with 200" in told(ASTRAY, form)
    assert "Not one request was answered with 200" not in told(KEPT, form)


@pytest.mark.parametrize("form", ["html", "junit", "text"])
def test_a_request_of_no_bytes_is_told_as_such(form: str) -> None:
    """An empty body is not shown as nothing."""
    failed = RUN.completed[1]
    empty = failed._replace(
        check=failed.check._replace(request=ChatRequest((), text="")), response=EndpointResponse(500, "", b"")
    )
    assert told(RUN._replace(completed=(empty,)), form).count("(an empty body)") == 2


@pytest.mark.parametrize("columns", [60, 80, 120])
def test_text_fits_a_terminal(columns: int) -> None:
    """On a terminal no line of what is told is wider than it, and what goes on below stands beneath its beginning."""
    lines = text_of(RUN, columns).decode().splitlines()
    assert max(map(len, lines)) <= columns
    assert "  sent       {" in text_of(RUN, columns).decode()
    assert "".join("".join(lines).split()) == "".join("".join(told(RUN, "text").splitlines()).split())


def test_columns_with_nothing_in_them_are_left_out() -> None:
    """Where all was observed and tried no table has an empty column about it."""
    assert "not observable" not in told(KEPT, "text")
    assert "<th scope='col'>not observable</th>" not in told(KEPT, "html")
    assert "<th scope='col'>not observable</th>" in told(RUN, "html")


def test_names_in_junit_are_unique_and_suites_add_up() -> None:
    """Readers of JUnit tell cases apart by their names, and sum the suites."""
    root = fromstring(RENDERED_BY["junit"](RUN))
    names = [(case.get("classname"), case.get("name")) for case in root.iter("testcase")]
    assert len(set(names)) == len(names) == 8
    assert sum(int(suite.get("tests", "")) for suite in root) == 8
    assert {suite.get("timestamp") for suite in root} == {"2026-11-30T16:56:46"}


def test_the_page_leads_from_each_rule_to_its_checks_and_failures() -> None:
    """Every link of the page has a place that it leads to, within the details that it opens."""
    page = told(RUN, "html")
    links = re.findall(r"href='#([^']+)'", page)
    assert len(links) == 4
    assert all(page.count(f"id='{link}'") == 1 for link in links)
    assert "<details class='rule' id" not in page


def test_the_page_says_why_something_was_not_seen_or_tried() -> None:
    """Both have their reasons in a list of their own, and a rule's summary counts them."""
    page = told(RUN, "html")
    assert "<li><strong>1</strong> nobody looks</li>" in page
    assert "<li><strong>1</strong> a large body: too large</li>" in page
    assert "5 failed, 1 not observable" in page


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
    assert value["checks"][1]["came_back"] == {
        "status": 200,
        "content_type": "application/json",
        "body": "<i>no</i>",
        "failure": None,
    }


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
        "timestamp": "2026-11-30T16:56:46",
    }
    assert len(root.findall(".//failure")) == 5
    assert len(root.findall(".//skipped")) == 2
    assert [suite.get("name") for suite in root] == ["fields.top_p", "fields.n", "limits.max_body_bytes"]


@pytest.mark.parametrize("run", [RUN, KEPT], ids=["broken", "kept"])
def test_the_page_needs_nothing_beside_it(run: VerifyRun) -> None:
    """The page asks for nothing from elsewhere and runs nothing."""
    page = RENDERED_BY["html"](run).decode()
    assert not re.search(r"(?:src|href)=[\"'](?!#)|@import|url\(|<script|<link", page)
    assert page.startswith("<!doctype html>")


def test_the_page_shows_what_was_sent_as_text() -> None:
    """What comes from requests and responses never becomes markup."""
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


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("ink", ["ink", "soft", "good", "bad", "unseen"])
def test_what_the_page_says_stands_out_from_its_ground(scheme: str, ink: str) -> None:
    """All text has the contrast of 4.5 that people with weak sight need (WCAG 2, AA), in both colour schemes."""
    light, dark = STYLE.split("prefers-color-scheme: dark")
    colours = dict(re.findall(r"--([a-z-]+): (#[0-9a-f]+)", light if scheme == "light" else dark))
    for ground in ("ground", "card"):
        darker, lighter = sorted((luminance(colours[ink]), luminance(colours[ground])))
        assert (lighter + 0.05) / (darker + 0.05) >= 4.5


def luminance(colour: str) -> float:
    """Return how light a colour is, as WCAG counts it."""
    digits = colour[1:] if len(colour) == 7 else "".join(2 * digit for digit in colour[1:])
    parts = (int(digits[at : at + 2], 16) / 255 for at in (0, 2, 4))
    red, green, blue = (part / 12.92 if part <= 0.04 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue
