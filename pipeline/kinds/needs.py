"""What a finished item must have to be one of its kind: what is missing of it, and an empty stand-in for that."""

from typing import Any, Final

from pipeline.kinds.row import Kind
from pipeline.kinds.slot import Json

_FORMS: Final[dict[str, tuple[type[Any], str]]] = {
    form + maybe: (kind, expected)
    for form, kind, expected in (
        ("string", str, "a string"),
        ("object", dict, "an object"),
        ("list", list, "a list"),
        ("parts", list, "a list of parts"),
    )
    for maybe in ("", "?")
}


def unmet(item: Json, row: Kind) -> list[tuple[str, str, Any]]:
    """What an item lacks: path within it, what was expected, what was found."""
    found: list[tuple[str, str, Any]] = []
    for member, wanted in row.needs:
        value: Any = item.get(member)
        kind, expected = _FORMS[wanted]
        if not isinstance(value, kind):
            if value is not None or not wanted.endswith("?"):
                found.append((f".{member}", expected, value))
        elif wanted.startswith("parts"):
            found += [
                (f".{member}[{index}]", "an object with a type", part)
                for index, part in enumerate(value)
                if not (isinstance(part, dict) and isinstance(part.get("type"), str))
            ]
    return found


def mended(item: Json, row: Kind) -> Json:
    """An item with an empty member in place of each that it lacks, so that no reader meets another form than it expects."""
    for member, wanted in row.needs:
        kind, _ = _FORMS[wanted]
        value = item.get(member)
        if not isinstance(value, kind) and not (value is None and wanted.endswith("?")):
            item = {**item, member: None if wanted.endswith("?") else kind()}
    return item
