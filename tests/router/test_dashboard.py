"""The Grafana dashboard and the alert rules ask for metrics, labels and values that exist, and for all of them."""

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest
import yaml

from router.telemetry.metrics import METRICS
from tests.batches import batched
from tests.checkout import CHECKOUT

FOLDER = CHECKOUT / "router" / "deploy"
ALERTS = FOLDER / "alerts.yaml"
OF_PROMETHEUS = {"instance", "job", "le"}
"""Labels that Prometheus itself gives, or a histogram has."""
PARTS = {"counter": ("",), "gauge": ("",), "histogram": ("_bucket", "_sum", "_count")}
SERIES = {metric.name + part: metric for metric in METRICS for part in PARTS[metric.kind]}
TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[a-zA-Z_:$][\w:$]*|\d[\w.]*|=~|!~|!=|[<>=]=|[^\s\w]')
OPERATORS = {"=": str.__eq__, "!=": str.__eq__, "=~": lambda value, regex: bool(re.fullmatch(regex, value))}
OPERATORS["!~"] = OPERATORS["=~"]
GROUPING = {"by", "without", "on", "ignoring", "group_left", "group_right"}
CALLING = {"(", "by", "without"}
OF_PROMQL = {"and", "or", "unless", "offset", "bool"}


class Selection(NamedTuple):
    """A metric that a query asks for, with its matchers: label, operator, value."""

    name: str
    matchers: tuple[tuple[str, str, str], ...]


def _queries() -> dict[str, str]:
    """Return every query of the dashboard and of the alerts, by where it stands."""
    board: dict[str, Any] = json.loads((FOLDER / "dashboard.json").read_text())
    queries = {
        f"{panel['id']} {panel['title']} {target['refId']}": target["expr"]
        for panel in board["panels"]
        for target in panel.get("targets", ())
    }
    for variable in board["templating"]["list"]:
        if variable["type"] == "query":
            found = re.fullmatch(r"label_values\((\w+), (\w+)\)", variable["query"]["query"])
            assert found
            queries[f"${variable['name']}"] = f"count by ({found[2]}) ({found[1]})"
    return queries | {rule["alert"]: rule["expr"] for rule in _rules()}


def _rules() -> list[dict[str, Any]]:
    return [rule for group in yaml.safe_load(ALERTS.read_text())["groups"] for rule in group["rules"]]


def _enclosed(tokens: list[str], at: int, closing: str) -> list[str]:
    """Return the tokens between the bracket at a place and the one that closes it; none is nested in it."""
    return tokens[at + 1 : tokens.index(closing, at)]


def _read(query: str) -> tuple[list[Selection], set[str]]:
    """Return what a query selects, and the labels by which it groups."""
    tokens = TOKEN.findall(query)
    selections: list[Selection] = []
    grouped: set[str] = set()
    at = 0
    while at < len(tokens):
        token, following = tokens[at], tokens[at + 1] if at + 1 < len(tokens) else ""
        if token == "[":  # a range, with durations in it
            at = tokens.index("]", at)
        elif token in GROUPING:
            inside = _enclosed(tokens, at + 1, ")")
            grouped |= set(inside) - {","}
            at += 2 + len(inside)
        elif re.match(r"[a-zA-Z_:]", token) and following not in CALLING and token not in OF_PROMQL:
            inside = _enclosed(tokens, at + 1, "}") if following == "{" else []
            selections.append(Selection(token, tuple(_matchers(inside))))
            at += 2 + len(inside) if inside else 0
        at += 1
    return selections, grouped


def _matchers(tokens: list[str]) -> Iterator[tuple[str, str, str]]:
    for label, operator, value in zip(tokens[::4], tokens[1::4], tokens[2::4], strict=True):
        yield label, operator, json.loads(value)


def test_the_reader_of_queries_reads() -> None:
    """What this file finds in a query is what stands there."""
    query = (
        'sum by (le, route) (rate(a_bucket{route!~"x|y{}",le="1"}[$__rate_interval])) / on(job) b > 0.5 and c{} == 2'
    )
    assert _read(query) == (
        [
            Selection("a_bucket", (("route", "!~", "x|y{}"), ("le", "=", "1"))),
            Selection("b", ()),
            Selection("c", ()),
        ],
        {"le", "route", "job"},
    )


@batched(("place", "query"), _queries().items(), ids=_queries())
def test_queries_ask_for_what_exists(place: str, query: str) -> None:
    """Each metric is declared, each label is one of its, and each matcher matches a value of the closed list."""
    selections, grouped = _read(query)
    assert selections
    known = set(OF_PROMETHEUS)
    for name, matchers in selections:
        metric = SERIES[name]
        known |= set(metric.labels)
        for label, operator, value in matchers:
            if label not in OF_PROMETHEUS and not value.startswith("$"):
                values = metric.labels[label]
                assert values, f"{name} has no list of {label}"
                assert any(OPERATORS[operator](each, value) for each in values), f"{label}{operator}{value}"
    assert grouped <= known


@batched("place", _queries())
def test_quantiles_are_of_buckets(place: str) -> None:
    """Rates are taken of what only grows, and quantiles of buckets by their bounds."""
    query = _queries()[place]
    for name in re.findall(r"(?:rate|increase)\((\w+)", query):
        assert SERIES[name].kind != "gauge"
    for inside in re.findall(r"histogram_quantile\((.*)", query):
        assert re.search(r"by \(le\b", inside)
        assert "_bucket" in inside


def test_every_metric_is_shown() -> None:
    """Each declared metric stands in the dashboard or in an alert."""
    asked = {SERIES[selection.name].name for query in _queries().values() for selection in _read(query)[0]}
    assert asked == {metric.name for metric in METRICS}


def test_legends_name_labels_that_are_left() -> None:
    """A panel's legend shows only labels by which its query groups."""
    board: dict[str, Any] = json.loads((FOLDER / "dashboard.json").read_text())
    for panel in board["panels"]:
        for target in panel.get("targets", ()):
            shown = set(re.findall(r"{{(\w+)}}", target["legendFormat"]))
            assert shown <= _read(target["expr"])[1] | ({"instance"} if "by (" not in target["expr"] else set())


def test_panels_lie_side_by_side() -> None:
    """No two panels of the dashboard overlap, and each says what it shows."""
    board: dict[str, Any] = json.loads((FOLDER / "dashboard.json").read_text())
    taken: set[tuple[int, int]] = set()
    assert len({panel["id"] for panel in board["panels"]}) == len(board["panels"])
    for panel in board["panels"]:
        place = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert place["x"] + place["w"] <= 24
        assert not cells & taken, panel["title"]
        taken |= cells
        assert panel["type"] == "row" or panel["description"].endswith(".")


@pytest.mark.parametrize("rule", _rules(), ids=lambda rule: rule["alert"])
def test_alerts_say_what_to_do(rule: dict[str, Any]) -> None:
    """Each alert has a severity, a summary and a description, and shows only labels that its query leaves."""
    assert rule["labels"]["severity"] in {"warning", "critical"}
    annotations = rule["annotations"]
    assert set(annotations) == {"summary", "description"}
    assert annotations["description"].endswith(".")
    selections, grouped = _read(rule["expr"])
    left = grouped or {"instance"}.union(*(SERIES[selection.name].labels for selection in selections))
    assert set(re.findall(r"\$labels\.(\w+)", str(annotations))) <= left
    named = set(re.findall(r"router_\w+", str(annotations)))
    assert named <= {metric.name for metric in METRICS}


def test_promtool_finds_nothing_wrong() -> None:
    """Prometheus' own checker takes the rules."""
    if shutil.which("promtool") is None:
        pytest.skip("needs promtool")
    done = subprocess.run(["promtool", "check", "rules", str(ALERTS)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
