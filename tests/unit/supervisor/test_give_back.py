"""Released tasks: the number of releases in a row, and the pause after them."""

from itertools import pairwise

from builders import NOON, a_task
from fleet.core.run import Ending, Run
from fleet.supervisor.give_back import LONGEST_SECONDS, pause, times_given_back


def a_run(epoch: int, ending: str) -> Run:
    return Run(id=f"t/{epoch}", task_id="t", number=epoch, epoch=epoch, owner="o", started_at=NOON, ending=ending)


def test_pauses_grow_up_to_a_minute() -> None:
    pauses = [pause(times, 1.0) for times in range(1, 100)]
    assert pauses[:4] == [1.0, 2.0, 4.0, 8.0]
    assert all(earlier < later or later == LONGEST_SECONDS for earlier, later in pairwise(pauses))
    assert pause(100, 300.0) == 300.0


def test_claims_without_a_run_are_counted_by_epochs() -> None:
    assert times_given_back(a_task(epoch=3), []) == 3
    assert times_given_back(a_task(epoch=7), [a_run(epoch=5, ending=Ending.FAILED)]) == 2


def test_given_back_runs_are_counted_until_one_ends_otherwise() -> None:
    runs = [a_run(epoch=each, ending=Ending.RELEASED) for each in (1, 3, 4)]
    runs[0] = runs[0].replace(ending=Ending.FAILED)
    assert times_given_back(a_task(epoch=4), runs) == 2
    assert times_given_back(a_task(epoch=6), runs) == 4
