"""`foldline up`: every role on one machine, with an embedded server when none is configured."""

import asyncio
import os
import signal
import sys
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from workers.commands.session import DATA, EXIT_CONFIG, URL_VARIABLE, fail, read_config, server_is_configured
from workers.embedded import EmbeddedServer, EmbeddedServerError
from workers.observability.listening import url_of
from workers.runtime.process import set_title
from workers.supervisor import Role, Sink, Supervisor, default_roles, read_procfile

COLOURS = (36, 32, 33, 35, 34, 31)
OPENED = {"listening": "open {url}/ to watch a turn; clients take {url}/v1", "operations_port": "open {url}/metrics"}
"""What a person can do with an address, by the event with which a process tells in its log that it listens there."""


class _Listening(msgspec.Struct):
    """What a process's log says of an address."""

    event: str
    host: str
    port: int


def up(
    *,
    procfile: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Roles to start instead of foldline's four.")
    ] = None,
    ingest: Annotated[int, typer.Option(min=0, metavar="N", help="Processes of this role.")] = 1,
    fold: Annotated[int, typer.Option(min=0, metavar="N", help="Processes of this role.")] = 1,
    delivery: Annotated[int, typer.Option(min=0, metavar="N", help="Processes of this role.")] = 1,
    gateway: Annotated[
        int, typer.Option(min=0, max=1, metavar="N", help="Processes of this role (they share one port).")
    ] = 1,
    data: Annotated[Path, typer.Option(metavar="FOLDER", help="The embedded server's folder.")] = DATA,
) -> None:
    """Run the whole fleet here until Ctrl-C; nothing stays running afterwards."""
    counts = {"ingest": ingest, "fold": fold, "delivery": delivery, "gateway": gateway}
    roles = [replace(role, count=counts.get(role.name, 1)) for role in _roles(procfile)]
    config = read_config()  # a configuration that no role would take is told once, here
    if procfile is None and config.service.port and sum(counts.values()) > 1:
        fail(
            f"service.port: the processes of up cannot share port {config.service.port}; 0 gives each one of its own",
            EXIT_CONFIG,
        )
    set_title("foldline-up")
    sys.exit(run_roles(roles, data))


def run_roles(roles: list[Role], data: Path) -> int:
    """Start the server if need be, run the roles until a signal, stop everything. Returns the exit code."""
    environ = dict(os.environ)
    sink = inviting(prefixed([f"{role.name}.{index}" for role in roles for index in range(1, role.count + 1)]))
    server: EmbeddedServer | None = None
    try:
        if not server_is_configured():
            server = EmbeddedServer(data)
            running = server.start()
            environ[URL_VARIABLE] = running.url
            sink("server", f"listens at {running.url}, data in {data}")
            if data.absolute() != DATA.absolute():
                sink("server", f"other commands look for it in {DATA}: give them {URL_VARIABLE}={running.url}")
        supervisor = Supervisor(roles, sink=sink, environ=environ, server=server)
        asyncio.run(_until_signal(supervisor))
    except EmbeddedServerError as error:
        fail(str(error))
    finally:
        if server is not None:
            server.stop()
    if supervisor.fault is not None:
        fail(supervisor.fault, EXIT_CONFIG)
    return 0


def prefixed(names: list[str]) -> Sink:
    """Return a sink that writes each line to stdout behind its process's name, coloured at a terminal."""
    width = max([len(name) for name in names] + [len("server")])
    colours = {name: COLOURS[index % len(COLOURS)] for index, name in enumerate(names)} if sys.stdout.isatty() else {}

    def sink(name: str, line: str) -> None:
        label = f"{name:<{width}} |"
        if name in colours:
            label = f"\x1b[{colours[name]}m{label}\x1b[0m"
        sys.stdout.write(f"{label} {line}\n")
        sys.stdout.flush()

    return sink


def inviting(sink: Sink) -> Sink:
    """Return a sink that says behind each line that tells of an address what can be opened there."""

    def invite(name: str, line: str) -> None:
        sink(name, line)
        if told := invitation(line):
            sink(name, told)

    return invite


def invitation(line: str) -> str | None:
    """What can be opened now, by a line of a process's log; None where it is another line."""
    if not any(event in line for event in OPENED):  # nearly every line
        return None
    try:
        told = msgspec.json.decode(line, type=_Listening)
    except msgspec.DecodeError:
        return None
    words = OPENED.get(told.event)
    return words and words.format(url=url_of(told.host, told.port))


def _roles(procfile: Path | None) -> list[Role]:
    if procfile is None:
        return default_roles()
    try:
        return read_procfile(procfile)
    except (OSError, ValueError) as error:
        fail(str(error), EXIT_CONFIG)


async def _until_signal(supervisor: Supervisor) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()

    def ask(signum: int) -> None:
        if stop.is_set():  # asked twice: no more waiting for drains; the kernel ends the children with us
            os._exit(128 + signum)
        stop.set()

    for signum in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(signum, ask, signum)
    await supervisor.run(stop)
