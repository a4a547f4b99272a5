"""A home whose tasks are in beads, with a supervisor, watched through bd itself."""

import json
import subprocess
from typing import Any

import beads
from program import Program
from supervised import Supervised


class BeadsHome(Supervised):
    """A home whose tasks are in beads, watched through bd itself."""

    def __init__(self, fleet: Program, version: str) -> None:
        fleet.home.mkdir(mode=0o700)
        beads.beads_in(fleet.home, version)
        fleet.env["FLEET_BD"] = self.program = beads.program(version)
        fleet.env |= {"BD_DISABLE_METRICS": "1", "BD_NON_INTERACTIVE": "1"}
        super().__init__(fleet)
        self.set("supervisor.claim_seconds=60", "supervisor.start_interval_seconds=0")

    def bd(self, *argv: str, actor: str = "human") -> Any:
        """Return the answer of the real bd, without fleet."""
        env = self.fleet.env | {"BEADS_DIR": f"{self.fleet.home}/.beads", "BEADS_ACTOR": actor}
        done = subprocess.run([self.program, *argv, "--json"], env=env, cwd=self.fleet.cwd, capture_output=True)
        assert done.returncode == 0, done
        return json.loads(done.stdout)

    def shown(self, key: str) -> dict[str, Any]:
        """Return a task as bd shows it."""
        found: dict[str, Any] = self.bd("show", key)[0]
        return found
