"""Tasks written down in markdown: `## Title` begins one, `### Section` one of its parts."""

from __future__ import annotations

from fleet.core.errors import BadInput
from fleet.core.record import Record

#: The sections there are, with other words for them.
SECTIONS = {
    **{name: name for name in ("priority", "type", "description", "design", "notes", "assignee", "labels")},
    **{"acceptance criteria": "acceptance criteria", "acceptance": "acceptance criteria"},
    **{"dependencies": "dependencies", "deps": "dependencies"},
}


class Section(Record):
    """A piece of text and the line it begins on."""

    line: int
    text: str = ""


class Sections(Record):
    """One task: its title and its parts by name."""

    title: Section
    parts: dict[str, Section]


def read_markdown(text: str) -> list[Sections]:
    """The tasks of a file, in order. Raises BadInput for a section that is not known, and when there is no task."""
    found: list[Sections] = []
    name, fence = "", ""
    for number, line in enumerate(text.split("\n"), 1):
        line = line.rstrip("\r")
        fence = _fence(line, fence)
        heading = "" if fence else _heading(line)
        if heading.startswith("## "):
            found.append(Sections(title=Section(line=number, text=heading[3:].strip()), parts={}))
            name = "description"
        elif heading and found:
            name = _known(heading[4:].strip(), number)
            if name != "description" and name in found[-1].parts:
                raise BadInput(f"line {number}: a second section {heading[4:].strip()!r}")
        elif found:
            old = found[-1].parts.get(name) or Section(line=number)
            begins = old.line if old.text.strip() else number
            found[-1].parts[name] = Section(line=begins, text=old.text + line + "\n")
    if not found:
        raise BadInput("no issues found in markdown file (expected ## Issue Title format)")
    return [each.replace(parts={key: _stripped(part) for key, part in each.parts.items()}) for each in found]


def _heading(line: str) -> str:
    words = line.split(maxsplit=1)
    return f"{words[0]} {words[1]}" if len(words) == 2 and words[0] in ("##", "###") and line[0] == "#" else ""


def _fence(line: str, fence: str) -> str:
    """The fence the next line stands in: what looks like a heading inside a block of code is none."""
    mark = line.lstrip()[:3]
    if mark not in ("```", "~~~"):
        return fence
    return "" if fence == mark else fence or mark


def _known(name: str, number: int) -> str:
    found = SECTIONS.get(name.lower())
    if found is None:
        raise BadInput(f"line {number}: unknown section {name!r}", hint=f"sections: {', '.join(SECTIONS)}.")
    return found


def _stripped(section: Section) -> Section:
    return section.replace(text=section.text.strip())
