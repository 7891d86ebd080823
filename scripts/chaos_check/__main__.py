"""Judge the logs of a folder: one JSON line with the counts, and each fault in words on standard error.

python -m scripts.chaos_check FOLDER
"""

import json
import sys
from pathlib import Path

from scripts.chaos_check.account import judge
from scripts.chaos_check.reading import read

SHOWN = 50


def main() -> None:
    """Read, judge, print."""
    if len(sys.argv) != 2:
        sys.exit("usage: python -m scripts.chaos_check FOLDER")
    account = judge(read(Path(sys.argv[1])))
    for fault in account.faults[:SHOWN]:
        print(fault, file=sys.stderr)
    print(json.dumps(account.counts()))


if __name__ == "__main__":
    main()
