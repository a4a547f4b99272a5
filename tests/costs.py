"""The costs of the tests by folder: what `make test` shows at its end."""

import resource
from collections.abc import Mapping, Sequence
from itertools import chain

import pytest

#: The name of the report property with the costs of a part of a test.
CPU = "cpu seconds"
#: CPU seconds of programs that this process started but is not the parent of. Their helpers add them here.
elsewhere = 0.0

_counted = 0.0


def count_cpu() -> float:
    """Return the CPU seconds that this process and its children spent since the last call."""
    global _counted
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    before, _counted = _counted, sum(each.ru_utime + each.ru_stime for each in used) + elsewhere
    return _counted - before


def format_costs(stats: Mapping[str, Sequence[object]]) -> str:
    """Return a table of the cases, CPU seconds and wall seconds of each folder."""
    sums: dict[str, list[float]] = {}
    for report in chain(*stats.values()):
        if isinstance(report, pytest.TestReport):
            folder = "/".join(report.nodeid.partition("::")[0].split("/")[:-1][:2])
            cpu = sum(value for name, value in report.user_properties if name == CPU and isinstance(value, float))
            spent = (report.when == "setup", cpu, report.duration)
            for key in (folder, "total"):
                sums[key] = [old + new for old, new in zip(sums.get(key, (0, 0, 0)), spent, strict=True)]
    rows = sorted(sums.items(), key=lambda row: (row[0] == "total", row[0]))
    lines = (f"{folder:<20}{spent[0]:>8.0f}{spent[1]:>10.1f}{spent[2]:>10.1f}" for folder, spent in rows)
    return "\n".join((f"{'folder':<20}{'cases':>8}{'CPU s':>10}{'wall s':>10}", *lines))
