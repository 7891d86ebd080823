"""A target that records: everything is done as for a send, budget, intent and receipt with it, and the last step writes a line in a file.

It asks for what its channel asks for (rates, the size of a message), and promises what a file does: a line cannot be taken back, and
nobody asks a file, so an attempt whose write was begun and not confirmed stays unknown. It needs no secret.
"""

from ledger.parts import PartRecord
from workers.delivery.channels.console import append, line_of
from workers.delivery.channels.contract import Channel, Message
from workers.delivery.gate import Gate
from workers.delivery.outcomes import Capability, Outcome
from workers.delivery.terms import Terms


class Recorder:
    """A file in the place of a channel, which is asked for its terms and never used."""

    capability = Capability.NONE

    def __init__(self, path: str, channel: Channel) -> None:
        self._path = path
        self._channel = channel

    @property
    def terms(self) -> Terms:
        """The channel's."""
        return self._channel.terms

    def chat_of(self, part: PartRecord) -> str:
        """The channel's."""
        return self._channel.chat_of(part)

    async def send(self, message: Message, gate: Gate) -> Outcome:
        """Append what the channel would have been sent, and to whom."""
        part = message.part
        told = {"channel": part.channel, "recipient": self.chat_of(part), "content_type": part.content_type}
        return append(self._path, line_of(message, **told), gate)

    async def close(self) -> None:
        """Nothing was opened."""
        await self._channel.close()
