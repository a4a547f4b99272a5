"""bd's own contract corpus: the answers of the real `fleet bd` program have the same hashes as bd's answers."""

import hashlib
import json
import re
from pathlib import Path
from typing import Any

import pytest

from program import Program

CORPUS = json.loads((Path(__file__).parents[1] / "recordings" / "bd_contract.json").read_text())
INSTANT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")


@pytest.mark.parametrize("form", ["flat", "envelope"])
def test_every_answer_of_the_corpus_has_the_hash_of_bds_answer(fleet: Program, form: str) -> None:
    fleet.ok("bd", "init", "--prefix", "corpus")
    fleet.env |= {"BEADS_ACTOR": "protocol-test", "GIT_AUTHOR_EMAIL": "test@protocol.test"}
    if form == "envelope":
        fleet.env["BD_JSON_ENVELOPE"] = "1"
    wrong = []
    for step in CORPUS["steps"]:
        ended = fleet("bd", *step["argv"])
        assert ended.code == (1 if step["name"] == "error" else 0), ended
        answer = canonical(json.loads(ended.out), step["name"])
        text = json.dumps(answer, indent=2, sort_keys=True, ensure_ascii=False) + "\n"
        if hashlib.sha256(text.encode()).hexdigest() != step["sha256"][form]:
            wrong.append((step["name"], text))
    assert wrong == []


def canonical(answer: Any, name: str) -> Any:
    """Return the answer without fleet's own keys, and with placeholders for values that differ between runs."""
    answer = masked(answer)
    inner = answer["data"] if isinstance(answer, dict) and "data" in answer else answer
    if name == "version":
        inner |= {"branch": "<BRANCH>", "build": "<BUILD>", "version": "<VERSION>"}
    if name in ("list", "ready"):
        inner.sort(key=lambda row: row["id"])
    return answer


def masked(value: Any) -> Any:
    if isinstance(value, dict):
        kept = {key: masked(item) for key, item in value.items() if not key.startswith("fleet.")}
        return {key: item for key, item in kept.items() if not (key == "metadata" and item == {})}
    if isinstance(value, list):
        return [masked(item) for item in value]
    return INSTANT.sub("<TS>", value) if isinstance(value, str) else value
