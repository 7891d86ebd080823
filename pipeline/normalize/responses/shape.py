"""Stateless defects of one upstream event: members that are missing or of the wrong form. They are reported, never raised;
whether a defect matters is the validator's to say.
"""

from collections.abc import Callable
from typing import Any

from pipeline.kinds import kind_of, unmet
from pipeline.normalize.defects import Defect, defect, index_of, word_of
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
    for path, owner, member, form, has_form in _CHECKS.get(kind, ()):
        holder = frame.get(owner) if owner else frame
        if not isinstance(holder, dict):
            continue  # its owner is reported already
        value = holder.get(member)
        if has_form(value):
            continue
        if form == "item_id" and value is None and has_form(value := holder.get("item_id")):
            continue
        if form != "id?" or member in holder:
            found.append(_missing(path, form, value, present=member in holder))
    if kind == "response.output_item.done" and isinstance(item := frame.get("item"), dict):
        found.extend(_item_defects(item))
    sequence = frame.get("sequence_number")
    if sequence is not None and type(sequence) is not int:
        found.append(defect("sequence_invalid", "$.sequence_number", "an integer", sequence))
    return found


def _is_object(value: object) -> bool:
    return isinstance(value, dict)


def _is_index(value: object) -> bool:
    return index_of(value) is not None


def _is_string(value: object) -> bool:
    return isinstance(value, str)


def _is_id(value: object) -> bool:
    return isinstance(value, str) and value != ""


def _check(path: str, form: str) -> tuple[str, str, str, str, Callable[[object], bool]]:
    """A required member as it is looked at: its path, the object it is in, its name, its form, the test of that."""
    owner, _, member = path.rpartition(".")
    if form[0] == "=":
        return path, owner, member, form, form[1:].split("|").__contains__
    return path, owner, member, form, {"object": _is_object, "index": _is_index, "string": _is_string}.get(form, _is_id)


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
