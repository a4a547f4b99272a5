"""Costs of runs through the real program: resumed sessions, unknown prices and quota gauges."""

import json
from typing import Any

from fleet.settings.price_table import read_table_date
from supervised import Supervised, home

__all__ = ["home"]

SESSION = "a3042909-fb0d-42a0-86fd-6f57da72a26d"
#: A claude that makes two requests in each run. Its totals are per run or, with "count on", per session. It hands in
#: with its fifth run. Its third run ends without a final message, so that its total is missing.
PROGRAM = """#!/usr/bin/env python3
import json, os, sys
if sys.argv[1:] == ["--version"]:
    sys.exit(print("9.9.9 (Claude Code)"))
place = os.path.join(os.environ["FLEET_TASK_DIR"], "session")
heard = sys.stdin.readline()
kept = json.load(open(place)) if os.path.exists(place) else {"on": "count on" in heard, "runs": 0, "requests": 0}
resumed = any(word.startswith("--resume=") for word in sys.argv)
kept["runs"] += 1
def say(**said):
    print(json.dumps({"session_id": "SESSION", **said}), flush=True)
say(type="system", subtype="init", model="claude-sonnet-5")
windows = {"five_hour": {"utilization": 0.4, "resetsAt": 4102444800}}
windows["seven_day"] = {"utilization": 0.1, "resetsAt": 900000000}
limit = {"status": "allowed", "rateLimitType": "five_hour", "resetsAt": 4102444800, "unifiedWindows": windows}
for number in (1, 2):
    usage = {"input_tokens": 1000, "output_tokens": 100, "cache_read_input_tokens": 0, "cache_creation_input_tokens": 0}
    tool = {"type": "tool_use", "id": f"t{kept['runs']}{number}", "name": "Bash", "input": {"command": "ls"}}
    message = {"id": f"m{kept['runs']}{number}", "model": "claude-sonnet-5", "content": [tool], "usage": usage}
    say(type="assistant", message=message)
    say(type="rate_limit_event", rate_limit_info=limit)
    if number == 1 or kept["runs"] == 5:  # else it ends in the middle of a tool, and is asked to go on
        result = {"type": "tool_result", "tool_use_id": tool["id"], "content": ""}
        say(type="user", message={"content": [result]})
if kept["runs"] != 3:
    counted = 2 + (kept["requests"] if resumed and kept["on"] else 0)
    kept["requests"] = counted
    model = {"inputTokens": 1000 * counted, "outputTokens": 100 * counted, "costUSD": 0.003 * counted}
    if kept["runs"] == 5:
        open("done.txt", "w").write("done")
        result = {"summary": "done", "status": "completed", "next_steps": []}
        json.dump(result, open(os.environ["FLEET_ARTIFACT_DIR"] + "/result.json", "w"))
    usage = {"input_tokens": 2000, "output_tokens": 200}
    say(type="result", subtype="success", is_error=False, result="", usage=usage,
        modelUsage={"claude-sonnet-5": model}, total_cost_usd=0.003 * counted)
json.dump(kept, open(place, "w"))
"""


def runs_of(home: Supervised, key: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(home.fleet.ok("runs", key, "--json"))
    return found


def test_five_resumed_runs_cost_the_sum_of_five_and_the_quota_is_shown(home: Supervised) -> None:
    program = home.fleet.user / "claude"
    program.write_text(PROGRAM.replace("SESSION", SESSION))
    program.chmod(0o755)
    home.fleet.env["ANTHROPIC_API_KEY"] = "none"
    home.set("coder=claude", f"coders.claude.program={program}", "limits.continue_limit=9")
    home.start()
    keys = home.create_many(["count on", "count anew"])
    home.wait_all(keys, "closed")
    for key in keys:
        runs = runs_of(home, key)
        assert [round(run["cost_usd"], 6) for run in runs] == [0.006] * 5
        assert [run["cost_basis"] for run in runs] == ["reported"] * 2 + ["computed"] + ["reported"] * 2
        assert [run["prices"] for run in runs] == [None, None, str(read_table_date()), None, None]
        assert [run["input_tokens"] for run in runs] == [2000] * 5
        assert {run["session"] for run in home.runs(key)} == {SESSION}
        shown = home.fleet("runs", key)
        assert "≈$0.0060" in shown.out and "≈ computed from tokens and prices" in shown.err
        assert "≈$0.0300 (≈ computed" in home.fleet.ok("show", key)
    (row,) = json.loads(home.fleet.ok("accounts", "--json"))
    seen = [(each["window"], each["used_percent"], each["stale"]) for each in row["quota"]]
    assert seen == [("5h", 40.0, False), ("7d", None, True)]
    home.fleet.env["COLUMNS"] = "80"
    table = home.fleet.ok("accounts")
    assert max(map(len, table.splitlines())) <= 80
    assert "40%" in table and "has reset" in table
    del home.fleet.env["COLUMNS"]
    counted = home.fleet("stats")
    assert "≈$0.0600" in counted.out and "genai-prices" in counted.err
    assert json.loads(home.fleet.ok("stats", "--json"))["total"]["runs_with_computed_cost"] == 2


def test_dollar_budget_with_an_unknown_price_starts_nothing_and_says_why(home: Supervised) -> None:
    program = home.fleet.user / "codex"
    program.write_text('#!/bin/sh\ntouch "$FLEET_TASK_DIR/started"\n')
    program.chmod(0o755)
    home.fleet.env["CODEX_API_KEY"] = "none"
    home.set(f"coders.codex.program={program}", "limits.retry_limit=1", "limits.continue_limit=0")
    home.start()
    limits = {"fleet.coder": "codex", "fleet.model": "mine", "fleet.limits": json.dumps({"max_cost_usd": 5})}
    key = home.create("x", "--metadata", json.dumps(limits))
    found = home.wait_status(key, "blocked")
    assert "no price for mine: set [prices] or use a token budget" in found["reason"]
    assert not (home.fleet.home / "tasks" / key / "started").exists()
    home.set("prices.mine.input=1", "prices.mine.output=2")
    home.fleet.ok("retry", key)
    home.wait_status(key, "blocked")
    assert (home.fleet.home / "tasks" / key / "started").exists()
