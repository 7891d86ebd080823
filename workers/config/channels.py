"""What each channel needs of a target's configuration, and what may be promised of it before anybody has connected."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

from workers.config.schema import DAY, MINUTE, TargetConfig

SHORTEST_KEY_WINDOW_MS: Final = MINUTE
"""A receiver that forgets keys sooner is treated as one that knows none."""

LONGEST_RECIPIENT: Final = 256

Promise = Literal["key", "reconcile", "none"]


@dataclass(frozen=True, kw_only=True)
class Medium:
    """One channel's needs and abilities."""

    base_url: str = ""
    """Of its HTTP interface, where there is one for everybody."""
    is_chat: bool = False
    """It has bots with tokens, and messages go to chats."""
    key_window_ms: int = 0
    """For how long a key can be relied on at most; the target may say less."""
    reads_back: bool = False
    """It can be asked for a message afterwards."""


MEDIA: Final[Mapping[str, Medium]] = {
    "console": Medium(),
    "webhook": Medium(key_window_ms=DAY * 365),  # the receiver's own, which the target states
    # "The past few minutes": two are the shortest that are a few.
    "discord": Medium(base_url="https://discord.com/api/v10", is_chat=True, key_window_ms=2 * MINUTE, reads_back=True),
    "slack": Medium(base_url="https://slack.com/api", is_chat=True, reads_back=True),
    "telegram": Medium(base_url="https://api.telegram.org", is_chat=True),
    # The specification names no end; widely used servers keep their table of transactions for a day.
    "matrix": Medium(is_chat=True, key_window_ms=DAY),
}


def base_url_of(target: TargetConfig) -> str:
    """Where the target's channel is called, without a slash at its end."""
    return (target.base_url or MEDIA[target.channel].base_url).rstrip("/")


def secret_variable(target: TargetConfig) -> tuple[str, str]:
    """The setting that names the variable of the target's secret, and the variable; none where nothing leaves."""
    setting = "token_env" if MEDIA[target.channel].is_chat else "secret_env"
    return setting, "" if target.record else getattr(target, setting)


def key_window_of(target: TargetConfig) -> int:
    """For how long the target's receiver can be relied on to remember a key, in milliseconds; 0 for one that knows none."""
    if target.record:
        return 0
    window_ms = min(target.key_window_ms, MEDIA[target.channel].key_window_ms)
    return window_ms if window_ms >= SHORTEST_KEY_WINDOW_MS else 0


def promise_of(target: TargetConfig) -> Promise:
    """What settles a delivery to this target whose outcome was lost, first of all."""
    if key_window_of(target):
        return "key"
    if not target.record and (MEDIA[target.channel].reads_back or target.reconcile_url):
        return "reconcile"
    return "none"


def split_recipient(targets: Mapping[str, TargetConfig], named: str) -> tuple[str, str | None]:
    """Read what a submitter says, `target` or `target:recipient`; ValueError, in words for the submitter, when it may not say that."""
    if named in targets:
        return named, None
    name, colon, recipient = named.partition(":")
    if name not in targets or not colon:
        raise ValueError(f"no target is named {named[:80]!r} here")
    if not targets[name].open_recipient:
        raise ValueError(f"target {name!r} sends to its own recipient alone")
    if not is_recipient(recipient):
        raise ValueError("a recipient is CHAT, CHAT/THREAD or CHAT/THREAD/REPLY, at most 256 characters in all")
    return name, recipient


def is_recipient(text: str) -> bool:
    """Whether a text can name where in a channel messages go."""
    return text.isprintable() and len(text) <= LONGEST_RECIPIENT and text.count("/") <= 2 and text[:1] not in {"", "/"}
