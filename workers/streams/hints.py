"""Listening to the channels on which the fold tells of new frames: plain pub/sub on one server, sharded pub/sub on a cluster.

Nothing is repaired here. Whatever goes wrong (a lost connection, a slot that moved, silence that a ping does not break) ends `listen`
with `HintsLost`; the caller begins anew, and takes everything that it was told before for outdated.
"""

import asyncio
from collections.abc import Callable
from typing import Any, cast

from redis.asyncio.client import PubSub
from redis.exceptions import RedisClusterException, RedisError

from workers.streams.cancelling import heeding
from workers.streams.connection import AsyncClient

IDLE_S = 5.0
"""After so long without a message the connection is asked by PING; after twice as long it counts as lost."""

Confirm = Callable[[str], None]
Tell = Callable[[Any], None]


class HintsLost(Exception):  # noqa: N818 - the word says what happened, to a reader of a log
    """The connection is gone or can no longer be trusted."""


async def listen(
    client: AsyncClient, channels: list[str], *, sharded: bool, on_confirmed: Confirm, on_hint: Tell
) -> None:
    """Subscribe, then tell of each confirmed channel and of each message until the connection is lost; never returns."""
    pubsub: Any = None
    try:
        if sharded:
            await _learn_slots(cast("Any", client))
        pubsub = cast("Any", client.pubsub())
        if sharded:
            for channel in channels:
                await heeding(pubsub.ssubscribe(channel))
            connections = list(pubsub.node_pubsub_mapping.values())
        else:
            await heeding(pubsub.subscribe(*channels))
            connections = [pubsub]
        async with asyncio.TaskGroup() as group:
            for connection in connections:
                group.create_task(_read(connection, on_confirmed, on_hint))
    except (RedisError, RedisClusterException, OSError) as error:
        raise HintsLost(str(error)) from error
    except ExceptionGroup as errors:
        raise HintsLost("; ".join(str(error) for error in errors.exceptions)) from errors
    finally:
        if pubsub is not None:
            await _close(pubsub)


async def _learn_slots(cluster: Any) -> None:
    """Ask which node serves which slot: at first, and again after whatever ended the last listening."""
    await heeding(cluster.initialize())
    await heeding(cluster.nodes_manager.initialize())


async def _read(connection: PubSub, on_confirmed: Confirm, on_hint: Tell) -> None:
    idle_s = 0.0
    while True:
        message = await heeding(connection.get_message(timeout=1.0))
        if message is None:
            idle_s += 1.0
            if idle_s >= 2 * IDLE_S:
                raise HintsLost("no answer to a ping")
            if idle_s == IDLE_S:
                await heeding(connection.ping())
            continue
        idle_s = 0.0
        match message["type"]:
            case "message" | "smessage":
                on_hint(message["data"])
            case "subscribe" | "ssubscribe":
                on_confirmed(message["channel"])
            case "unsubscribe" | "sunsubscribe":
                raise HintsLost(f"unsubscribed from {message['channel']}")
            case _:
                pass  # the answer to a ping


async def _close(pubsub: Any) -> None:
    for connection in [*getattr(pubsub, "node_pubsub_mapping", {}).values(), pubsub]:
        try:
            await connection.aclose()
        except (RedisError, OSError):
            continue
