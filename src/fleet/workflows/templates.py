"""The workflow templates that come with fleet."""

from __future__ import annotations

from pathlib import Path

from fleet.core.errors import BadInput
from fleet.workflows.faults import nearest

FOLDER = Path(__file__).with_name("examples")


def names() -> list[str]:
    return sorted(path.stem for path in FOLDER.glob("*.toml"))


def text(name: str) -> str:
    """Return the template of this name. Raises BadInput."""
    if name not in names():
        raise BadInput(f"no template {name!r}", hint=nearest(name, names()))
    return (FOLDER / f"{name}.toml").read_text("utf-8")
