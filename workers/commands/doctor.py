"""`foldline doctor`: is this fleet as its promises need it, and what is to be done where it is not.

Every check is a function from what was read to findings; reading and judging are apart, so that each judgement has its test.
The exit code is 1 when there is an error: something that breaks a promise now. A warning is what will break one, or weakens it.
"""

import asyncio
import os
import sys

from ledger.errors import AccessDenied, LedgerError, SchemaMismatch
from workers.commands import diagnosis, probes
from workers.commands.diagnosis import Finding, Level
from workers.commands.output import Json, show_json
from workers.commands.session import EXIT_FAILED, open_ledger, read_settings
from workers.config import Config

MARKS = {Level.OK: "ok     ", Level.WARNING: "WARNING", Level.ERROR: "ERROR  "}


def doctor(as_json: Json = False) -> None:
    """Check configuration, server, groups, leases and durability, and say what to do."""
    config = read_settings().config  # ends here, in words, when a rule between settings is broken
    findings = [
        Finding(level=Level.OK, check="configuration", found="every value is known and every inequality holds"),
        *diagnosis.upstreams(config),
        *diagnosis.secrets(config, os.environ),
        *diagnosis.agents(config, os.environ),
        *diagnosis.authorities(config),
        *diagnosis.owned_names(probes.distributions()),
        diagnosis.least_user(config),
        *asyncio.run(_server(config)),
    ]
    failed = any(finding.level is Level.ERROR for finding in findings)
    if as_json:
        show_json({"healthy": not failed, "findings": findings})
    else:
        for finding in findings:
            sys.stdout.write(f"{MARKS[finding.level]}  {finding.check}: {finding.found}\n")
            if finding.advice:
                sys.stdout.write(f"         → {finding.advice}\n")
    raise SystemExit(EXIT_FAILED if failed else 0)


async def _server(config: Config) -> list[Finding]:
    findings: list[Finding] = []
    try:
        async with open_ledger(config) as ledger:
            server = await probes.read_server(ledger)
            findings = [
                *diagnosis.version(server),
                *diagnosis.memory(server),
                *diagnosis.persistence(server, config),
                *diagnosis.durability(server, config),
                *diagnosis.clock(server),
            ]
            mismatch = list(diagnosis.cluster(server, config))
            if mismatch:  # the keys cannot be asked for with the wrong kind of client
                return [*findings, *mismatch]
            findings += diagnosis.rights(await probes.read_missing_rights(ledger))
            return [*findings, *diagnosis.fleet(await probes.read_fleet(ledger))]
    except SchemaMismatch as error:
        return [*findings, diagnosis.wrong_schema(error)]
    except AccessDenied as error:
        return [*findings, diagnosis.denied(error)]
    except LedgerError as error:
        return [*findings, diagnosis.unreachable(error, config)]
