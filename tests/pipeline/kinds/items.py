"""One finished item of every kind that the official SDK knows, in the SDK's own form."""

from typing import Any

Json = dict[str, Any]
CALL: Json = {"status": "completed", "call_id": "call_x"}

ITEMS: dict[str, Json] = {
    "message": {
        "role": "assistant",
        "status": "completed",
        "phase": "final_answer",
        "content": [
            {"type": "output_text", "text": "Hi", "annotations": [], "logprobs": []},
            {"type": "refusal", "refusal": "No"},
        ],
    },
    "reasoning": {
        "summary": [{"type": "summary_text", "text": "S"}],
        "content": [{"type": "reasoning_text", "text": "T"}],
        "encrypted_content": "opaque",
    },
    "function_call": {**CALL, "name": "f", "arguments": "{}", "namespace": "n"},
    "function_call_output": {**CALL, "output": "done"},
    "custom_tool_call": {"call_id": "call_x", "name": "f", "input": "free"},
    "custom_tool_call_output": {**CALL, "output": "done"},
    "web_search_call": {"status": "completed", "action": {"type": "search", "query": "q", "queries": ["q"]}},
    "file_search_call": {"status": "completed", "queries": ["q"], "results": None},
    "code_interpreter_call": {
        "status": "completed",
        "code": "1",
        "container_id": "c",
        "outputs": [{"type": "logs", "logs": "1"}],
    },
    "mcp_call": {
        "status": "completed",
        "arguments": "{}",
        "name": "f",
        "server_label": "s",
        "output": "o",
        "error": None,
    },
    "mcp_list_tools": {"server_label": "s", "tools": [{"name": "f", "input_schema": {}}]},
    "mcp_approval_request": {"arguments": "{}", "name": "f", "server_label": "s"},
    "mcp_approval_response": {"approval_request_id": "a", "approve": True},
    "image_generation_call": {"status": "completed", "result": "aGk="},
    "computer_call": {**CALL, "pending_safety_checks": [], "action": {"type": "screenshot"}},
    "computer_call_output": {**CALL, "output": {"type": "computer_screenshot", "image_url": "data:,"}},
    "local_shell_call": {**CALL, "action": {"type": "exec", "command": ["ls"], "env": {}}},
    "local_shell_call_output": {"output": "{}", "status": "completed"},
    "shell_call": {**CALL, "action": {"commands": ["ls", "pwd"], "max_output_length": None, "timeout_ms": None}},
    "shell_call_output": {
        **CALL,
        "output": [{"outcome": {"type": "exit", "exit_code": 0}, "stderr": "", "stdout": "x"}],
        "max_output_length": None,
    },
    "apply_patch_call": {**CALL, "operation": {"type": "update_file", "path": "a", "diff": "+b"}},
    "apply_patch_call_output": {**CALL, "output": "ok"},
    "tool_search_call": {**CALL, "arguments": {"q": "x"}, "execution": "server"},
    "tool_search_output": {**CALL, "execution": "server", "tools": []},
    "additional_tools": {"role": "system", "tools": []},
    "program": {"call_id": "call_x", "code": "1", "fingerprint": "p"},
    "program_output": {"call_id": "call_x", "result": "1", "status": "completed"},
    "compaction": {"encrypted_content": "opaque"},
}


def item(kind: str, number: int = 0) -> Json:
    made = {"id": f"item_{number}", "type": kind, **ITEMS[kind]}
    if "call_id" in made:
        made["call_id"] = f"call_{number}"
    return made
