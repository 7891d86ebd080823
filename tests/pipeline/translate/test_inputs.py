from pipeline.kinds.row import keep
from pipeline.kinds.slot import INPUT, Part, Slot
from pipeline.translate.inputs import input_delta, input_done


def part(kind: str, content: int = 0) -> Part:
    return Part(Slot(0, kind), INPUT, content, 0, keep)


def test_each_kind_streams_by_its_own_events() -> None:
    assert input_delta(part("function_call"), "{") == ("response.function_call_arguments.delta", {"delta": "{"})
    assert input_done(part("mcp_call"), "{}") == ("response.mcp_call_arguments.done", {"arguments": "{}"})
    assert input_done(part("function_call"), "x", "custom_tool_call") == (
        "response.custom_tool_call_input.done",
        {"input": "x"},
    )
    assert input_done(part("apply_patch_call"), "d") == ("response.apply_patch_call_operation_diff.done", {"diff": "d"})


def test_numbered_inputs_say_which_they_are() -> None:
    assert input_delta(part("shell_call", 2), "ls") == (
        "response.shell_call_command.delta",
        {"command_index": 2, "delta": "ls"},
    )
    assert input_done(part("shell_call", 2), "ls") == (
        "response.shell_call_command.done",
        {"command_index": 2, "command": "ls"},
    )


def test_a_kind_whose_input_does_not_stream_has_no_events_for_it() -> None:
    assert input_delta(part("web_search_call"), "{") is None
    assert input_done(part("hologram"), "{") is None
