"""The costs of the tests by folder, and the costliest of them: what `make test` shows at its end."""

import os
import resource
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import chain
from pathlib import Path

import pytest

#: The name of the report property with the costs of a part of a test.
CPU = "cpu seconds"
#: CPU seconds of programs that this process started but is not the parent of. Their helpers add them here.
elsewhere = 0.0
#: Files, and tests, that the summary names.
COSTLIEST = 15
#: CPU seconds and wall seconds by name.
Costs = defaultdict[str, tuple[float, float]]

_counted = 0.0


def count_cpu() -> float:
    """Return the CPU seconds that this process and its children spent since the last call."""
    global _counted
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    before, _counted = _counted, sum(each.ru_utime + each.ru_stime for each in used) + elsewhere
    return _counted - before


class Machine:
    """The processors of this machine from now on, whoever uses them."""

    def __init__(self) -> None:
        self._began, self._idle = time.monotonic(), _idle_seconds()

    def format_use(self) -> str:
        """Return a line with the part of their time that the processors were idle."""
        cores, seconds = os.cpu_count() or 1, time.monotonic() - self._began
        idle = (_idle_seconds() - self._idle) / (cores * seconds)
        return f"{cores} cores for {seconds:.0f} s, idle for {idle:.0%} of it"


def _idle_seconds() -> float:
    """Return the seconds that all processors were idle since the start of the machine; 0 if Linux does not tell."""
    try:
        ticks = Path("/proc/stat").read_text("ascii").split(maxsplit=6)
    except OSError:
        return 0
    return (int(ticks[4]) + int(ticks[5])) / os.sysconf("SC_CLK_TCK")


def format_costs(stats: Mapping[str, Sequence[object]]) -> str:
    """Return a table of the cases, CPU seconds and wall seconds of each folder, and the costliest files and tests."""
    sums: dict[str, list[float]] = {}
    files: Costs = defaultdict(lambda: (0, 0))
    tests: Costs = defaultdict(lambda: (0, 0))
    for report in chain(*stats.values()):
        if isinstance(report, pytest.TestReport):
            folder = "/".join(report.nodeid.partition("::")[0].split("/")[:-1][:2])
            cpu = sum(value for name, value in report.user_properties if name == CPU and isinstance(value, float))
            for costs, key in (files, report.nodeid.partition("::")[0]), (tests, report.nodeid):
                costs[key] = (costs[key][0] + cpu, costs[key][1] + report.duration)
            spent = (report.when == "setup", cpu, report.duration)
            for key in (folder, "total"):
                sums[key] = [old + new for old, new in zip(sums.get(key, (0, 0, 0)), spent, strict=True)]
    rows = sorted(sums.items(), key=lambda row: (row[0] == "total", row[0]))
    lines = (f"{folder:<20}{spent[0]:>8.0f}{spent[1]:>10.1f}{spent[2]:>10.1f}" for folder, spent in rows)
    costliest = (*_costliest(files), *_costliest(tests))
    return "\n".join((f"{'folder':<20}{'cases':>8}{'CPU s':>10}{'wall s':>10}", *lines, *costliest))


def _costliest(costs: Costs) -> list[str]:
    """Return a line for each of the names with the most CPU seconds, then for those with the most seconds."""
    lines = []
    for column, title in enumerate(("most CPU s:", "most wall s:")):
        names = sorted(costs, key=lambda name: costs[name][column], reverse=True)[:COSTLIEST]
        lines += [title, *(f"{costs[name][column]:>8.1f}  {name}" for name in names)]
    return lines
