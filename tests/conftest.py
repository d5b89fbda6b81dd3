"""How all tests are run: failures are shown as they happen, and cases of a batch can be chosen."""

import pytest
from hypothesis import settings

# The same examples on every run: a failure is a failure for everybody. A busy machine is no failure.
settings.register_profile("deterministic", derandomize=True, deadline=None, print_blob=True)
settings.load_profile("deterministic")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--case", default="", help="of tests with many cases, run the cases with this text in their name")


class ShowFailures:
    """Writes a failure when it happens; pytest itself writes it at the end, which is minutes later."""

    def __init__(self, reporter: pytest.TerminalReporter) -> None:
        self._reporter = reporter

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            case = f" [{report.context.msg}]" if isinstance(report, pytest.SubtestReport) else ""
            self._reporter.line("")
            self._reporter.write_sep("_", f"{report.nodeid}{case} ({report.when})", red=True)
            self._reporter.write_line(report.longreprtext)


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    if reporter is not None:  # the processes of xdist have none
        config.pluginmanager.register(ShowFailures(reporter), "show-failures")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run the files first that wait for real servers: while one process waits, the others compute."""
    items.sort(key=lambda item: "router/wire" not in item.nodeid and "demo" not in item.nodeid)
