"""The user's SSH agent: agents get it only if the user says so."""

from projects import orders, set_up, use_shell_coder
from terminals import Terminals
from terminals import home as at_home

__all__ = ["at_home"]

SOCKET = "/run/user/1/keyring/ssh"


def test_ssh_agent_reaches_agents_and_setup_only_if_the_user_passes_it(at_home: Terminals) -> None:
    home, seen = at_home, at_home.fleet.user
    home.fleet.env["SSH_AUTH_SOCK"] = SOCKET
    use_shell_coder(home)
    home.fleet.ok("run", "start")
    for name, said in (("without", ""), ("with", SOCKET)):
        set_up(home, commands=[f"echo $SSH_AUTH_SOCK > {seen}/{name}-setup"])
        words = ("--workspace", "worktree", "--cwd", str(home.repo), "--json")
        task = home.told("bd", "create", name, "-d", orders(f"echo $SSH_AUTH_SOCK > {seen}/{name}"), *words[:-1])["id"]
        home.wait_status(task, "closed", "blocked")
        assert [(seen / file).read_text().strip() for file in (name, f"{name}-setup")] == [said] * 2
        home.set('agent.pass_env=["SSH_AUTH_SOCK"]')
