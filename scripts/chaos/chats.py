"""Chat channels under attack: each turn has a chat of its own in every channel, whose texts are written down at the end.

The servers are those of `scripts.channels`, with faults drawn for their requests. What a chat shows in the end is compared with what the
turn's client read, so whatever was lost on the way, came twice or out of order shows as a difference.
"""

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from scripts.channels import discord, matrix, slack, telegram
from scripts.channels.service import Act, Canned, Fault, Logged
from scripts.chaos.journal import Journal

UNTELLABLE = "telegram"
"""Neither a key nor anybody to ask: what is cut there is unknown."""
LIMITED = Canned(
    status=429,
    body={
        "ok": False,
        "error": "ratelimited",
        "retry_after": 0.2,
        "parameters": {"retry_after": 1},
        "retry_after_ms": 200,
    },
    headers={"Retry-After": "1", "Via": "1.1 loopback"},
)
HOLD_MS = 30_000
"""What is unknown holds its lane so long: beyond it, what is found not to be there is sent late, and so out of order."""
SHARES: dict[str, dict[Fault, float]] = {
    "send": {
        LIMITED: 0.01,
        Act.RESET_BEFORE: 0.004,
        Act.RESET_AFTER: 0.004,
        Act.FAIL_BEFORE: 0.004,
        Act.FAIL_AFTER: 0.004,
        Act.GARBAGE_AFTER: 0.002,
        Act.CUT_AFTER: 0.002,
        Act.LATE: 0.002,
    },
    "read": {LIMITED: 0.05, Act.FAIL_BEFORE: 0.05, Act.CUT_AFTER: 0.02},
    "typing": {LIMITED: 0.05, Act.RESET_BEFORE: 0.05},
}
"""How often each happens to a request of each kind."""


class _Everything(set[str]):
    """Whatever chat is named, there is one."""

    def __contains__(self, chat: object) -> bool:
        return isinstance(chat, str)


@dataclass(frozen=True, kw_only=True)
class _Medium:
    make: Callable[[], Any]
    token: str
    chat_of: Callable[[int], str]


_MEDIA: dict[str, _Medium] = {
    "discord": _Medium(
        make=lambda: discord.Discord(channels=_Everything(), shows_nonces=True),
        token=discord.TOKEN,
        chat_of=lambda number: str(1_000 + number),
    ),
    "slack": _Medium(
        make=lambda: slack.Slack(channels=_Everything()), token=slack.TOKEN, chat_of=lambda number: f"C{number}"
    ),
    "telegram": _Medium(
        make=lambda: telegram.Telegram(chats=_Everything()),
        token=telegram.TOKEN,
        chat_of=lambda number: str(1_000 + number),
    ),
    "matrix": _Medium(
        make=lambda: matrix.Matrix(rooms=_Everything()),
        token=matrix.TOKEN,
        chat_of=lambda number: f"!k{number}:loopback",
    ),
}


class Chats:
    """All channels; turns are told apart by their keys, `k0` and on."""

    def __init__(self, seed: int, *, deadline_s: float) -> None:
        self._servers: dict[str, Any] = {name: medium.make() for name, medium in _MEDIA.items()}
        for name, server in self._servers.items():
            server.late_s = deadline_s * 1.2
            server.fault_of = _drawing(random.Random(f"{seed}:{name}"))

    @property
    def environ(self) -> dict[str, str]:
        """The variables that hold the tokens; and a longer hold, since Slack answers a question in its own time."""
        tokens = {_variable(name): medium.token for name, medium in _MEDIA.items()}
        return {**tokens, "FOLDLINE_DELIVERY_UNKNOWN_HOLD_MS": str(HOLD_MS)}

    @property
    def requests(self) -> int:
        """How much was asked of all of them."""
        return sum(len(server.requests) for server in self._servers.values())

    async def start(self) -> None:
        """Listen on free ports."""
        for server in self._servers.values():
            await server.start()

    async def stop(self) -> None:
        """Listen no more."""
        for server in self._servers.values():
            await server.stop()

    def targets_of(self, key: str) -> list[str]:
        """Where a turn's client wants its answer besides."""
        return [f"{name}:{medium.chat_of(_number(key))}" for name, medium in _MEDIA.items()]

    def configuration(self) -> list[str]:
        """The lines of the configuration file; rates of ours are not what is tried."""
        lines: list[str] = []
        for name, server in self._servers.items():
            lines += [f"[targets.{name}]", f'channel = "{name}"', f'base_url = "{server.base_url}"']
            lines += [f'token_env = "{_variable(name)}"', "open_recipient = true"]
            lines += ["rate_per_s = 0", "chat_rate_per_s = 0"]
        return lines

    def write(self, keys: list[str], journal: Journal) -> None:
        """Write down what every chat shows."""
        for name, server in self._servers.items():
            for key in keys:
                journal.write(target=name, key=key, texts=server.texts(_MEDIA[name].chat_of(_number(key))))


def _variable(name: str) -> str:
    return f"{name.upper()}_TOKEN"


def _number(key: str) -> int:
    return int(key.removeprefix("k"))


def _drawing(chance: random.Random) -> Callable[[Logged], Fault | None]:
    def draw(request: Logged) -> Fault | None:
        drawn = chance.random()
        for fault, share in SHARES.get(request.kind, {}).items():
            drawn -= share
            if drawn < 0:
                return fault
        return None

    return draw
