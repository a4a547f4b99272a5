"""The cost of a workflow of 1,000 stages: `python tests/bench/bench_workflows.py [rounds]`.

The bars: checking the file takes less than a second. The writes for a stage that ends take at most 1.5 times as long as
in a workflow of ten. This includes failing stages. All of it is measured without agents, and then with agents that end
at once, as the supervisor's own share. If a failure stops the others, each of them is checked, which has no bar. All
times are processor times, so that other load does not matter.
"""

import asyncio
import json
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from time import perf_counter, process_time
from typing import Any

import tomlkit
import yaml

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench.bench_supervisor import used
from builders import HOUR
from fleet.actions.workers import workflow_create
from fleet.actions.workers.create import WorkerCreator
from fleet.actions.workers.terms import WorkerTerms
from fleet.assembly import Fleet, open_cluster, open_fleet, open_launcher
from fleet.core.filter import Filter, Lane
from fleet.core.jsontext import encode
from fleet.core.run import Ending, Outcome, Run
from fleet.core.task import Claim, Status, Verdict
from fleet.core.workflow import CONTINUE, ON_FAILURE, Result, plan_in
from fleet.home import Home
from fleet.supervisor.agent_launchers import AgentLaunchers
from fleet.supervisor.context import Context
from fleet.supervisor.run import stage as staging
from fleet.supervisor.store_calls import StoreCalls
from fleet.workflows.check import KnownNames
from fleet.workflows.plan import plan_from_data, plan_from_file
from program import Program
from repositories import make_repository
from supervised import CODER, Supervised

STAGES = 1_000
SIZES = (10, 100, STAGES)
ROUNDS = 5
BAR_SECONDS = 1.0
#: The largest allowed ratio of a stage's cost in the largest and in the smallest workflow.
BAR_GROWTH = 1.5
#: A disk's time for a write varies tenfold and would hide growth.
MEMORY = Path("/dev/shm")
#: The number of stages that run at the same time when they fail one after the other.
FAILING = 8
ENDS_WELL, FAILS = Verdict(status=Status.CLOSED), Verdict(status=Status.BLOCKED, reason="it failed")
BODY = {"summary": "it is done", "files_changed": ["a.txt"], "status": "completed", "branch": "", "commit": ""}


def main() -> int:
    """Measure and print. Return 1 if a bar is missed."""
    rounds = max(3, int(sys.argv[1]) if len(sys.argv) > 1 else ROUNDS)
    met = [checking(rounds), *(keeping(name, shape, rounds) for name, shape in GROWING.items())]
    met += [failing(policy, rounds) for policy in ON_FAILURE]
    met.append(running())
    return 0 if all(met) else 1


def checking(rounds: int) -> bool:
    """Measure the time from a file to the plan, in every shape and format."""
    writers: dict[str, Callable[[Any], str]] = {"json": json.dumps, "toml": tomlkit.dumps, "yaml": yaml.safe_dump}
    met = True
    with tempfile.TemporaryDirectory() as folder:
        for name, shape in SHAPES.items():
            for suffix, write in writers.items():
                path = Path(folder, f"flow.{suffix}")
                path.write_text(write(shape(STAGES)), "utf-8")
                times = [measured(path) for _ in range(rounds)]
                met &= median(times) < BAR_SECONDS
                print(
                    f"check {STAGES} stages, {name}, {suffix}: {median(times) * 1000:,.0f} ms "
                    f"(min {min(times) * 1000:,.0f}, max {max(times) * 1000:,.0f}, n={rounds}); "
                    f"bar {BAR_SECONDS * 1000:,.0f} ms: {'met' if median(times) < BAR_SECONDS else 'MISSED'}"
                )
        plan = plan_from_file(str(path), known=KnownNames(lambda coder: True))
        start = process_time()
        assert plan_in(plan.text()) == plan
        print(f"plan of {STAGES} stages to JSON and back: {(process_time() - start) * 1000:,.0f} ms. No bar.")
    return met


def keeping(name: str, shape: Callable[[int], dict[str, Any]], rounds: int) -> bool:
    """Measure the work of store and engine per stage, without an agent: claim, fill the prompt, settle, hand on."""
    found: dict[int, float] = {}
    for size in SIZES:
        times = [asyncio.run(kept(shape(size))) for _ in range(max(rounds, 20 * SIZES[0] // size))]
        found[size] = median(times)
    return told(f"bookkeeping of a stage, {name}", found)


async def kept(flow: dict[str, Any]) -> float:
    """Return the seconds per stage of a workflow, from its claim to its settling."""
    with a_workflow(flow) as (fleet, context):
        lane, done, start = Lane(room=8, where=Filter(origins=(workflow_create.ORIGIN,))), 0, process_time()
        while claims := await context.store.call(fleet.store.claims.acquire, "bench", [lane], room=8, ttl=HOUR):
            for claim in claims:
                await over(context, claim)
            done += len(claims)
        taken = process_time() - start
        assert done == len(flow["stages"]), done
    return taken / done


def failing(policy: str, rounds: int) -> bool:
    """Measure the cost of one more failing stage. An earlier failure has already stopped the stages it affects."""
    found: dict[int, float] = {}
    for size in SIZES:
        flow = {**a_crowd(size), "on_failure": policy}
        found[size] = median(asyncio.run(kept_failing(flow)) for _ in range(max(rounds, 5)))
    return told(f'bookkeeping of a stage that fails, on_failure = "{policy}"', found, has_bar=policy == CONTINUE)


async def kept_failing(flow: dict[str, Any]) -> float:
    """Return the seconds of a failing stage after the first, among the stages that run at the same time."""
    with a_workflow(flow) as (fleet, context):
        lane = Lane(room=FAILING, where=Filter(origins=(workflow_create.ORIGIN,)))
        first, *rest = await context.store.call(fleet.store.claims.acquire, "bench", [lane], room=FAILING, ttl=HOUR)
        await over(context, first, FAILS)
        start = process_time()
        for claim in rest:
            await over(context, claim, FAILS)
        return (process_time() - start) / len(rest)


async def over(context: Context, claim: Claim, settled: Verdict = ENDS_WELL) -> None:
    """Begin and end a stage as the engine does, in as many transactions."""
    task = await staging.staged(context, claim)
    run = Run(id="", task_id=task.id, number=0, epoch=claim.epoch, owner="bench", started_at=context.now())
    run = await context.store.call(context.store.runs.begin, claim, run)
    outcome = Outcome(ending=Ending.FINISHED)

    def write() -> None:
        with context.store.atomic():
            context.store.runs.end(run.replace(ended_at=context.now(), ending=Ending.FINISHED))
            verdict = staging.judge_stage(context.store.ports, task, outcome, settled)
            staging.stop_other_stages(context.store.ports, context.store.claims.settle(claim, verdict))
            made = Result(task_id=task.id, run_id=run.id, made_at=context.now(), made_by="agent", body=encode(BODY))
            context.store.results.keep(made)

    await context.store.call(write)


@contextmanager
def a_workflow(flow: dict[str, Any]) -> Iterator[tuple[Fleet, Context]]:
    """Create this workflow in a new home. Yield the home and the context of a supervisor."""
    with tempfile.TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else None) as folder:
        home, repo = Home(str(Path(folder, "home"))), make_repository(Path(folder, "repo"))
        fleet = open_fleet(home, make=True)
        context = Context(
            home, StoreCalls(fleet.store), AgentLaunchers(open_launcher()), owner="bench", cluster=open_cluster
        )
        try:
            plan = plan_from_data(flow, name="bench", known=KnownNames(lambda coder: True))
            asked = workflow_create.WorkflowRequest(directory=str(repo), prompt="x")
            workflow_create.make(fleet, plan, asked, WorkerTerms.of({}), WorkerCreator("bench"))
            yield fleet, context
        finally:
            context.close()
            fleet.store.close()


def running() -> bool:
    """Measure the supervisor's processor time per stage with agents, for five rows side by side."""
    found: dict[int, float] = {}
    for size in SIZES:
        with tempfile.TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else None) as folder:
            home = Supervised(Program(Path(folder)))
            try:
                found[size] = ran(home, size, times=max(1, 10 * SIZES[0] // size))
            finally:
                home.stop()
    return told("processor time of the supervisor for a stage that runs", found)


def ran(home: Supervised, size: int, times: int) -> float:
    """Return the processor seconds per stage, over this many workflows of a size."""
    home.fleet.cwd = make_repository(home.fleet.cwd / "repo")
    home.fleet.env |= {"FLEET_DEFAULT_EXECUTOR": CODER}
    home.set("supervisor.start_interval_seconds=0", "supervisor.claim_seconds=3600")
    file = home.fleet.user / "flow.json"
    needs = [[number - 5] if number >= 5 else [] for number in range(size)]
    stages = [{"name": f"s{number}", "depends_on": found, **AT_ONCE} for number, found in enumerate(needs)]
    file.write_text(json.dumps({"stages": stages}))
    home.start()
    assert home.process is not None
    time.sleep(2)  # the cost of a start is not part of a stage
    before, began = used(home.process), perf_counter()
    for _ in range(times):
        made = json.loads(home.fleet.ok("workflow", "run", str(file), "--json"))
        home.wait_all([str(each["task"]) for each in made["stages"]], "closed", patience=60 + 2 * size)
    taken = perf_counter() - began
    assert len(home.notes("end")) == size * times
    print(f"{size * times} stages ran in {taken:,.1f} s: {taken / size / times * 1000:,.0f} ms each. No bar.")
    return (used(home.process) - before) / size / times


def told(what: str, found: dict[int, float], *, has_bar: bool = True) -> bool:
    """Print one line. Return True if the growth is within its bar."""
    growth = found[SIZES[-1]] / found[SIZES[0]]
    each = ", ".join(f"{seconds * 1000:,.2f} ms of {size}" for size, seconds in found.items())
    met = growth <= BAR_GROWTH or not has_bar
    bar = f"; bar {BAR_GROWTH:g}×: {'met' if met else 'MISSED'}" if has_bar else ". No bar."
    print(f"{what}: {each}: {growth:.2f}×{bar}")
    return met


def measured(path: Path) -> float:
    """Return the seconds from the file to the plan."""
    start = process_time()
    plan = plan_from_file(str(path), known=KnownNames(lambda coder: True))
    taken = process_time() - start
    assert len(plan.stages) == STAGES
    return taken


def a_row(size: int) -> dict[str, Any]:
    """Return a workflow whose stages run one after the other."""
    return {"stages": [stage(number, [number - 1] if number else []) for number in range(size)]}


def in_layers(size: int) -> dict[str, Any]:
    """Return a workflow of layers of twenty stages. Each stage depends on all of the previous layer."""
    needs = [[] if number < 20 else list(range(number // 20 * 20 - 20, number // 20 * 20)) for number in range(size)]
    return {"stages": [stage(number, found) for number, found in enumerate(needs)]}


def after_two(size: int) -> dict[str, Any]:
    """Return a workflow whose stages each depend on the two before."""
    return {"stages": [stage(number, list(range(max(0, number - 2), number))) for number in range(size)]}


def a_fan(size: int) -> dict[str, Any]:
    """Return a workflow of one stage, then very many, then one."""
    inner = [stage(number, [0]) for number in range(1, size - 1)]
    return {"stages": [stage(0, []), *inner, stage(size - 1, list(range(1, size - 1)))]}


def a_crowd(size: int) -> dict[str, Any]:
    """Return a workflow with a few independent stages, on which many others depend."""
    return {"stages": [stage(number, [number % FAILING] if number >= FAILING else []) for number in range(size)]}


def stage(number: int, needs: list[int]) -> dict[str, Any]:
    """Return a stage whose prompt names up to five of its dependencies."""
    about = "\n".join(f"{{stage_{need}_summary}} {{stages.stage-{need}.files}}" for need in needs[:5])
    return {
        "name": f"stage-{number}",
        "executor": "demo",
        "prompt_template": f"{{task_prompt}}\n{about}",
        "depends_on": needs,
        **({"when": f'stages.stage-{needs[0]}.status == "completed"'} if needs else {}),
    }


SHAPES = {"a row": a_row, "layers of 20": in_layers, "a fan": a_fan}
#: The shapes in which the dependencies of a stage do not grow with the workflow.
GROWING = {"a row": a_row, "after two": after_two, "a fan": a_fan}
#: A stage whose agent, a coder of the tests, ends at once.
AT_ONCE = {"prompt_template": "do: ok", "executor": CODER, "no_changes": True}


if __name__ == "__main__":
    sys.exit(main())
