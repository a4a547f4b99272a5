"""The common budget of a task and the tasks that it created, on a queue that hosts share."""

import json
from collections.abc import Callable

from machines import Machine, machine
from supervised import wait_for

__all__ = ["machine"]

#: Spends 40 cents at once, then works for half a minute.
AGENT = """\
#!/bin/sh
cat > /dev/null
echo '{"cost": 0.4, "tool": "shell"}'
n=0; while [ $n -lt 150 ]; do n=$((n + 1)); echo '{"text": "working"}'; sleep 0.2; done
echo '{"text": "all done", "over": true}'
"""
CODER = """
[coders.spender]
argv = ["/bin/sh", "-c", "exec \\"$FLEET_HOME/../spender\\""]
[coders.spender.output]
format = "jsonl"
text = "text"
tool = "tool"
cost_usd = "cost"
success = {over = true}
"""


def test_agents_are_stopped_when_their_common_budget_is_used_up(machine: Callable[..., Machine]) -> None:
    host = machine("one", start=False, more=CODER)
    agent = host.fleet.home.parent / "spender"
    agent.write_text(AGENT)
    agent.chmod(0o755)
    spent = {"fleet.limits": json.dumps({"max_cost_usd": 1.0})}
    made = {"fleet.made_by": "t-maker", "fleet.coder": "spender"}
    rows = [{"id": "t-maker", "title": "maker", "status": "closed", "metadata": spent}]
    rows += [{"id": f"t-{name}", "title": name, "description": "spend", "metadata": made} for name in "abc"]
    host.fleet.ok("bd", "import", "-", stdin="".join(json.dumps(row) + "\n" for row in rows))
    host.start()

    def endings() -> list[str]:
        found = host.rows("select reason from runs where task <> 't-maker' order by task")
        return [reason for (reason,) in found if reason]

    wait_for(lambda: len(endings()) == 3, "all to end", host.said)
    assert set(endings()) == {"t-maker and its tasks used $1.20 of $1.00 allowed"}
