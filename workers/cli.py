"""The command line: `foldline COMMAND`, and `python -m workers ROLE` for one process of the fleet.

A role starts without loading any other command, since a killed process must be back before its lease runs out. Exit codes: 0 done;
1 failed; 2 refused, or a wrong command line (one that names a file that cannot be read is that, too); 78 an unusable configuration, or a server
that cannot be worked on.
"""

import importlib
import sys

from ledger.errors import AccessDenied, Evicting, SchemaMismatch
from workers.commands.session import EXIT_CONFIG, fail, read_config
from workers.config import ConfigError
from workers.observability.listening import CannotListenError
from workers.runtime import process
from workers.runtime.failpoints import UnknownFailpointError

ROLES = {
    "ingest": "workers.ingest.worker",
    "fold": "workers.fold.worker",
    "delivery": "workers.delivery.worker",
    "gateway": "workers.gateway.app",
}
"""Where each role's `run(config, stop)` is; imported when it is run, so that no role pays for another's libraries."""


def run_role(role: str) -> None:
    """Run one process of a role until SIGTERM."""
    config = read_config()
    try:
        code = process.run(role, config, importlib.import_module(ROLES[role]).run)
    except (ConfigError, UnknownFailpointError, AccessDenied, Evicting, SchemaMismatch) as error:
        fail(str(error), EXIT_CONFIG)
    except CannotListenError as error:  # another process may let go of it: worth another start
        fail(str(error))
    raise SystemExit(code)


def main() -> None:
    """Run the command that the arguments name."""
    if len(sys.argv) == 2 and sys.argv[1] in ROLES:
        run_role(sys.argv[1])
    from workers.commands.index import build  # noqa: PLC0415 - every command's libraries, which a role does without

    build(run_role, ROLES)(prog_name="foldline")
