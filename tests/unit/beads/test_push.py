"""The bd calls of a change: few, with only the changed fields, and guarded if bd has guards."""

from datetime import timedelta

from builders import HOUR, NOON, a_comment, a_task, an_edge
from fleet.beads.push import BdCall, TaskChange, TransactionChanges, claim_steps, list_calls
from fleet.core.jsontext import decode
from fleet.core.task import Task, Verdict


def told(*changed: TaskChange, fenced: bool = True) -> list[BdCall]:
    return list_calls(TransactionChanges(changed), fenced=fenced)


def claimed(task: Task) -> Task:
    return task.claimed("host", NOON, NOON + HOUR)


def test_change_without_a_field_in_bd_makes_no_call() -> None:
    task = claimed(a_task())
    renewed = task.replace(claim_expires_at=NOON + 2 * HOUR, run_id="r", failures=3, handed_in_at=NOON, updated_at=NOON)
    assert told(TaskChange(task, renewed)) == []


def test_new_tasks_are_one_call_with_edges_labels_and_comments() -> None:
    first, second = a_task(labels=("x",), cwd="/here"), a_task()
    edge, comment = an_edge(second, first), a_comment(first)
    [step] = list_calls(
        TransactionChanges([TaskChange(None, first), TaskChange(None, second)], linked=[edge], comments=[comment]),
        fenced=True,
    )
    assert step.argv == ("import", "-", "--json")
    one, other = (decode(line) for line in step.text.splitlines())
    assert (one["labels"], one["metadata"], one["comments"][0]["text"]) == (["x"], {"fleet.cwd": "/here"}, "well")
    assert [each["depends_on_id"] for each in other["dependencies"]] == [first.id]


def test_tasks_are_claimed_by_one_call_and_deferred_ones_reopened_first() -> None:
    tasks = [a_task(), a_task(), a_task(status="deferred", defer_until=NOON)]
    woken, taken = claim_steps([(task, claimed(task)) for task in tasks])
    assert woken.words == ("update", "--status=open", "--defer=", tasks[2].id)
    assert (taken.argv, taken.ids, taken.actor) == (
        ("update", "--claim", "--json"),
        tuple(each.id for each in tasks),
        "host",
    )


def test_release_is_guarded_by_its_holder_when_bd_supports_it() -> None:
    held = claimed(a_task())
    back = Verdict(status="open", reason="again").on(held, NOON)
    [step] = told(TaskChange(held, back))
    assert set(step.argv[1:]) == {
        "--status=open",
        "--assignee=",
        '--metadata={"fleet.reason": "again"}',
        "--if-assignee=host",
    }
    assert (step.ids, step.actor) == ((held.id,), "host")
    [older] = told(TaskChange(held, back), fenced=False)
    assert "--if-assignee=host" not in older.argv


def test_close_with_its_reason_follows_all_other_changes() -> None:
    held = claimed(a_task())
    update, close = told(TaskChange(held, Verdict(status="closed", reason="done").on(held, NOON)))
    assert update.argv[0] == "update" and not any(word.startswith("--status") for word in update.argv)
    assert (close.argv, close.ids) == (("close", "--force", "--reason=done"), (held.id,))


def test_text_like_an_option_or_list_stays_text() -> None:
    task = a_task(labels=("old",))
    [step] = told(TaskChange(task, task.replace(title="--json", labels=("a,b", 'q"'))))
    assert {"--title=--json", '--add-label="a,b"', '--add-label="q"""'} < set(step.argv)
    assert "--remove-label=old" in step.argv


def test_prompts_are_passed_by_stdin_and_not_as_arguments() -> None:
    task, secret = a_task(), "-the plan\n"
    after = task.replace(title="new", description=secret, design=secret, acceptance=secret)
    line, update = told(TaskChange(task, after))
    found = decode(line.text)
    assert (found["description"], found["design"], found["acceptance_criteria"]) == (secret,) * 3
    assert set(update.argv) == {"update", "--title=new"}
    assert secret not in "".join([*line.argv, *update.argv])


def test_start_time_does_not_change_the_status() -> None:
    task = a_task()
    [step] = told(TaskChange(task, task.replace(defer_until=NOON + timedelta(days=1))))
    assert set(step.argv[1:]) == {"--defer=2026-03-02T12:00:00Z", "--status=open"}


def test_deleted_metadata_is_removed_and_that_of_fleet_emptied() -> None:
    task = a_task(metadata={"mine": 1, "kept": [1]}, reason="so")
    first, second = told(TaskChange(task, task.replace(metadata={"kept": [2]}, reason="")))
    assert "--metadata=" + '{"kept": [2], "fleet.reason": ""}' in first.argv
    assert second.argv == ("update", "--unset-metadata=mine")


def test_oversized_text_is_imported_as_a_line_and_other_fields_are_options() -> None:
    held = claimed(a_task(estimated_minutes=5))
    after = held.replace(description="x" * 200_000, due_at=NOON, status="blocked", assignee="")
    line, update = told(TaskChange(held, after))
    assert line.argv == ("import", "-", "--allow-stale", "--json")
    found = decode(line.text)
    assert (found["description"], found["status"], found["assignee"]) == (after.description, "in_progress", "host")
    assert {"--due=2026-03-01T12:00:00Z", "--status=blocked", "--assignee=", "--if-assignee=host"} == set(
        update.argv[1:]
    )


def test_estimates_and_flags_are_options_and_a_cleared_estimate_is_imported() -> None:
    task = a_task()
    [step] = told(TaskChange(task, task.replace(estimated_minutes=5, no_history=True)))
    assert step.argv == ("update", "--estimate=5", "--no-history")
    [line] = told(TaskChange(task.replace(estimated_minutes=5), task))
    assert line.argv[0] == "import" and "estimated_minutes" not in decode(line.text)


def test_edges_are_one_call_and_gated_edges_are_imported() -> None:
    first, second, third = a_task(), a_task(), a_task()
    gated = an_edge(first, third, "waits-for", metadata='{"gate": "any-children"}')
    changes = TransactionChanges(
        [TaskChange(first, first)],
        linked=[an_edge(first, second), gated],
        unlinked=[an_edge(second, third)],
    )
    batch, line = list_calls(changes, fenced=True)
    assert batch.argv == ("batch",)
    assert batch.text.splitlines() == [
        f'dep remove "{second.id}" "{third.id}"',
        f'dep add "{first.id}" "{second.id}" "blocks"',
    ]
    assert decode(line.text)["dependencies"][0]["metadata"] == gated.metadata


def test_deleted_tasks_are_one_call() -> None:
    tasks = [a_task(), a_task()]
    [step] = told(*(TaskChange(task, None) for task in tasks))
    assert step.words == ("delete", "--force", tasks[0].id, tasks[1].id)
