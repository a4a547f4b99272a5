"""Tools: each has a schema and parses its arguments."""

import pytest

from fleet.core.errors import BadInput
from fleet.mcp.server import TOOLS
from fleet.mcp.tool import Tool
from fleet.mcp.tools_workers import CleanupWorker, CollectWorker, CreateWorker


@pytest.mark.parametrize("tool", TOOLS.values(), ids=TOOLS)
def test_each_tool_describes_its_parameters_and_refuses_others(tool: Tool) -> None:
    schema = tool.schema
    assert schema["type"] == "object"
    assert schema["additionalProperties"] is False
    assert set(schema["required"]) <= set(schema["properties"])
    with pytest.raises(BadInput, match=f"^{tool.name}: ") as caught:
        tool.read({**dict.fromkeys(schema["required"], "x"), "no_such": 1})
    assert caught.value.hint.startswith("it takes: ")
    assert tool.about.endswith((".", "…"))


def test_parameters_of_codefleet_have_its_defaults() -> None:
    made = TOOLS["create_worker"].read({"repo_path": "r", "task_name": "t", "prompt": "p"})
    assert isinstance(made, CreateWorker)
    assert (made.base_ref, made.model, made.executor, made.timeout_seconds, made.tags) == (
        "HEAD",
        None,
        None,
        None,
        None,
    )
    assert TOOLS["cleanup_worker"].read({"worker_id": "w"}) == CleanupWorker(worker_id="w")
    assert CleanupWorker(worker_id="w").remove_branch
    assert TOOLS["collect_worker_result"].read({"worker_id": "w"}) == CollectWorker(worker_id="w", log_tail_lines=80)


def test_numbers_and_booleans_may_be_text() -> None:
    found = TOOLS["collect_worker_result"].read({"worker_id": "w", "include_logs": "true", "log_tail_lines": "5"})
    assert found == CollectWorker(worker_id="w", include_logs=True, log_tail_lines=5)
    with pytest.raises(BadInput, match="log_tail_lines"):
        TOOLS["collect_worker_result"].read({"worker_id": "w", "log_tail_lines": "many"})
