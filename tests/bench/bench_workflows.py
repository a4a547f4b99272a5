"""How long it takes to check a workflow of 1,000 stages: `python tests/bench/bench_workflows.py [rounds]`. Bar: 1 s."""

import json
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

import tomlkit
import yaml

from fleet.core.workflow import plan_in
from fleet.workflows.planning import plan_from_file

STAGES = 1_000
ROUNDS = 5
BAR_SECONDS = 1.0


def main() -> int:
    """Measure and print; 1 where a bar is not met."""
    rounds = max(3, int(sys.argv[1]) if len(sys.argv) > 1 else ROUNDS)
    flows = {"row": a_row(), "layers of 20": in_layers(), "fan of 998": a_fan()}
    writers: dict[str, Callable[[Any], str]] = {"json": json.dumps, "toml": tomlkit.dumps, "yaml": yaml.safe_dump}
    met = True
    with tempfile.TemporaryDirectory() as folder:
        for name, flow in flows.items():
            for suffix, write in writers.items():
                path = Path(folder, f"flow.{suffix}")
                path.write_text(write(flow), "utf-8")
                times = [measured(path) for _ in range(rounds)]
                met &= median(times) < BAR_SECONDS
                print(
                    f"check {STAGES} stages, {name}, {suffix}: {median(times) * 1000:,.0f} ms "
                    f"(min {min(times) * 1000:,.0f}, max {max(times) * 1000:,.0f}, n={rounds}); "
                    f"bar {BAR_SECONDS * 1000:,.0f} ms: {'met' if median(times) < BAR_SECONDS else 'MISSED'}"
                )
        plan = plan_from_file(str(path), knows=lambda coder: True)
        start = perf_counter()
        assert plan_in(plan.text()) == plan
        print(f"plan of {STAGES} stages to JSON and back: {(perf_counter() - start) * 1000:,.0f} ms. No bar.")
    return 0 if met else 1


def measured(path: Path) -> float:
    """Seconds from the file to the plan."""
    start = perf_counter()
    plan = plan_from_file(str(path), knows=lambda coder: True)
    taken = perf_counter() - start
    assert len(plan.stages) == STAGES
    return taken


def a_row() -> dict[str, Any]:
    """One after the other."""
    return {"stages": [stage(number, [number - 1] if number else []) for number in range(STAGES)]}


def in_layers() -> dict[str, Any]:
    """Layers of twenty, each stage after all of the layer before."""
    needs = [[] if number < 20 else list(range(number // 20 * 20 - 20, number // 20 * 20)) for number in range(STAGES)]
    return {"stages": [stage(number, found) for number, found in enumerate(needs)]}


def a_fan() -> dict[str, Any]:
    """One, then very many, then one."""
    inner = [stage(number, [0]) for number in range(1, STAGES - 1)]
    return {"stages": [stage(0, []), *inner, stage(STAGES - 1, list(range(1, STAGES - 1)))]}


def stage(number: int, needs: list[int]) -> dict[str, Any]:
    """A stage that says something about each of what it needs, up to five."""
    about = "\n".join(f"{{stage_{need}_summary}} {{stages.stage-{need}.files}}" for need in needs[:5])
    return {
        "name": f"stage-{number}",
        "executor": "claude",
        "prompt_template": f"{{task_prompt}}\n{about}",
        "depends_on": needs,
        **({"when": f'stages.stage-{needs[0]}.status == "completed"'} if needs else {}),
    }


if __name__ == "__main__":
    sys.exit(main())
