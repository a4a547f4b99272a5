"""State of claude's screen, and answers to the questions that it asks before the first work.

The input is a line with ❯ between two rules. One or two lines about the state follow. A question replaces the input. It
has at most one rule, and its last line names the keys that answer it.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from fleet.coders.base import BUSY, QUESTION, READY

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

#: Lines examined, counted from the end of the screen. A question can be long, an input seldom is.
LOOKED_AT = 60
LONGEST_LINE = 400
#: Maximum number of lines below the input.
MOST_BELOW = 6
KEY_END = 20  # characters of a key that claude remembers

_RULE = re.compile(r"\s*[─━]{10}[─━\s\w]*")
_INPUT = re.compile(r"[❯>](?:\s(.*))?")
_EMPTY = re.compile(r"|Try \"[^\"]*\"?…?|Press up to edit queued messages")
_AT_WORK = re.compile(r"\besc to interrupt\b")
#: An odd sign, one word about the activity and its duration: "✶ Gesticulating… (3s · ↓ 30 tokens)".
_SPINNER = re.compile(r"[^\w\s] \S.{0,80}… \(.{0,60}\d+s\b.*")
_KEYS = re.compile(r"\b(?:enter to (?:confirm|select|continue|submit)|esc to (?:cancel|exit|go back|reject))\b", re.I)
_CHOICE = re.compile(r"\s*❯ \d{1,2}\. .*")


def shown(screen: str) -> str:
    lines = [line[:LONGEST_LINE].rstrip() for line in screen.rstrip().split("\n")[-LOOKED_AT:]]
    if any(_KEYS.search(line) for line in lines[-3:]):  # regardless of the lines above: an agent can draw a box too
        return QUESTION
    box = _box(lines)
    if box is None:
        return QUESTION if any(_CHOICE.fullmatch(line) for line in lines[-15:]) else ""
    first, last = box
    typed = _INPUT.fullmatch(lines[first + 1])
    if last > first + 2 or not typed or not _EMPTY.fullmatch((typed[1] or "").strip()):
        return ""  # words not sent yet
    above = [line for line in lines[max(0, first - 8) : first] if line.strip()]
    at_work = any(_AT_WORK.search(line) for line in lines[last + 1 :]) or any(map(_SPINNER.fullmatch, above))
    return BUSY if at_work else READY


def _box(lines: list[str]) -> tuple[int, int] | None:
    """Return the line numbers of the two rules around the input.

    Return None if the screen does not end with an input.
    """
    rules = [number for number, line in enumerate(lines) if _RULE.fullmatch(line)]
    if len(rules) < 2 or len(lines) - 1 - rules[-1] > MOST_BELOW:
        return None
    first, last = rules[-2:]
    return (first, last) if last > first + 1 and _INPUT.fullmatch(lines[first + 1]) else None


def answers(cwd: str, env: Mapping[str, str]) -> dict[str, dict[str, Any]]:
    """Return the account's files as they are after all questions before the first work have been answered."""
    known: dict[str, Any] = {"hasCompletedOnboarding": True} | trust(cwd)
    key = env.get("ANTHROPIC_API_KEY", "")
    if key:
        known["customApiKeyResponses"] = {"approved": [key[-KEY_END:]]}
    return {".claude.json": known, "settings.json": {"skipDangerousModePermissionPrompt": True}}


def trust(folder: str) -> dict[str, Any]:
    """Return the setting that makes claude trust a directory and all below it."""
    return {"projects": {folder: {"hasTrustDialogAccepted": True}}}
