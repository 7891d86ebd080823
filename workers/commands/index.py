"""All commands of `foldline` under their names."""

from collections.abc import Callable, Iterable

import typer

from workers.commands.decode import decode_file
from workers.commands.deliveries import ledger_app
from workers.commands.doctor import doctor
from workers.commands.forget import forget
from workers.commands.keys import keys_app
from workers.commands.publish import publish
from workers.commands.refold import refold
from workers.commands.settings import show_config, show_streaming
from workers.commands.shadow import shadow_app
from workers.commands.submit import submit, tail
from workers.commands.turns import list_turns, show_turn
from workers.commands.up import up
from workers.commands.version import every_command


def build(run_role: Callable[[str], None], roles: Iterable[str]) -> typer.Typer:
    """Put the commands together, and one for each role."""
    app = typer.Typer(
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
        help="Carries the streams of language models and agents to their readers.",
    )
    app.callback()(every_command)
    app.command("up")(up)
    app.command("submit")(submit)
    app.command("tail")(tail)
    app.command("publish")(publish)
    app.command("turns")(list_turns)
    app.command("turn")(show_turn)
    app.add_typer(ledger_app, name="ledger")
    app.add_typer(shadow_app, name="shadow")
    app.command("refold")(refold)
    app.command("forget")(forget)
    app.command("decode")(decode_file)
    app.command("config")(show_config)
    app.command("settings")(show_streaming)
    app.command("doctor")(doctor)
    app.add_typer(keys_app, name="keys")
    for role in roles:
        _add_role(app, role, run_role)
    return app


def _add_role(app: typer.Typer, role: str, run_role: Callable[[str], None]) -> None:
    def command() -> None:
        run_role(role)

    app.command(role, help=f"Run one {role} process until SIGTERM.")(command)
