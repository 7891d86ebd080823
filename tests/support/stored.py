"""Answers of an upstream that keeps its responses: each can be read again from its beginning, byte for byte."""

from collections.abc import Callable

from scripts.responses_stream import response_id
from tests.support.upstream import Answer, Answerer, Received, json_body


def stored(answerer: Answerer) -> Answerer:
    """Answer a request as `answerer` does, and every later reading of its response with the same."""
    kept: dict[str, Answer] = {}

    def answer(received: Received) -> Answer:
        ident = received.path.rpartition("/responses/")[2].removesuffix("/cancel")
        if received.path.endswith("/responses"):
            made = answerer(received)
            kept[response_id(received.body)] = made
            return made
        if received.path.endswith("/cancel") or ident not in kept:
            return json_body({"id": ident}, status=200 if ident in kept else 404)(received)
        return kept[ident]

    return answer


def by_input(answers: Callable[[str], Answerer]) -> Answerer:
    """Answer each request by what it asks."""
    return lambda received: answers(str(received.body.get("input")))(received)
