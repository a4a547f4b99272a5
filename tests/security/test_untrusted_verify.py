"""A project file's verify command for a task in a plain directory: it runs only once the user trusts it."""

import json

from projects import orders, use_shell_coder, write_project
from terminals import Terminals
from terminals import home as at_home

__all__ = ["at_home"]


def test_verify_command_of_a_project_file_runs_in_a_directory_only_when_trusted(at_home: Terminals) -> None:
    home, ran = at_home, at_home.repo / "ran"
    use_shell_coder(home)
    write_project(home, '[verify]\ncommand = "touch ran && echo fine"\n')
    home.fleet.ok("run", "start")
    for title, trusted in (("before", False), ("after", True)):
        if trusted:
            home.fleet.ok("trust")
        words = ("bd", "create", title, "-d", orders(f"echo x > {title}.txt"), "--cwd", str(home.repo), "--json")
        task = str(json.loads(home.fleet.ok(*words))["id"])
        assert home.wait_status(task, "closed", "blocked")["finding"] == "unverified"
        receipt = home.fleet.ok("receipt", task)
        assert ran.exists() == trusted and ("is not trusted" in receipt) != trusted
        assert ("doubt: it worked in a plain directory" in receipt) == trusted
