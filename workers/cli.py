"""The command line: `foldline COMMAND`, and `python -m workers ROLE` for one process of the fleet.

It puts the commands together and turns what goes wrong into one line on stderr. Exit codes: 0 done; 1 failed; 2 refused, or a
wrong command line; 78 an unusable configuration.
"""

import importlib

import typer

from workers.commands.decode import decode_file
from workers.commands.keys import keys_app
from workers.commands.session import EXIT_CONFIG, fail, read_config
from workers.commands.settings import show_config
from workers.commands.up import up
from workers.runtime.failpoints import UnknownFailpointError

ROLES = {
    "ingest": "workers.ingest.worker",
    "fold": "workers.fold.worker",
    "delivery": "workers.delivery.worker",
    "gateway": "workers.gateway.app",
}
"""Where each role's `run(config, stop)` is; imported when it is run, so that no role pays for another's libraries."""

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    help="Carries the streams of language models and agents to their readers.",
)
app.command("up")(up)
app.command("decode")(decode_file)
app.command("config")(show_config)
app.add_typer(keys_app, name="keys")


def run_role(role: str) -> None:
    """Run one process of a role until SIGTERM."""
    from workers.runtime import process  # noqa: PLC0415 - the event loop of roles; other commands do without

    config = read_config()
    try:
        code = process.run(role, config, importlib.import_module(ROLES[role]).run)
    except UnknownFailpointError as error:
        fail(str(error), EXIT_CONFIG)
    raise SystemExit(code)


def _add_role(role: str) -> None:
    def command() -> None:
        run_role(role)

    app.command(role, help=f"Run one {role} process.")(command)


for _role in ROLES:
    _add_role(_role)


def main() -> None:
    """Run the command that the arguments name."""
    app(prog_name="foldline")
