"""Branch coverage of each part of the core and of the ledger by its own tests alone: `python -m scripts.coverage_by_module [PART …]`.

A part whose lines are only met by the tests of its neighbours is not tested; so of a part's lines those alone count that its own
tests met. Prints what is missing; exit 1 where anything is. `# pragma: no cover` is listed with the reason beside it.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import chdir
from dataclasses import dataclass
from pathlib import Path

from coverage import Coverage

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("pipeline", "ledger")
PROCESSES = "2"

WIRE = (
    "normalize/test_contract.py",
    "normalize/test_golden.py",
    "normalize/test_wire_corners.py",
    "normalize/test_alike.py",
)  # what every wire must hold

# part of the core -> the tests that are its own
PARTS: dict[str, tuple[str, ...]] = {
    "assemble": ("test_answer.py", "test_assemble.py", "test_text_identity.py", "vectors/test_blocks.py"),
    "codec.py": ("test_codec.py",),
    "errors.py": ("test_errors.py",),
    "events.py": ("test_events.py",),
    "fences.py": ("test_fences.py",),
    "fold": ("fold", "turn", "test_turn.py"),
    "graphemes.py": ("test_graphemes.py",),
    "kinds": ("kinds",),
    "limits.py": ("test_limits.py",),
    "normalize/acp": ("normalize/test_acp*.py", *WIRE),
    "normalize/canonical.py": ("normalize/test_canonical.py",),
    "normalize/chat": ("normalize/test_chat*.py", *WIRE),
    "normalize/failures.py": ("normalize/test_failures.py",),
    "normalize/gemini": ("normalize/test_gemini*.py", *WIRE),
    "normalize/jsonl.py": ("normalize/test_jsonl.py",),
    "normalize/messages": ("normalize/test_messages*.py", *WIRE),
    "normalize/registry.py": ("normalize/test_registry.py",),
    "normalize/responses": ("normalize/test_responses*.py", "test_rules.py"),
    "normalize/sse.py": ("normalize/test_sse.py",),
    "project": ("project", "vectors/test_parts.py"),
    "relay": ("relay", "turn", "test_turn.py"),
    "settings.py": ("test_settings.py",),
    "translate": ("translate",),
    "turn": ("turn", "test_turn.py"),
    "validate.py": ("test_validate.py", "test_rules.py"),
}
# What several wires share, as one part; the tests of the wires are its own.
SHARED = "normalize"
SHARED_MODULES = (
    "alike",
    "defects",
    "framed",
    "intake",
    "jsonarray",
    "leniency",
    "opening",
    "narrator",
    "slots",
    "stamp",
    "usage",
)
PARTS[SHARED] = ("normalize",)
# module of the ledger -> the tests that are its own; what a script does is in Lua, and these tests are of every reply
LEDGER = {
    "access": ("access",),
    "backoff": ("backoff",),
    "commands": ("commands",),
    "delivery": ("delivery", "delivery_words", "late", "planning"),
    "errors": ("commands",),
    "external": ("external", "deadlines"),
    "forgetting": ("forgetting",),
    "keys": ("keys",),
    "log": ("log", "log_committing", "log_taking"),
    "lua/__init__": ("lua",),
    "ownership": ("ownership",),
    "parts": ("parts", "delivery"),
    "planning": ("planning",),
    "records": ("records",),
    "replies": ("replies",),
    "reports": ("reports",),
    "retention": ("retention",),
    "rights": ("rights",),
    "shadow": ("shadow",),
    "states": ("states",),
    "turns": ("turns", "deadlines"),
}
PARTS |= {f"ledger/{name}.py": tuple(f"test_{test}.py" for test in tests) for name, tests in LEDGER.items()}
VALUES = ("output.py",)  # values alone: every part's tests are its own
PRAGMA = re.compile(r"# pragma: no (?:cover|branch)\W*(.*)")


@dataclass(frozen=True)
class Gap:
    """What of one module no test of its own meets."""

    module: str
    lines: list[int]
    branches: list[list[int]]


def package_of(part: str) -> str:
    """The package that a part is of; those of the core are named without it."""
    return "ledger" if part.startswith("ledger/") else "pipeline"


def modules_of(part: str) -> list[str]:
    """The modules of a part, as paths from the root."""
    if part == SHARED:
        return [f"pipeline/{SHARED}/{name}.py" for name in SHARED_MODULES]
    path = ROOT / (part if package_of(part) == "ledger" else f"pipeline/{part}")
    found = sorted(path.rglob("*.py")) if path.is_dir() else [path]
    return [str(module.relative_to(ROOT)) for module in found]


def tests_of(part: str) -> list[str]:
    """The test files and folders that are a part's own."""
    folder = ROOT / "tests" / package_of(part)
    return [str(path.relative_to(ROOT)) for pattern in PARTS[part] for path in sorted(folder.glob(pattern))]


def measured(parts: list[str], folder: Path) -> Coverage:
    """Run the tests of these parts, each line that they meet marked with the test that met it."""
    data = folder / "data"
    tests = sorted({test for part in parts for test in tests_of(part)})
    run = [sys.executable, "-m", "pytest", "-q", "-n", PROCESSES, "-p", "no:randomly", "--hypothesis-seed=0", *tests]
    options = [*(f"--cov={package}" for package in PACKAGES), "--cov-branch", "--cov-context=test", "--cov-report="]
    environment = {**os.environ, "COVERAGE_FILE": str(data)}
    told = subprocess.run([*run, *options], cwd=ROOT, env=environment, check=False, stdout=subprocess.PIPE, text=True)
    if told.returncode:
        sys.exit(f"the tests do not pass, so what they cover says nothing:\n{told.stdout}")
    coverage = Coverage(data_file=str(data), config_file=str(ROOT / "pyproject.toml"))
    coverage.load()
    return coverage


def gaps(coverage: Coverage, part: str, folder: Path) -> Iterator[Gap]:
    """What a part's own tests leave out of it. What a module does when it is imported, no test does."""
    report, modules = folder / "report.json", modules_of(part)
    contexts = [f"^{re.escape(test)}(/|::)" for test in tests_of(part)]
    coverage.json_report(outfile=str(report), include=modules, contexts=["^$", *contexts])
    found = json.loads(report.read_text(encoding="utf-8"))["files"]
    for module in modules:
        lines = found.get(module)
        if lines is None:
            yield Gap(module, [0], [])
        elif lines["missing_lines"] or lines["missing_branches"]:
            yield Gap(module, lines["missing_lines"], lines["missing_branches"])


def unmeasured() -> list[str]:
    """Modules that no part names."""
    named = {module for part in [*PARTS, *VALUES] for module in modules_of(part)}
    every = {str(path.relative_to(ROOT)) for package in PACKAGES for path in ROOT.joinpath(package).rglob("*.py")}
    return sorted(module for module in every - named if not module.endswith("__init__.py"))


def pragmas() -> list[str]:
    """Every line that is left out on purpose, with its reason."""
    return [
        f"{path.relative_to(ROOT)}:{number}: {match[1] or 'WITHOUT A REASON'}"
        for package in PACKAGES
        for path in sorted(ROOT.joinpath(package).rglob("*.py"))
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1)
        if (match := PRAGMA.search(line))
    ]


def main(wanted: list[str]) -> int:
    """Measure the parts, all of them where none is named."""
    parts = [name for name in PARTS if not wanted or name in wanted]
    missing = 0
    with tempfile.TemporaryDirectory() as folder, chdir(ROOT):
        coverage = measured(parts, Path(folder))
        for part in parts:
            left_out = list(gaps(coverage, part, Path(folder)))
            missing += len(left_out)
            print(f"{part}: {'whole' if not left_out else 'missing'}", flush=True)
            for gap in left_out:
                print(f"  {gap.module}: lines {gap.lines or '-'}, branches {gap.branches or '-'}", flush=True)
    for module in unmeasured():
        missing += 1
        print(f"{module}: no part names it")
    for line in pragmas():
        missing += "WITHOUT A REASON" in line
        print(line)
    print(f"{len(parts)} parts, {missing} with something missing")
    return 1 if missing else 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", choices=[[], *PARTS])
    sys.exit(main(parser.parse_args().parts))
