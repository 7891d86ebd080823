"""Stateless defects of one upstream event: members that are missing or of the wrong form. They are reported, never raised;
whether a defect matters is the validator's to say.
"""

from collections.abc import Callable
from typing import Any

from pipeline.kinds import kind_of, unmet
from pipeline.normalize.defects import MAX_INDEX, Defect, defect, word_of
from pipeline.normalize.responses.tables import REQUIRED

_FORMS = {
    "object": "an object",
    "id": "a non-empty string",
    "id?": "a non-empty string",
    "item_id": "a non-empty string",
    "string": "a string",
    "index": "an unsigned 32-bit integer",
}


def shape_defects(kind: str, frame: dict[str, Any]) -> list[Defect]:
    """List what an event of a known type lacks."""
    found: list[Defect] = []
    for path, owner, member, form, wanted, test in _CHECKS.get(kind, ()):
        holder = frame.get(owner) if owner else frame
        if type(holder) is not dict:
            continue  # its owner is reported already
        value = holder.get(member)
        if type(value) is wanted and test(value):
            continue
        if form == "item_id" and value is None and _is_id(value := holder.get("item_id")):
            continue
        if form != "id?" or member in holder:
            found.append(_missing(path, form, value, present=member in holder))
    if kind == "response.output_item.done" and type(item := frame.get("item")) is dict:
        found.extend(_item_defects(item))
    sequence = frame.get("sequence_number")
    if sequence is not None and type(sequence) is not int:
        found.append(defect("sequence_invalid", "$.sequence_number", "an integer", sequence))
    return found


def _is_id(value: object) -> bool:
    return type(value) is str and value != ""


Test = Callable[[Any], bool]
_TESTS: dict[str, tuple[type, Test]] = {  # the type that JSON gives, and a test of such a value; called for every event
    "object": (dict, lambda _: True),
    "string": (str, lambda _: True),
    "index": (int, range(MAX_INDEX + 1).__contains__),
    "id": (str, bool),
    "id?": (str, bool),
    "item_id": (str, bool),
}


def _check(path: str, form: str) -> tuple[str, str, str, str, type, Test]:
    """A required member as it is looked at: its path, the object it is in, its name, its form, and the test of that."""
    owner, _, member = path.rpartition(".")
    wanted, test = _TESTS[form] if form[0] != "=" else (str, form[1:].split("|").__contains__)
    return path, owner, member, form, wanted, test


_CHECKS = {kind: [_check(path, form) for path, form in members] for kind, members in REQUIRED.items()}


def _missing(path: str, form: str, value: object, *, present: bool) -> Defect:
    if form[0] == "=" and isinstance(value, str):
        return defect("status_mismatch", f"$.{path}", form[1:], value)
    expected = form[1:] if form[0] == "=" else _FORMS[form]
    if not present:
        return defect("member_missing", f"$.{path}", expected, None)
    return defect("index_invalid" if form == "index" else "member_invalid", f"$.{path}", expected, value)


def _item_defects(item: dict[str, Any]) -> list[Defect]:
    """Say what keeps a finished item from being one of its kind."""
    return [
        defect("item_invalid", f"$.item{path}", expected, found)
        for path, expected, found in unmet(item, kind_of(word_of(item.get("type"))))
    ]
