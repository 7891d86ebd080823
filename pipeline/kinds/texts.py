"""Messages and reasoning: items made of texts."""

from pipeline.kinds.slot import OTHER_PART, Json, Part, Slot

_TEXT_MEMBERS = {
    "output_text": "text",
    "text": "text",
    "refusal": "refusal",
    "summary_text": "text",
    "reasoning_text": "text",
}
_TRACKS = {
    "output_text": "text",
    "text": "text",
    "refusal": "refusal",
    "summary_text": "summary",
    "reasoning_text": "reasoning",
}


def content_of(part: Part) -> Json:
    """A message's or reasoning's part as an item lists it, made of what was streamed."""
    text = part.text
    if part.track == "refusal":
        made: Json = {"type": "refusal", "refusal": text}
    elif part.track == "summary":
        made = {"type": "summary_text", "text": text}
    elif part.track == "reasoning":
        made = {"type": "reasoning_text", "text": text}
    else:
        made = {"type": "output_text", "text": text, "annotations": list(part.annotations), "logprobs": []}
    if part.raw is None or part.track.startswith(OTHER_PART):
        return part.raw or made
    member = "refusal" if part.track == "refusal" else "text"
    if word(part.raw.get(member)):
        return part.raw if text else made  # of what has no text nothing was ever streamed
    return {**part.raw, member: text}


def word(value: object) -> str:
    """A string as it is; anything else is the empty one."""
    return value if isinstance(value, str) else ""


def message_added(_slot: Slot, item: Json) -> Json:
    """A message begins empty: what its start already holds is streamed like the rest."""
    return {**(item or {"type": "message", "status": "in_progress", "role": "assistant"}), "content": []}


def message_done(slot: Slot, item: Json) -> Json:
    """The finished message, with streamed text put back where it is empty, missing or unreadable."""
    return {**item, "content": _mended(item.get("content"), slot.texts("text", "refusal"))}


def message_end(slot: Slot, status: str) -> Json:
    """A message of its parts, empty texts left out."""
    parts = sorted(slot.parts.values(), key=lambda part: part.index)
    content = [
        content_of(part)
        for part in parts
        if part.text or (part.family and part.raw and part.track.startswith(OTHER_PART))
    ]
    return {**slot.public, "status": status, "content": content}


def reasoning_added(_slot: Slot, item: Json) -> Json:
    """Reasoning begins as it came; a summary is always there."""
    return {"type": "reasoning", "summary": [], **item}


def reasoning_done(slot: Slot, item: Json) -> Json:
    """The finished reasoning, with what was streamed where it has nothing."""
    merged = {"summary": [], **item}
    for member, track in (("summary", "summary"), ("content", "reasoning")):
        given = merged.get(member)
        listed = _mended(given, slot.texts(track))
        if listed or (member in merged and (given is not None or member == "summary")):
            merged[member] = listed
    return merged


def reasoning_end(slot: Slot, status: str) -> Json:
    """Reasoning of its texts."""
    item = reasoning_done(slot, slot.public)
    return {**item, "status": status} if "status" in item else item


def _mended(given: object, parts: list[Part]) -> list[Json]:
    """The parts that a finished item lists, with what was streamed in place of those that say nothing, in the order of their public places."""
    items = given if isinstance(given, list) else []
    said, streamed = _said(items, parts)
    listed: list[tuple[int, Json]] = []
    place = -1  # an entry that stands for no part stays behind the one before it
    for number, shown in enumerate(items):
        part = said.get(number)
        if not isinstance(shown, dict) or not (kind := word(shown.get("type"))):
            if streamed:
                part = streamed.pop(0)
                place = part.index
                listed.append((place, content_of(part)))
            continue
        member = _TEXT_MEMBERS.get(kind)
        if member is not None and not word(shown.get(member)):
            part = next((one for one in streamed if one.track == _TRACKS[kind]), None)
            if part is not None:
                streamed.remove(part)
            shown = {**shown, member: part.text if part is not None else ""}  # noqa: PLW2901
        place = part.index if part is not None else place
        listed.append((place, shown))
    missing = len(parts) - len(listed)
    if missing > 0:
        listed += [(part.index, content_of(part)) for part in streamed[-missing:] if part.text]
    return [shown for _, shown in sorted(listed, key=lambda entry: entry[0])]


def _said(items: list[object], parts: list[Part]) -> tuple[dict[int, Part], list[Part]]:
    """Which streamed part each entry of a finished item lists, word for word or in its order, and the parts that none does."""
    left, said = list(parts), dict[int, Part]()
    others = []
    for number, item in enumerate(items):
        if not isinstance(item, dict) or not word(item.get(_TEXT_MEMBERS.get(kind := word(item.get("type")), ""))):
            continue
        track, text = _TRACKS[kind], item[_TEXT_MEMBERS[kind]]
        same = next((part for part in left if part.track == track and part.text == text), None)
        if same is not None:
            said[number] = same
            left.remove(same)
        else:
            others.append((number, track))
    for number, track in others:
        part = next((one for one in left if one.track == track), None)
        if part is not None:
            said[number] = part
            left.remove(part)
    return said, left
