"""Where the server is: one address, or sentinels that know which of several is the master now.

`redis://…`, `rediss://…` (TLS), `unix://…`; `redis+sentinel://[user:password@]host[:port],host[:port]/SERVICE[/DATABASE]`, and
`rediss+sentinel://` where both the server and its sentinels speak TLS.
"""

from dataclasses import dataclass
from urllib.parse import unquote, urlsplit

SENTINEL_PORT = 26379
PLAIN_SCHEMES = ("redis", "rediss", "unix")
SENTINEL_SCHEMES = ("redis+sentinel", "rediss+sentinel")


@dataclass(frozen=True, kw_only=True)
class Sentinels:
    """Who is asked for the master, which service is meant, and how its members are spoken to."""

    hosts: tuple[tuple[str, int], ...]
    service: str
    database: int
    username: str | None
    password: str | None
    tls: bool
    asks_login: bool
    """The sentinels ask for the same user and password."""


def scheme_of(url: str) -> str:
    """The scheme of an address."""
    return url.partition("://")[0].lower()


def is_tls(url: str) -> bool:
    """Whether the server is spoken to through TLS."""
    return scheme_of(url).startswith("rediss")


def problem_of(url: str) -> str:
    """Why an address cannot be used; empty when it can."""
    scheme = scheme_of(url)
    if scheme in PLAIN_SCHEMES:
        return ""
    if scheme not in SENTINEL_SCHEMES:
        return f"an address with one of {', '.join((*PLAIN_SCHEMES, *SENTINEL_SCHEMES))} is expected, found {scheme!r}"
    try:
        read_sentinels(url)
    except ValueError as error:
        return str(error)
    return ""


def read_sentinels(url: str, *, asks_login: bool = False) -> Sentinels | None:
    """Read an address of sentinels; None for a plain one, ValueError where it is incomplete."""
    if scheme_of(url) not in SENTINEL_SCHEMES:
        return None
    parts = urlsplit(url)
    login, at, hosts = parts.netloc.rpartition("@")
    username, _, password = login.partition(":")
    service, _, database = parts.path.strip("/").partition("/")
    if not service or not all(hosts.split(",")):
        raise ValueError("redis+sentinel://HOST:PORT,HOST:PORT/SERVICE/DATABASE is expected")
    if database and not database.isdigit():
        raise ValueError(f"the number of a database is expected behind the service, found {database!r}")
    return Sentinels(
        hosts=tuple(_host(host) for host in hosts.split(",")),
        service=unquote(service),
        database=int(database or 0),
        username=unquote(username) or None,
        password=unquote(password) if at and password else None,
        tls=is_tls(url),
        asks_login=asks_login,
    )


def _host(text: str) -> tuple[str, int]:
    """One sentinel; an IPv6 address stands in brackets."""
    parts = urlsplit(f"//{text}")
    if not parts.hostname:
        raise ValueError(f"HOST:PORT is expected, found {text!r}")
    return parts.hostname, parts.port or SENTINEL_PORT
