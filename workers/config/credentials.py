"""The form of secrets: what no receiver would take is found before anything is sent. No message here holds a piece of one."""

import base64
import binascii
import re
from collections.abc import Mapping
from typing import Final

SECRET_FIELDS: Final = (
    ("upstreams", "api_key_env"),
    ("upstreams", "proxy_auth_env"),
    ("targets", "secret_env"),
    ("targets", "token_env"),
)
"""Settings that name a variable in which a secret is."""
WEBHOOK_PREFIX: Final = "whsec_"
WEBHOOK_KEY_BYTES: Final = (24, 64)
"""As Standard Webhooks wants it; other lengths sign all the same."""
SCHEMES: Final = ("Bot", "Bearer", "Basic")
VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")

CUSTOMARY: Final[Mapping[str, tuple[re.Pattern[str], str]]] = {
    "discord": (re.compile(r"[\w-]+\.[\w-]+\.[\w-]+"), "three pieces with dots between them"),
    "slack": (re.compile(r"xox[a-z]?[-.].+"), "xoxb- and more"),
    "telegram": (re.compile(r"\d+:[\w-]+"), "a number, a colon and more"),
}
"""What tokens of a channel have looked like so far; its owner may change that, so no process refuses another form."""


def is_variable(name: str) -> bool:
    """Whether a text can name a variable, and is not the secret itself put where the name belongs."""
    return VARIABLE.fullmatch(name) is not None and not name.startswith(WEBHOOK_PREFIX)


def secret_problem(channel: str, secret: str) -> str | None:
    """Why a channel cannot work with a target's secret; None where it can."""
    if channel != "webhook":
        return token_problem(secret)
    try:
        webhook_key(secret)
    except ValueError as error:
        return str(error)
    return None


def secret_doubt(channel: str, secret: str) -> str | None:
    """Why a secret that can be worked with is probably not the one that is meant."""
    if channel == "webhook":
        least, most = WEBHOOK_KEY_BYTES
        length = len(webhook_key(secret))
        return None if least <= length <= most else f"its key has {length} bytes, where {least} to {most} are usual"
    pattern, looks = CUSTOMARY.get(channel, (None, ""))
    return None if pattern is None or pattern.fullmatch(secret) else f"a token there is {looks}"


def token_problem(token: str) -> str | None:
    """Why a token cannot stand in a request; None where it can."""
    scheme = token.partition(" ")[0]
    if scheme in SCHEMES:
        return f"it begins with the word {scheme}, which is no part of it"
    if any(char.isspace() for char in token):
        return "there is white space in it"
    if "://" in token:
        return "it is a URL"
    if not token.isascii() or not token.isprintable():
        return "there are characters in it that no token has"
    return None


def login_problem(login: str) -> str | None:
    """Why a text is no login for a proxy; None where it is one."""
    user, colon, _ = login.partition(":")
    return None if user and colon and login.isprintable() else "USER:PASSWORD is expected"


def webhook_key(secret: str) -> bytes:
    """The key in a webhook's secret; ValueError when it is no `whsec_` followed by base64."""
    if any(char.isspace() for char in secret):
        raise ValueError("there is white space in it")
    if not secret.startswith(WEBHOOK_PREFIX):
        raise ValueError(f"a webhook secret begins with {WEBHOOK_PREFIX}")
    try:
        key = base64.b64decode(secret.removeprefix(WEBHOOK_PREFIX), validate=True)
    except binascii.Error:
        raise ValueError(f"after {WEBHOOK_PREFIX} a webhook secret is base64") from None
    if not key:
        raise ValueError(f"nothing stands behind {WEBHOOK_PREFIX}")
    return key
