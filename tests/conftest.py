"""Fixtures of every test, such as the program in its own home; and the folder and the summary of a run."""

import gc
import os
import signal
import sys
from collections.abc import Generator

import pytest
from hypothesis import settings

import costs
import leftovers
from isolated import isolate
from program import fleet

__all__ = ["fleet"]
pytest_plugins = ["soak"]

isolate()
settings.register_profile("steady", settings(), deadline=None)  # a busy machine is not a fault
settings.load_profile("steady")

# The first words of the reason that `needs.require` gives.
MARK = "not exercised: "
#: The prefix of properties that are tables, shown at the end of a run.
TABLE = "table: "
#: Exit codes of runs whose files need not be kept.
GREEN = (pytest.ExitCode.OK, pytest.ExitCode.USAGE_ERROR, pytest.ExitCode.NO_TESTS_COLLECTED)

# Only in the process that starts the workers, or that runs all tests itself.
RUN = pytest.StashKey[leftovers.Run]()
FOUND = pytest.StashKey[list[str]]()
KEEP = pytest.StashKey[bool]()
MACHINE = pytest.StashKey[costs.Machine]()

# A parent in the background may ignore these signals, and every program started here would inherit that.
for _number in (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP, signal.SIGTERM):
    if signal.getsignal(_number) == signal.SIG_IGN:
        signal.signal(_number, signal.default_int_handler if _number == signal.SIGINT else signal.SIG_DFL)

# Every worker reads all tests; compiling them takes longer than running many of them.
sys.dont_write_bytecode = False


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Create the folder of the run, which workers get through their environment."""
    gc.disable()  # Collecting tests creates no garbage: this halves the time.
    if not hasattr(config, "workerinput"):
        run = config.stash[RUN] = leftovers.Run()
        config.stash[MACHINE] = costs.Machine()
        config.option.basetemp = config.option.basetemp or run.folder / "t"


def pytest_collection_finish() -> None:
    """Count costs, and collect garbage, only from here on."""
    gc.freeze()
    gc.enable()
    costs.count_cpu()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add its costs to the report of each part of a test."""
    report = yield
    report.user_properties.append((costs.CPU, costs.count_cpu()))
    return report


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Fail a run that leaves something behind, and in CI a run that did not exercise everything."""
    leftovers.at_end.close()
    stash, reporter = session.config.stash, session.config.pluginmanager.get_plugin("terminalreporter")
    if RUN not in stash:
        return
    stash[FOUND] = stash[RUN].find_leftovers()
    is_incomplete = _in_ci() and reporter is not None and not_exercised(reporter)
    if session.exitstatus == 0 and (stash[FOUND] or is_incomplete):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
    stash[KEEP] = session.exitstatus not in GREEN


@pytest.hookimpl(trylast=True)
def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Show the tables, the costs, skipped tests and leftovers."""
    for title, text in tables(terminalreporter).items():
        terminalreporter.section(title)
        terminalreporter.write_line(text)
    if config.option.verbose >= 0:
        terminalreporter.section("costs")
        terminalreporter.write_line(costs.format_costs(terminalreporter.stats))
        terminalreporter.write_line(config.stash[MACHINE].format_use())
    names = not_exercised(terminalreporter)
    if names:
        terminalreporter.section("not exercised:", red=_in_ci(), yellow=not _in_ci())
        for name in names:
            terminalreporter.write_line(f"  {name}")
    if config.stash[FOUND]:
        terminalreporter.section("left behind:", red=True)
        for line in config.stash[FOUND]:
            terminalreporter.write_line(f"  {line}")
    if config.stash[KEEP]:
        terminalreporter.write_line(f"files of this run: {config.stash[RUN].folder}")


def pytest_unconfigure(config: pytest.Config) -> None:
    """Remove the folder of the run."""
    if RUN in config.stash:
        config.stash[RUN].close(keep=config.stash.get(KEEP, False))


def not_exercised(reporter: pytest.TerminalReporter) -> list[str]:
    """Return the names of missing programs that tests needed, each once."""
    reports = (report for kind in ("skipped", "failed", "error") for report in reporter.stats.get(kind, []))
    reasons = (_reason(report) for report in reports)
    return sorted({reason.partition(MARK)[2].splitlines()[0] for reason in reasons if MARK in reason})


def tables(reporter: pytest.TerminalReporter) -> dict[str, str]:
    """Return the tables that tests recorded, by title."""
    reports = (report for kind in ("passed", "failed") for report in reporter.stats.get(kind, []))
    told = (pair for report in reports for pair in getattr(report, "user_properties", ()))
    return {name.removeprefix(TABLE): str(text) for name, text in told if name.startswith(TABLE)}


def _reason(report: pytest.TestReport | pytest.CollectReport) -> str:
    # A skip is (path, line, reason), which a worker sends as a list; a failure has the message of its exception.
    if isinstance(report.longrepr, tuple | list):
        return str(report.longrepr[-1])
    crash = getattr(report.longrepr, "reprcrash", None)
    return str(crash.message if crash else report.longrepr)


def _in_ci() -> bool:
    return os.environ.get("CI") == "true"
