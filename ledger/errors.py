"""Everything the ledger raises, as one tree, printed here because a caller chooses by it.

    LedgerError
    ├── Unavailable        the server could not be asked, or its answer was lost: repeat the same call later
    ├── Full               the server's memory is full, or past the share that producers may use: wait, then repeat
    ├── AccessDenied       the server refuses our credentials or our rights: an operator must act
    ├── SchemaMismatch     the data belongs to another schema, record version or number of partitions
    ├── Evicting           the server drops keys when its memory is full: nothing is begun on it
    ├── UnexpectedReply    the server answered something that no operation of ours answers
    ├── StaleToken         somebody else holds the claim now: stop, say nothing more
    ├── UnknownTurn        no such turn: it was never submitted, has expired, or the server was emptied
    ├── TurnEnded          the turn has its terminal already
    └── UnknownDelivery    no such part

Outcomes that a working fleet meets every day (a repeat, a busy claim, an empty take) are return values, not errors.
Whether a call that ended in Unavailable was executed is unknown; every operation may be repeated with the same arguments.
"""


class LedgerError(Exception):
    """Anything the ledger raises."""


class Unavailable(LedgerError):  # noqa: N818 - the word says what the server is, to a reader of a log
    """The server could not be asked, or its answer was lost; repeat the same call later."""


class Full(LedgerError):  # noqa: N818 - as above
    """The server has no memory left for producers; nothing was written."""


class AccessDenied(LedgerError):  # noqa: N818 - as above
    """The server refuses our credentials or our rights."""


class SchemaMismatch(LedgerError):  # noqa: N818 - as above
    """Stored data belongs to another schema version or another number of partitions."""

    def __init__(self, what: str, *, expected: str, found: str) -> None:
        super().__init__(f"{what}: expected {expected}, found {found}")
        self.what = what
        self.expected = expected
        self.found = found


class Evicting(LedgerError):  # noqa: N818 - as above
    """The server drops keys when its memory is full, so that nothing it answered can be relied on."""

    def __init__(self, policy: str) -> None:
        super().__init__(f"maxmemory-policy is {policy}: the server may drop any of our keys; set it to noeviction")
        self.policy = policy


class UnexpectedReply(LedgerError):  # noqa: N818 - as above
    """The server answered something that the operation never answers."""

    def __init__(self, operation: str, reply: object) -> None:
        super().__init__(f"{operation} answered {reply!r}")
        self.operation = operation
        self.reply = reply


class StaleToken(LedgerError):  # noqa: N818 - as above
    """The token is no longer the one that may act."""

    def __init__(self, subject: str, token: str) -> None:
        super().__init__(f"{subject} is held under another token than {token}")
        self.subject = subject
        self.token = token


class UnknownTurn(LedgerError):  # noqa: N818 - as above
    """The ledger holds no such turn."""

    def __init__(self, turn: str) -> None:
        super().__init__(f"no turn {turn} in the ledger")
        self.turn = turn


class TurnEnded(LedgerError):  # noqa: N818 - as above
    """The turn has its terminal event; nothing more is accepted for it."""

    def __init__(self, turn: str) -> None:
        super().__init__(f"turn {turn} has ended")
        self.turn = turn


class UnknownDelivery(LedgerError):  # noqa: N818 - as above
    """The ledger holds no such part."""

    def __init__(self, part: str) -> None:
        super().__init__(f"no part {part} in the ledger")
        self.part = part
