"""fleet's `bd` compared with recordings of the real bd 1.3.0: the same exit codes and the same JSON.

`tools/record_bd.py` made the recordings. `DIFFERENT` lists intended differences and their reasons.
"""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from program import Program

RECORDINGS = Path(__file__).parents[1] / "recordings" / "bd"
SCENARIOS = sorted(path.stem for path in RECORDINGS.glob("*.json"))

#: Reasons why fleet's answer differs from bd's, by (scenario, step).
DIFFERENT = {
    ("update", 7): "bd's newer contract keeps --set-metadata values as text",
    ("update", 11): "as above",
    ("update", 13): "as above",
    ("config", 9): "fleet's queue has other settings of its own",
    ("config", 12): "fleet is another program",
    ("config", 13): "fleet is another program",
    ("batch", 2): "fleet notes who made a task in a batch",
    ("delete", 2): "fleet keeps no events to count",
    ("delete", 9): "as above",
    ("delete", 11): "as above",
    ("prime", 3): "fleet explains its own queue",
    ("show", 3): "bd leaves the instants of dependents empty",
}

#: Fields of bd 1.3.0 for leases and revisions, which fleet does not show; fleet's fence; free text of hints.
OWN_FIELDS = {"claim_fence", "lease_expires_at", "heartbeat_at", "revision", "comments_omitted", "hint"}

#: Scenarios write their own instants outside these years.
YEAR = r"20(?:2[6-9]|[3-8]\d|9[0-8])"
MASKS = (
    (re.compile(rf"{YEAR}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z"), "<TS>"),
    (re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"), "<UUID>"),
)
MADE_UP = re.compile(r"<ID\d+>")
ISSUE_ID = re.compile(r"\bfleet-[0-9a-z]{3,8}\b|<ID\d+>")


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_fleet_answers_as_the_real_bd_did(fleet: Program, scenario: str) -> None:
    fleet.furnish(("init", "--permissions", "user"))
    fleet.env |= {"BEADS_ACTOR": "recorder", "GIT_AUTHOR_EMAIL": "recorder@example.test"}
    steps = json.loads((RECORDINGS / f"{scenario}.json").read_text())["steps"]
    mask = Mask(steps)
    wrong = []
    for number, step in enumerate(steps):
        if "write" in step:
            (fleet.cwd / step["write"]).write_text(step["text"])
        elif "argv" in step and (scenario, number) not in DIFFERENT:
            wrong += compare(fleet, step, mask)
    assert wrong == []


def test_every_difference_names_a_step_that_exists() -> None:
    for scenario, number in DIFFERENT:
        assert "argv" in json.loads((RECORDINGS / f"{scenario}.json").read_text())["steps"][number]


def compare(fleet: Program, step: dict[str, Any], mask: "Mask") -> list[Any]:
    """Run the recorded command with fleet. Return the differences."""
    if any(MADE_UP.search(word) for word in step["argv"]):
        return []  # the command names an id that only bd's own run had
    ended = fleet("bd", *step["argv"], stdin=step.get("stdin", ""), **step.get("env", {}))
    if ended.code != step["code"]:
        return [(step["argv"], "code", ended, step)]
    wanted = parsed(step["stdout"])
    if wanted is None:
        return []
    if mask(parsed(ended.out)) != mask(wanted):
        return [(step["argv"], "json", mask(parsed(ended.out)), mask(wanted))]
    return []


def parsed(text: str) -> Any:
    """Return the JSON of an answer, or None if the answer is text."""
    try:
        return json.loads(text) if text[:1] in "[{" else None
    except ValueError:
        return None


class Mask:
    """A mask for values that differ between runs, and for keys that only fleet or bd has."""

    def __init__(self, steps: list[dict[str, Any]]) -> None:
        asked = json.dumps(
            [(step.get("argv"), step.get("stdin"), step.get("text")) for step in steps if "read" not in step]
        )
        self._known = set(ISSUE_ID.findall(asked))

    def __call__(self, value: Any) -> Any:
        if isinstance(value, dict):
            return self._object(value)
        if isinstance(value, list):
            return [self(item) for item in value]
        return self._text(value) if isinstance(value, str) else value

    def _object(self, found: dict[str, Any]) -> dict[str, Any]:
        if "error" in found:  # only the refusal counts; fleet uses its own words if bd's are confusing
            found = {**found, "error": "<ERROR>"}
        kept = {key: self(item) for key, item in found.items() if key not in OWN_FIELDS}
        kept = {key: item for key, item in kept.items() if not key.startswith("fleet.")}
        return {key: item for key, item in kept.items() if not (key == "metadata" and item == {})}

    def _text(self, text: str) -> str:
        for pattern, token in MASKS:
            text = pattern.sub(token, text)
        return ISSUE_ID.sub(lambda match: match[0] if match[0] in self._known else "<ID>", text)
