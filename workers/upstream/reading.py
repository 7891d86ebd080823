"""Reading a request member by member, so that none is dropped: what nobody took is refused by its path.

A null stands for a member that is not there. What names or decorates an item of an earlier answer (ids, status, annotations,
log probabilities) is not content: it belongs to the gateway and is not sent on.
"""

from collections.abc import Iterator
from typing import Any, NoReturn

Json = dict[str, Any]
VERBATIM = "verbatim"
DECORATION = frozenset({"type", "id", "status", "annotations", "logprobs", "phase", "created_by"})


class UnsupportedError(Exception):
    """The wire has no form for a member of the request; `param` is its path."""

    def __init__(self, param: str, message: str) -> None:
        super().__init__(message)
        self.param = param


class Members:
    """An object of the request, with the members that were not taken yet."""

    def __init__(self, value: Any, path: str, wire: str) -> None:
        self.path = path
        self.wire = wire
        if not isinstance(value, dict):
            raise UnsupportedError(path, f"{path or 'the request'} must be an object")
        self._left = {name: one for name, one in value.items() if one is not None}

    def __contains__(self, name: str) -> bool:
        return name in self._left

    def at(self, name: str) -> str:
        """The path of a member."""
        return f"{self.path}.{name}" if self.path else name

    def take(self, name: str) -> Any:
        """A member as it is, None where it is absent."""
        return self._left.pop(name, None)

    def word(self, name: str, default: str | None = None) -> str:
        """A text; without a default it must be there."""
        value = self._left.pop(name, default)
        if not isinstance(value, str):
            raise UnsupportedError(self.at(name), f"{self.at(name)} must be a string")
        return value

    def items(self, name: str) -> Iterator["Members"]:
        """The objects of a list; an absent one is empty."""
        value = self._left.pop(name, [])
        if not isinstance(value, list):
            raise UnsupportedError(self.at(name), f"{self.at(name)} must be an array")
        for position, one in enumerate(value):
            yield Members(one, f"{self.at(name)}[{position}]", self.wire)

    def object(self, name: str) -> "Members":
        """An object; an absent one is empty."""
        return Members(self._left.pop(name, {}), self.at(name), self.wire)

    def default(self, name: str, *values: Any) -> None:
        """Take a member that may only have one of these values, which say what the wire does anyway."""
        if name in self._left and self._left[name] in values:
            del self._left[name]

    def refuse(self, name: str, why: str = "") -> NoReturn:
        """Refuse a member by its name."""
        found = f"{self.at(name)} cannot be sent to an upstream of the wire {self.wire}{': ' + why if why else ''}"
        raise UnsupportedError(self.at(name), found)

    def finish(self, *ignored: str) -> None:
        """Refuse what nobody took."""
        for name in self._left:
            if name not in ignored:
                self.refuse(name)

    def texts(self, name: str) -> list[str]:
        """The texts of a list of parts that have nothing else."""
        found = []
        for part in self.items(name):
            found.append(part.word("text"))
            part.finish_item()
        return found

    def finish_item(self) -> None:
        """Refuse what nobody took of an item or a part of one."""
        self.finish(*DECORATION)


def kept_here(request: Members) -> None:
    """Take the members that the gateway itself answers: what it stores, repeats and streams needs no upstream."""
    for name in ("metadata", "background", "stream", "foldline"):
        request.take(name)
    options = request.object("stream_options")
    options.take("include_obfuscation")  # the public stream of such an upstream has none to leave out
    options.finish()
    request.default("store", True, False)  # every turn can be read again here
    request.default("truncation", "disabled")
    request.default("include", [])
    if "previous_response_id" in request:
        request.refuse("previous_response_id", "it keeps no responses; send the whole conversation as input")
    if "conversation" in request:
        request.refuse(
            "conversation", "it keeps none; send all of it as input, and name the session in foldline.session"
        )


def bound_to(given: Members) -> Json:
    """Take the schema of an answer's form, and what is said of it, for a wire that has room for the schema alone.

    There schemas have no names and are always binding.
    """
    if not isinstance(schema := given.take("schema"), dict):
        given.refuse("schema", "an object is expected")
    for name in ("name", "strict"):
        given.take(name)
    return {"description": given.word("description"), **schema} if "description" in given else schema
