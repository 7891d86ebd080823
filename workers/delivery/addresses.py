"""Where in a channel a message goes: `CHAT`, `CHAT/THREAD` or `CHAT/THREAD/REPLY`, each piece percent-escaped where it holds a slash.

A turn's target may name a recipient of its own; otherwise the configured one holds. REPLY is the message that the first part answers.
"""

from dataclasses import dataclass
from urllib.parse import unquote

from ledger.parts import PartRecord
from workers.config import TargetConfig


@dataclass(frozen=True, kw_only=True)
class Address:
    """Empty texts where nothing is named."""

    chat: str
    thread: str = ""
    reply: str = ""


def parse(recipient: str) -> Address:
    """Read a recipient; ValueError when it has more pieces than three, or no chat."""
    pieces = [unquote(piece) for piece in recipient.split("/")]
    if len(pieces) > 3 or not pieces[0]:
        raise ValueError(f"CHAT, CHAT/THREAD or CHAT/THREAD/REPLY is expected, found {recipient!r}")
    chat, thread, reply = (*pieces, "", "")[:3]
    return Address(chat=chat, thread=thread, reply=reply)


def address_of(part: PartRecord, config: TargetConfig) -> Address:
    """Where a part goes; only a turn's first message is a reply."""
    address = parse(part.recipient or config.recipient)
    if part.block or part.part:
        return Address(chat=address.chat, thread=address.thread)
    return address
