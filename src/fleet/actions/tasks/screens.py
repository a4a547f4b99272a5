"""Dialogs on the screens of agents: reading them, and typing a person's choice.

An answer is typed only into the dialog that the person was shown. Anything else on the screen raises DialogChanged.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from typing import TYPE_CHECKING, NamedTuple

from fleet import coders
from fleet.actions.control.other_hosts import is_elsewhere
from fleet.assembly import open_pane
from fleet.coders.screen_dialog import dialog_on
from fleet.core.errors import BadInput, FleetError, UsageError
from fleet.core.jsontext import decode, encode
from fleet.core.task_status import QUESTION
from fleet.files import atomic_write, read_small
from fleet.home import Home

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from typing import Any, Protocol

    from fleet.assembly import Fleet
    from fleet.coders.base import Coder
    from fleet.coders.screen_dialog import Dialog, Option
    from fleet.core.run import Run
    from fleet.core.task import Task

    class Keyboard(Protocol):
        """The screen and keyboard of an agent's terminal."""

        def screen(self) -> str: ...
        def press(self, key: str) -> None: ...
        def paste(self, text: str) -> None: ...


#: How long a dialog may take to react to a key, and the pause between two looks.
REACTION_SECONDS, PAUSE_SECONDS = 5.0, 0.1
#: How long another answer to the same agent may take.
TURN_SECONDS = 20.0
#: The largest list of seen dialogs, and how many it keeps.
MOST_BYTES, MOST_SEEN = 256 * 1024, 500
PREFIX = "d-"


class DialogChanged(FleetError):
    """The screen does not show the dialog that was answered. Nothing was typed."""

    hint = "run `fleet questions` to see what the agent waits for now."


class Shown(NamedTuple):
    """A dialog on the screen of a task's agent."""

    task: Task
    run: Run
    dialog: Dialog

    @property
    def id(self) -> str:
        """Return the dialog's number for `fleet answer`. Another dialog of the same agent has another number."""
        return f"{PREFIX}{self.dialog.digest}"

    def view(self) -> dict[str, Any]:
        """Return the dialog as plain data, with the keys of a question."""
        return {
            "kind": "dialog",
            "id": self.id,
            "task": self.task.id,
            "branch": self.task.branch or None,
            "title": self.task.title,
            "run": self.run.id,
            "asked_at": (self.run.last_event_at or self.run.started_at).isoformat(timespec="seconds"),
            "text": self.dialog.text,
            "options": [{"number": each.number, "text": each.text} for each in self.dialog.options],
            "waits": True,
        }


class Chosen(NamedTuple):
    """The result of an answer to a dialog."""

    shown: Shown
    option: Option
    typed: str = ""  # words that were typed into the dialog
    message: str = ""  # words that the agent gets after it was declined


def shown_dialogs(fleet: Fleet, live: Iterable[tuple[Task, Run]]) -> list[Shown]:
    """Return the dialogs on the screens of these live agents, as far as they wait for a choice on this host."""
    found = (shown_dialog(fleet, task, run) for task, run in live if run.screen == QUESTION)
    return [each for each in found if each is not None]


def shown_dialog(fleet: Fleet, task: Task, run: Run) -> Shown | None:
    """Return the dialog on the screen of a live agent now. Return None if fleet recognizes none."""
    with contextlib.suppress(FleetError):
        if (opened := _opened(fleet, run)) and (dialog := dialog_on(opened[0], opened[1].screen())):
            return Shown(task, run, dialog)
    return None


def _opened(fleet: Fleet, run: Run) -> tuple[Coder, Keyboard] | None:
    """Return the coder and the terminal of a live agent on this host. Return None if it has none."""
    if not run.is_live or not run.session_name or is_elsewhere(fleet, run.owner):
        return None
    pane = open_pane(run.launcher.partition(":")[2], run.session_name)
    return (coders.load(run.coder), pane) if pane is not None else None


def note_seen(home: Home, found: Iterable[Shown]) -> None:
    """Remember that a person was shown these dialogs. Ignore a read-only home."""
    new = {each.run.id: each.dialog.digest for each in found}
    seen = _seen(home)
    if new.items() <= seen.items():
        return
    kept = dict(list(({key: told for key, told in seen.items() if key not in new} | new).items())[-MOST_SEEN:])
    with contextlib.suppress(FleetError):
        atomic_write(home.seen_dialogs, encode(kept).encode())


def was_seen(home: Home, shown: Shown) -> bool:
    """Return True if this is the last dialog of the agent that a person was shown."""
    return _seen(home).get(shown.run.id) == shown.dialog.digest


def _seen(home: Home) -> dict[str, str]:
    with contextlib.suppress(OSError, BadInput, ValueError):
        told = decode(read_small(home.seen_dialogs, MOST_BYTES).decode())
        if isinstance(told, dict):
            return told
    return {}


def choose(fleet: Fleet, shown: Shown, text: str) -> Chosen:
    """Type the choice that `text` means into a dialog: an option's number, its label, or words if it takes some.

    Raises UsageError if it means none, DialogChanged, and FleetError if the dialog does not react.
    """
    dialog = shown.dialog
    fitting = dialog.find(text)
    if len(fitting) > 1:
        raise UsageError(f"{text!r} fits several options: {_listed(fitting)}", hint="pass the number of one.")
    if fitting:
        return _typed(fleet, Chosen(shown, fitting[0]))
    number = 0 if text.isdecimal() else dialog.words or dialog.declines
    if not number:
        raise UsageError(
            f"{text!r} is not an option of the dialog: {_listed(dialog.options)}", hint="pass the number of one."
        )
    option = next(each for each in dialog.options if each.number == number)
    return _typed(fleet, Chosen(shown, option, *((text, "") if dialog.words else ("", text))))


def _listed(options: Sequence[Option]) -> str:
    return ", ".join(f"{each.number}. {each.label}" for each in options)


def _typed(fleet: Fleet, choice: Chosen) -> Chosen:
    """Type a choice while no other answer to the agent is typed."""
    shown, option = choice.shown, choice.option
    if not option.key:
        raise UsageError(f"option {option.number} has no key", hint=f"run `fleet attach {shown.task.id}` to choose it.")
    home = Home(shown.run.home) if shown.run.home else fleet.home
    with _turn(home.run(shown.task.id, shown.run.number)):
        opened = _opened(fleet, shown.run)
        if opened is None:
            raise DialogChanged("the agent's terminal has closed: nothing was typed")
        _Answer(*opened, choice).type()
    return choice


class _Answer:
    """The typing of one choice into the dialog that it belongs to."""

    def __init__(self, coder: Coder, keyboard: Keyboard, choice: Chosen) -> None:
        self._coder, self._keyboard = coder, keyboard
        self._name, self._expected = choice.shown.task.id, choice.shown.dialog
        self._option, self._words = choice.option, choice.typed

    def type(self) -> None:
        """Press the option's key, with Enter or words if the dialog needs them. Raises DialogChanged, FleetError."""
        if not self._is_same(self._look()):
            raise DialogChanged("the dialog on the screen is another one now, or gone: nothing was typed")
        self._keyboard.press(self._option.key)
        if self._words:
            self._wait(self._is_marked)
            self._keyboard.paste(self._words)
            self._wait(lambda now: now is not None and not self._is_same(now) and now.marked == self._option.number)
            self._keyboard.press("Enter")
            self._wait(lambda now: now is None or now.marked != self._option.number)
            return
        if self._expected.confirms:
            self._wait(self._is_marked)
            self._keyboard.press("Enter")
        self._wait(lambda now: not self._is_same(now))

    def _is_same(self, now: Dialog | None) -> bool:
        return now is not None and now.digest == self._expected.digest

    def _is_marked(self, now: Dialog | None) -> bool:
        return now is not None and self._is_same(now) and now.marked == self._option.number

    def _look(self) -> Dialog | None:
        with contextlib.suppress(FleetError):  # the agent ended, and its terminal closed
            return dialog_on(self._coder, self._keyboard.screen())
        return None

    def _wait(self, reached: Callable[[Dialog | None], bool]) -> None:
        """Wait until the screen shows this. Raises FleetError if it does not."""
        end = time.monotonic() + REACTION_SECONDS
        while not reached(self._look()):
            if time.monotonic() > end:
                raise FleetError(
                    f"the dialog did not react to the key {self._option.key}",
                    hint=f"run `fleet attach {self._name}` to answer it yourself.",
                )
            time.sleep(PAUSE_SECONDS)


@contextlib.contextmanager
def _turn(folder: str) -> Iterator[None]:
    """Take turns with other answers to the same agent: the second must see what the first has caused."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        end = time.monotonic() + TURN_SECONDS
        while True:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > end:
                    raise FleetError("another answer to this agent takes too long", hint="try again.") from None
                time.sleep(PAUSE_SECONDS)
        yield
    finally:
        os.close(handle)
