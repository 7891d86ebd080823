"""`foldline keys`: who may use the gateway. A key is printed once, when it is made; what is kept is its hash."""

import sys
from typing import Annotated

import typer

from ledger import access
from workers.commands.output import Json, show_json, show_rows, times
from workers.commands.session import EXIT_REFUSED, fail, open_ledger, read_config, run_async
from workers.runtime import entropy
from workers.runtime.clock import SystemClock

KEY_PREFIX = "fk-"  # so that a leaked key is recognised for what it is
SHOWN = 12  # digits of a hash that name a key to people

keys_app = typer.Typer(no_args_is_help=True, help="API keys of the gateway, each with its tenant.")


@keys_app.command("add")
def add(
    tenant: Annotated[str, typer.Argument(metavar="TENANT", help="Whose turns the key's holder sees.")],
    name: Annotated[str, typer.Option(metavar="NAME", help="What you call it.")] = "",
    as_json: Json = False,
) -> None:
    """Make a key and print it, once."""
    secret = f"{KEY_PREFIX}{entropy.hex24()}{entropy.hex24()}"
    digest = access.hash_key(secret)
    key = access.ApiKey(name=name, tenant=tenant, created=SystemClock().now_ms())

    async def work() -> None:
        async with open_ledger(read_config()) as ledger:
            await ledger.scripts.run(access.add_key(ledger.keys, digest, key))

    try:
        run_async(work())
    except ValueError as error:
        fail(f"keys add: {error}", EXIT_REFUSED)
    if as_json:
        show_json({"key": secret, "id": digest[:SHOWN], "tenant": tenant, "name": name})
        return
    sys.stderr.write(
        f"key {digest[:SHOWN]} of tenant {tenant}; it is shown this once, and every request needs one now:\n"
    )
    sys.stdout.write(f"{secret}\n")


@keys_app.command("list")
def list_all(as_json: Json = False) -> None:
    """List the keys by their hashes."""
    found = run_async(_all())
    when = times(as_json=as_json)
    rows = [
        {"id": digest[:SHOWN], "tenant": key.tenant, "name": key.name, "created": when(key.created)}
        for digest, key in sorted(found.items(), key=lambda entry: entry[1].created)
    ]
    empty = "no keys: the gateway answers on loopback alone, and everybody there"
    show_rows(rows, ("id", "tenant", "name", "created"), as_json=as_json, empty=empty)


@keys_app.command("revoke")
def revoke(
    which: Annotated[str, typer.Argument(metavar="ID", help="The start of its hash, as `list` prints it.")],
    as_json: Json = False,
) -> None:
    """Take a key back; its next request is refused."""
    matching = [digest for digest in run_async(_all()) if which and digest.startswith(which)]
    if len(matching) != 1:
        fail(f"{'no key' if not matching else 'more than one key'} starts with {which!r}")
    (digest,) = matching

    async def work() -> bool:
        async with open_ledger(read_config()) as ledger:
            return await ledger.scripts.run(access.revoke_key(ledger.keys, digest))

    revoked = run_async(work())
    if as_json:
        show_json({"id": digest[:SHOWN], "revoked": revoked})
    else:
        sys.stdout.write(f"revoked {digest[:SHOWN]}\n")


async def _all() -> dict[str, access.ApiKey]:
    async with open_ledger(read_config()) as ledger:
        return await ledger.scripts.run(access.list_keys(ledger.keys))
