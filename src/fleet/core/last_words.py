"""The last message of an agent that handed nothing in, and whether it asks the user a question."""

from __future__ import annotations

import re

#: Characters at the end of a message that are searched, and that are quoted.
LONGEST_END, LONGEST_QUESTION = 4_000, 2_000
#: Polite phrases that expect no answer.
_POLITE = re.compile(
    r"\b(?:anything else|something else|any (?:other |more |further )?questions|how does (?:that|this) look)\b",
    re.IGNORECASE,
)
#: Requests that are not phrased as a question.
_REQUEST = re.compile(
    r"\bplease (?:confirm|tell me|let me know|choose|clarify|advise|decide|specify|provide)\b"
    r"|\blet me know (?:which|what|how|whether|when|where)\b"
    r"|\b(?:waiting for|awaiting|i need) your (?:answer|decision|confirmation|approval|input|reply|choice|go-ahead)\b",
    re.IGNORECASE,
)
_QUESTION = re.compile(r"[^.!?\n]*\?+(?=[\s\"'”’)*_`]|$)")
_FENCED = re.compile(r"(?:```|~~~).*?(?:```|~~~|\Z)", re.DOTALL)
_OPTION = re.compile(r"\s*(?:[-*•+]|\(?[0-9a-zA-Z][.):])\s")


def question_in(text: str) -> str:
    """Return the end of a message if it asks the reader something, else ""."""
    end = text[-LONGEST_END:].strip()
    paragraphs = [part for part in re.split(r"\n\s*\n", _FENCED.sub("", end)) if part.strip()]
    while len(paragraphs) > 1 and all(_OPTION.match(line) for line in paragraphs[-1].splitlines()):
        options = paragraphs.pop()  # the options below the question
        if _asks(options):
            return end[-LONGEST_QUESTION:]
    return end[-LONGEST_QUESTION:] if paragraphs and _asks(paragraphs[-1]) else ""


def _asks(paragraph: str) -> bool:
    asked = [found for found in _QUESTION.findall(paragraph) if not _POLITE.search(found)]
    return bool(asked) or bool(_REQUEST.search(paragraph) and not _POLITE.search(paragraph))
