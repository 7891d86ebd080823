"""Stands between us and a program that we run: whatever happens to us, nothing that the program started stays running.

Run as a script of its own, by its path: `warden.py PARENT PROGRAM [ARGUMENT ...]`, PARENT being the process id of whoever
starts it. The program has the warden's standard streams. The warden takes in every process that the program leaves behind,
also one with a session of its own, and kills all of them when the program has ended, when it is told to stop, and, told by the
kernel, when its parent dies. It exits as the program did.

It knows nothing of the rest of foldline, so that it starts in a moment and in any environment. Linux.
"""

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
from pathlib import Path
from types import FrameType

PR_SET_PDEATHSIG = 1  # prctl(2): the signal that the kernel sends this process when its parent dies
PR_SET_CHILD_SUBREAPER = 36  # prctl(2): orphans below this process become its children
NOT_STARTED = 127  # as shells say it
STOPS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


class _StopError(Exception):
    """Told to stop."""


def main(parent: int, command: list[str]) -> int:
    """Run the program to its end; then end what it left."""
    prctl = ctypes.CDLL(None, use_errno=True).prctl

    def tie() -> None:
        prctl(PR_SET_PDEATHSIG, signal.SIGKILL)

    code = -signal.SIGTERM
    try:
        for number in STOPS:
            signal.signal(number, _stop)
        prctl(PR_SET_CHILD_SUBREAPER, 1)
        prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
        if os.getppid() != parent:  # it died before the line above: nobody would tell us any more
            return code
        program = subprocess.Popen(command, preexec_fn=tie)  # noqa: S603, PLW1509  the operator's command; no threads here
        _leave_streams()
        code = program.wait()
    except OSError as error:
        sys.stderr.write(f"{command[0]}: {error.strerror}\n")
        code = NOT_STARTED
    except _StopError:
        pass
    _deafen()
    _end_all()
    return code


def _stop(number: int, frame: FrameType | None) -> None:  # noqa: ARG001  every handler is called so
    _deafen()
    raise _StopError


def _deafen() -> None:
    """Nothing may interrupt the ending."""
    for number in STOPS:
        signal.signal(number, signal.SIG_IGN)


def _leave_streams() -> None:
    """The streams are the program's alone: its end must be theirs."""
    nothing = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(nothing, stream)
    os.close(nothing)


def _end_all() -> None:
    """Kill every child until there is none: the orphans of a killed one are the next."""
    while True:
        for child in _children():
            with contextlib.suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)
        try:
            os.waitpid(-1, 0)
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return


def _children() -> list[int]:
    """The processes whose parent this one is; adopted ones among them.

    Asked of the kernel's own list where there is one: a program whose processes fork and leave faster than all of them can be looked
    through would never end.
    """
    with contextlib.suppress(OSError):
        return [int(word) for word in Path(f"/proc/self/task/{os.getpid()}/children").read_bytes().split()]
    mine = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                stat = (entry / "stat").read_bytes()
                if int(stat.rpartition(b")")[2].split()[1]) == os.getpid():
                    mine.append(int(entry.name))
    return mine


if __name__ == "__main__":
    ended = main(int(sys.argv[1]), sys.argv[2:])
    sys.exit(ended if ended >= 0 else 128 - ended)
