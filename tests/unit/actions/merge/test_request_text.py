"""The text of a pull request: the receipt in plain words, without mentions of people or issues."""

import re
from typing import Any

import pytest

from builders import MINUTE, NOON, a_task
from fleet.actions.merge.request_text import LONGEST, fenced, quiet, text_of, title_of
from fleet.core.finding import Finding
from fleet.core.receipt import Receipt, chain_receipt, draft_receipt
from fleet.core.run import Run
from receipted import pieces

COMMIT = "c" * 40


def a_receipt(finding: str = Finding.VERIFIED, **changes: dict[str, Any]) -> Receipt:
    body = draft_receipt(finding, ("`make test` exited with 0 at the tip of its branch",), pieces(**changes))
    made = Receipt(
        run_id="fleet-1/2", task_id="fleet-1", owner="o", coder="claude", finding=finding, made_at=NOON, body=body
    )
    return chain_receipt(made, "")


def a_run(number: int, **fields: Any) -> Run:
    given = {"started_at": NOON, "ended_at": NOON + 2 * MINUTE, "cost_usd": 0.25, "output_tokens": 1000, **fields}
    return Run(id=f"fleet-1/{number}", task_id="fleet-1", number=number, epoch=1, owner="o", **given)


def outside_of_fences(text: str) -> str:
    """Return the text outside of fences. A fence ends at a line with at least as many backquotes as its first line."""
    outside, fence = [], ""
    for line in text.splitlines():
        ticks = re.match(r"`{3,}", line)
        if not fence and ticks:
            fence = ticks[0]
        elif fence and ticks and len(ticks[0]) >= len(fence) and not line.strip("`").strip():
            fence = ""
        elif not fence:
            outside.append(line)
    assert not fence, "a fence stays open"
    return "\n".join(outside)


def test_request_text_contains_task_finding_and_cost() -> None:
    task = a_task(id="fleet-1", title="Fix the login", description="It fails for umlauts.")
    text = text_of(task, a_receipt(), [a_run(1), a_run(2)], commit=COMMIT)
    assert text.startswith("**verified** – real work, verified by fleet.\n")
    for part in (
        "Fix the login",
        "It fails for umlauts.",
        "`make test`",
        "12 passed",
        "M a.py",
        "2 files, +10 -3 lines",
    ):
        assert part in text
    assert "2 runs, $0.50, 2,000 tokens, 4.0 minutes." in text
    assert f"`{a_receipt().hash[:16]}` of run `fleet-1/2`" in text


def test_request_text_says_when_the_branch_moved_since_the_receipt() -> None:
    text = text_of(a_task(), a_receipt(), [], commit="d" * 40)
    assert f"The branch has moved since: the receipt covers {'c' * 12}, and this is {'d' * 12}." in text


def test_request_text_says_when_receipt_and_runs_are_missing() -> None:
    text = text_of(a_task(finding=""), None, [], commit=COMMIT)
    assert "**no finding**" in text and "No receipt exists" in text and "No agent has run." in text


def test_request_text_calls_an_unknown_cost_unknown() -> None:
    assert "1 run, no known cost" in text_of(a_task(), a_receipt(), [a_run(1, cost_usd=None)], commit=COMMIT)


HOSTILE = (
    "@everyone fixes #12 closes GH-3 resolves o/r#4",
    "```\n@admin fixes #1\n```",
    "``````\n@admin\n<!-- x -->",
    "~~~\n@admin",
    "</sub></details>\n# Approved by @boss",
    "line\r@admin\r\nfixes #1\x00\x1b[31m",
)


@pytest.mark.parametrize("words", HOSTILE)
def test_text_of_tasks_and_agents_stays_in_its_fence(words: str) -> None:
    task = a_task(title=words, description=words, finding=words[:0])
    receipt = a_receipt(
        git={"files": [{"path": words, "status": "M"}], "commits": [{"id": COMMIT, "subject": words, "author": words}]},
        claims={"summary": words, "status": words},
        verify={"tail": words, "command": words, "why": words, "status": 1},
        scope={"flags": [words], "strayed": [words]},
    )
    text = text_of(task, receipt, [a_run(2)], commit=COMMIT)
    outside = outside_of_fences(text)
    assert not re.search(r"@\w|#\w|GH-\d|fixes|closes|Approved|<!--|admin", outside), outside
    assert text.isprintable() or all(char.isprintable() or char in "\n\t" for char in text)


@pytest.mark.parametrize("words", HOSTILE)
def test_title_is_one_line_without_mentions_and_issue_references(words: str) -> None:
    title = title_of(a_task(title=words))
    assert "\n" not in title and len(title) < 250 and title.isprintable() | ("\u200b" in title)
    assert not re.search(r"@\w|#\w|GH-\d|<", title)


def test_title_contains_no_links() -> None:
    assert "://" not in quiet("fixes https://forge.example/o/r/issues/1")


def test_endless_text_is_cut_and_stays_in_its_fence() -> None:
    task = a_task(title="t" * 10_000, description="`" * 9_000 + "\n" + "long " * 100_000)
    receipt = a_receipt(verify={"tail": "`" * 40_000 + "x " * 500_000, "status": 1})
    text = text_of(task, receipt, [], commit=COMMIT)
    assert len(text) <= LONGEST + 1 and "(truncated" in text
    outside_of_fences(text)
    assert len(title_of(task)) <= 200


def test_fence_is_longer_than_any_fence_inside() -> None:
    assert fenced("a ```` b", 100).startswith("`````text\n")
    assert fenced("plain", 100) == "```text\nplain\n```"
