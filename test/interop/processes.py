# SPDX-License-Identifier: BSD-3-Clause
"""What a test does to a program and all that it started: the launcher stays beside its command."""

import contextlib
import os
import signal


def family(pid):
    """It, then what it started, parents first."""
    found = [pid]
    for one in found:
        with open(f"/proc/{one}/task/{one}/children", encoding="ascii") as f:
            found += map(int, f.read().split())
    return found


def kill_family(pid):
    for one in family(pid):
        os.kill(one, signal.SIGKILL)


@contextlib.contextmanager
def halted(pid):
    """They do nothing meanwhile: what is sent waits for them, and they find it at once."""
    found = family(pid)
    for one in found:
        os.kill(one, signal.SIGSTOP)
    try:
        yield
    finally:
        for one in reversed(found):
            os.kill(one, signal.SIGCONT)
