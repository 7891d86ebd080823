"""The documentation's tables of channels: what each promises and asks for, and what each of its answers means."""

from pipeline.project.registry import CHANNELS as PROJECTED
from workers.config.channels import MEDIA
from workers.delivery.channels.registry import TERMS
from workers.delivery.terms import Rate, Rule, Terms

UNITS = {"utf16": "UTF-16 units", "codepoints": "code points", "bytes": "bytes"}


def channels() -> list[tuple[str, ...]]:
    """The rows of the channels' table, under `CHANNELS_HEAD`."""
    return [
        (f"`{name}`", _key(name, terms), _asked(terms), _size(name), _rates(terms), _typing(terms))
        for name, terms in TERMS.items()
    ]


CHANNELS_HEAD = ("channel", "key", "can be asked", "size of a message", "rate", "typing")


def answers() -> list[tuple[str, ...]]:
    """The rows of the answers' table, under `ANSWERS_HEAD`; the first that fits holds."""
    return [
        (
            f"`{name}`",
            _about(rule),
            rule.fate.value,
            f"`{rule.reason}`",
            _pages(rule.page).removeprefix("(").removesuffix(")"),
        )
        for name, terms in TERMS.items()
        for rule in terms.rules
    ]


ANSWERS_HEAD = ("channel", "answer", "means", "recorded as", "page")


def _key(name: str, terms: Terms) -> str:
    if not terms.key:
        return "none"
    minutes = MEDIA[name].key_window_ms // 60_000
    window = "as long as `key_window_ms` says" if name == "webhook" else f"relied on for {minutes:,} minutes"
    return f"{terms.key}; {terms.key_scope}; {window} {_pages(terms.key_page)}"


def _asked(terms: Terms) -> str:
    return f"{terms.reads_back} {_pages(terms.reads_back_page)}".strip() or "no"


def _size(name: str) -> str:
    known = PROJECTED[name]
    if known.limit is None:
        return "unbounded"
    lines = f", {known.max_lines} lines" if known.max_lines else ""
    return f"{known.limit:,} {UNITS[known.unit]}{lines}"


def _rates(terms: Terms) -> str:
    told = [
        f"{_rate(rate)} {what}"
        for rate, what in ((terms.account_rate, "an account"), (terms.chat_rate, "a chat"))
        if rate
    ]
    return f"{', '.join(told) or 'as it answers'} {_pages(terms.rate_page)}".strip() if terms.rules else "unbounded"


def _rate(rate: Rate) -> str:
    return f"{rate.per_s:g} a second, {rate.burst} at once,"


def _typing(terms: Terms) -> str:
    return f"every {terms.typing_ms // 1000} s {_pages(terms.typing_page)}" if terms.typing_ms else "no"


def _about(rule: Rule) -> str:
    first, last = rule.status
    said = [] if (first, last) == (0, 999) else [str(first) if first == last else f"{first} to {last}"]
    if rule.code:
        said.append({"*": "any other error by name", "none": "without a code"}.get(rule.code, f"`{rule.code}`"))
    if rule.phrase:
        said.append(f"“{rule.phrase}”")
    if rule.hold_ms:
        said.append(f"(the account waits {rule.hold_ms // 1000} s)")
    return " ".join(said) or "anything else"


def _pages(page: str) -> str:
    if not page.startswith("https://"):
        return page
    name = page.removeprefix("https://").partition("/")[0]
    section = page.partition("#")[2] or page.rstrip("/").rpartition("/")[2]
    return f"([{name}: {section}]({page}))" if section != name else f"([{name}]({page}))"
