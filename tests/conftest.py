"""What every test has: the program in a home of its own, and a last word: tables, and what was not exercised."""

import os
import signal
from collections import Counter

import pytest

from program import fleet

__all__ = ["fleet"]

# The first words of the reason that `needs.require` gives.
MARK = "not exercised: "

# Whoever runs this in the background may have these ignored, which every program here would inherit.
for _number in (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP, signal.SIGTERM):
    if signal.getsignal(_number) == signal.SIG_IGN:
        signal.signal(_number, signal.default_int_handler if _number == signal.SIGINT else signal.SIG_DFL)
#: The first words of the name of a property that is a table, to be shown when all is over.
TABLE = "table: "
#: Files of a few tests that take long. They come first: at the end one worker would be busy and the others idle.
LONG = (
    *(
        "test_partitions",
        "test_crash_recovery",
        "test_receipt_corpus",
        "test_hosts_under_load",
        "test_queue_under_load",
    ),
    *("test_terminals_through_fleet", "test_honest_runs", "test_workflow_of_real_clis", "test_codefleet_by_real_clis"),
    *("test_database_outage", "test_clock_jumps", "test_workflow_kills", "test_create_under_kill", "test_update"),
    *("test_merge_under_kill", "test_supervisor_output", "test_queue_migrate_killed", "test_queue_migrate_whole"),
    *("test_three_queues", "test_many_hosts", "test_beads_queue", "test_queue_state_machine", "test_supervisor_faults"),
)


def not_exercised(reporter: pytest.TerminalReporter) -> list[str]:
    """What tests could not use for want of something on this machine, each named once."""
    reports = (report for kind in ("skipped", "failed", "error") for report in reporter.stats.get(kind, []))
    reasons = (_reason(report) for report in reports)
    return sorted({reason.partition(MARK)[2].splitlines()[0] for reason in reasons if MARK in reason})


def tables(reporter: pytest.TerminalReporter) -> dict[str, str]:
    """The tables that tests recorded, by their titles."""
    reports = (report for kind in ("passed", "failed") for report in reporter.stats.get(kind, []))
    told = (pair for report in reports for pair in getattr(report, "user_properties", ()))
    return {name.removeprefix(TABLE): str(text) for name, text in told if name.startswith(TABLE)}


def _reason(report: pytest.TestReport | pytest.CollectReport) -> str:
    # A skip is (path, line, reason), which a worker sends as a list; a failure knows the message of its exception.
    if isinstance(report.longrepr, tuple | list):
        return str(report.longrepr[-1])
    crash = getattr(report.longrepr, "reprcrash", None)
    return str(crash.message if crash else report.longrepr)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Where several workers share the files, let those that take longest be taken first."""
    if hasattr(config, "workerinput"):
        sizes = Counter(item.path for item in items)
        ranks = {name: rank for rank, name in enumerate(LONG)}
        items.sort(key=lambda item: (ranks.get(item.path.stem, len(LONG)), -sizes[item.path], str(item.path)))


@pytest.hookimpl(trylast=True)
def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Show the tables, and say by name what was left out."""
    for title, text in tables(terminalreporter).items():
        terminalreporter.section(title)
        terminalreporter.write_line(text)
    names = not_exercised(terminalreporter)
    if names:
        terminalreporter.section("not exercised:", red=_in_ci(), yellow=not _in_ci())
        for name in names:
            terminalreporter.write_line(f"  {name}")


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """In CI everything is there, or the run has failed."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if _in_ci() and reporter is not None and session.exitstatus == 0 and not_exercised(reporter):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def _in_ci() -> bool:
    return os.environ.get("CI") == "true"
