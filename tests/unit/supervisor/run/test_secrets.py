"""Secrets of accounts, which reach their agents and nothing else."""

import asyncio
import sys
from pathlib import Path

import pytest

from fleet.settings.sections import AccountSettings
from fleet.supervisor.run import secrets
from fleet.supervisor.run.secrets import SecretRefused, Secrets


def account(*argv: str, name: str = "work") -> AccountSettings:
    return AccountSettings(name=name, coder="claude", env={"PLAIN": "1"}, secrets={"KEY": argv} if argv else {})


def ask(*accounts: AccountSettings) -> list[dict[str, str]]:
    async def each() -> list[dict[str, str]]:
        known = Secrets()
        return [await known.of(one) for one in accounts]

    return asyncio.run(each())


def script(text: str) -> tuple[str, ...]:
    return (sys.executable, "-I", "-S", "-c", text)


def test_secret_is_the_first_line_that_a_command_prints() -> None:
    told = ask(account(*script("print('s3cret '); print('more')")))
    assert told == [{"PLAIN": "1", "KEY": "s3cret"}]
    assert ask(account()) == [{"PLAIN": "1"}]


def test_secret_command_runs_without_a_shell(tmp_path: Path) -> None:
    assert ask(account("/bin/echo", f"$(touch {tmp_path}/x); $HOME"))[0]["KEY"] == f"$(touch {tmp_path}/x); $HOME"
    assert not (tmp_path / "x").exists()


def test_concurrent_reads_run_the_command_once_and_a_changed_command_again(tmp_path: Path) -> None:
    counter = script(f"open({str(tmp_path / 'n')!r}, 'a').write('x'); print('v')")
    ask(*[account(*counter)] * 5)
    assert (tmp_path / "n").read_text() == "x"
    ask(account(*counter), account(*counter, "other"))
    assert (tmp_path / "n").read_text() == "xxx"


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (script("import sys; print('half a s3cret'); sys.exit(3)"), "exit code 3"),
        (script("pass"), "no value"),
        (("no-such-program-at-all",), "cannot be started"),
        (("/bin/echo\0",), "cannot be started"),
    ],
)
def test_failing_command_is_named_without_its_output(argv: tuple[str, ...], words: str) -> None:
    with pytest.raises(SecretRefused, match=words) as refused:
        ask(account(*argv))
    assert "KEY of account 'work' of claude" in str(refused.value)
    assert "s3cret" not in str(refused.value) + refused.value.hint


def test_hanging_command_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(secrets, "COMMAND_SECONDS", 0.3)
    with pytest.raises(SecretRefused, match=r"did not answer in 0\.3 s"):
        ask(account(*script("import time; time.sleep(60)")))
