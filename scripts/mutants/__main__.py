"""Plant each fault in a copy of the tree and show which test catches it.

python -m scripts.mutants                 # all of them; exit code 1 when one is not caught
python -m scripts.mutants --only NAME     # one, with the words of its tests
python -m scripts.mutants --markdown      # the table of tests/README.md
"""

import argparse
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from scripts.mutants import ledger_faults, worker_faults
from scripts.mutants.mutant import Mutant

ROOT = Path(__file__).resolve().parents[2]
MUTANTS: tuple[Mutant, ...] = (*ledger_faults.MUTANTS, *worker_faults.MUTANTS)
COPIED = ("ledger", "pipeline", "workers", "scripts", "tests", "pyproject.toml", "Procfile")
TESTS_FAILED = 1
"""pytest's exit code for exactly that; any other means that the tests did not run."""
LIMIT_S = 300


@dataclass(frozen=True)
class Result:
    """What became of one fault."""

    mutant: Mutant
    caught_by: str
    """The test that failed; empty when none did."""
    words: str
    seconds: float


def copy_tree(folder: Path) -> Path:
    """Copy what the tests need."""
    tree = folder / "tree"
    tree.mkdir(parents=True)
    for name in COPIED:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, tree / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy2(source, tree / name)
    return tree


def run_tests(tree: Path, tests: tuple[str, ...]) -> tuple[int, str]:
    """Run tests in a tree; pytest's exit code and words."""
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:randomly", "-p", "no:cacheprovider", "--tb=line"]
    try:
        told = subprocess.run(
            [*command, "-m", "not long", *tests],
            cwd=tree,
            capture_output=True,
            text=True,
            check=False,
            timeout=LIMIT_S,
        )
    except subprocess.TimeoutExpired:
        return TESTS_FAILED, f"FAILED {tests[0]} (did not end within {LIMIT_S} s)"
    return told.returncode, told.stdout + told.stderr


def plant(mutant: Mutant) -> Result:
    """Plant one fault in a copy of its own and run its tests. A test that fails without the fault catches nothing."""
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="foldline-mutant-") as name:
        tree = copy_tree(Path(name))
        target = tree / mutant.path
        sound = target.read_text(encoding="utf-8")
        target.write_text(mutant.applied(sound), encoding="utf-8")
        code, words = run_tests(tree, mutant.tests)
        caught_by = failed_test(words) if code == TESTS_FAILED else ""
        if caught_by:
            target.write_text(sound, encoding="utf-8")
            code, without = run_tests(tree, (caught_by.partition(" (")[0],))
            if code != 0:
                caught_by, words = "", f"{caught_by} fails without the fault, too:\n{without}"
    return Result(mutant, caught_by, words, time.monotonic() - began)


def failed_test(words: str) -> str:
    """The first test that pytest says has failed."""
    for line in words.splitlines():
        if line.startswith(("FAILED tests/", "ERROR tests/")):
            return line.split(" ", 1)[1].split(" - ")[0].strip()
    return ""


def as_markdown(results: list[Result]) -> str:
    """The table for the documentation."""
    lines = ["| fault | the rule that it breaks | caught by |", "|---|---|---|"]
    for result in results:
        test = result.caught_by.removeprefix("tests/").partition("[")[0] or "**nothing**"
        lines.append(f"| {result.mutant.name} | {result.mutant.breaks} | `{test}` |")
    return "\n".join(lines)


def main() -> None:
    """Plant, test, print."""
    parser = argparse.ArgumentParser(prog="python -m scripts.mutants", description=__doc__.partition("\n")[0])
    parser.add_argument("--only", help="the name of one fault")
    parser.add_argument("--markdown", action="store_true")
    parser.add_argument("--processes", type=int, default=2)
    options = parser.parse_args()
    chosen = [mutant for mutant in MUTANTS if options.only in (None, mutant.name)]
    if not chosen:
        sys.exit(f"no fault is named {options.only!r}; there are {', '.join(mutant.name for mutant in MUTANTS)}")
    results: list[Result] = []
    with ThreadPoolExecutor(options.processes) as pool:
        for result in pool.map(plant, chosen):
            results.append(result)
            if not options.markdown:
                caught = result.caught_by or "NOT CAUGHT"
                print(f"{result.mutant.name:<44} {result.seconds:5.1f} s  {caught}", flush=True)
            if options.only or not result.caught_by:
                print(result.words, file=sys.stderr)
    if options.markdown:
        print(as_markdown(results))
    missed = [result.mutant.name for result in results if not result.caught_by]
    print(f"{len(results) - len(missed)} of {len(results)} caught", file=sys.stderr)
    sys.exit(1 if missed else 0)


if __name__ == "__main__":
    main()
