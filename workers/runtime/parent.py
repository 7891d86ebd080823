"""Tying a child process's life to its parent's, so that nothing of ours stays running when a parent is killed.

The kernel does it (Linux): a dead parent can do nothing, and a child that only watched for it could be hung itself.
"""

import ctypes
import os
import signal
import sys
from collections.abc import Callable

_PR_SET_PDEATHSIG = 1  # prctl(2): the signal that the kernel sends this process when its parent dies


def die_with_parent(sig: signal.Signals) -> Callable[[], None] | None:
    """Return what a child runs before exec (`preexec_fn`) so that it gets `sig` when its parent dies; None where the system
    cannot. The kernel counts the death of the *thread* that started the child: start it on a thread that stays.
    """
    if not sys.platform.startswith("linux"):
        return None
    prctl = ctypes.CDLL(None, use_errno=True).prctl
    parent = os.getpid()

    def tie() -> None:
        prctl(_PR_SET_PDEATHSIG, int(sig))
        if os.getppid() != parent:  # it died between fork and prctl: nobody would tell us any more
            os.kill(os.getpid(), signal.SIGKILL)

    return tie
