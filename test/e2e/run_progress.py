#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Scripts that build for minutes say how far they are: each second on a terminal, now and then in a pipe.

Usage: run_progress.py SOURCE_ROOT"""

import os
import pty
import subprocess
import sys

# A build of three steps, which prints as ninja does, and what the script makes of it.
SCRIPT = """. usertools/prepare.sh
ninja() { for i in 1 2 3; do echo "[$i/3] Compiling x"; sleep 1.2; done; [ "$2" != wrong ]; }
progress_every=2
echo before
build "$1" all && echo built || echo failed
sleep 1.5   # nothing more is said
"""


def run(root, folder, **kwargs):
    return subprocess.run(["bash", "-c", SCRIPT,
                           os.path.join(root, "usertools/x.sh"), folder], cwd=root, timeout=60, check=True, **kwargs)


def main(root):
    piped = run(root, "folder", capture_output=True, text=True)
    assert piped.stdout == "before\nbuilt\n", piped
    assert piped.stderr == "  building folder/: 2 of 3, 0:02 min\n", piped
    wrong = run(root, "wrong", capture_output=True, text=True)
    assert wrong.stdout == "before\nfailed\n", wrong
    master, slave = pty.openpty()
    run(root, "folder", stdout=subprocess.PIPE, stderr=slave)
    os.close(slave)
    said = b""
    try:
        while part := os.read(master, 4096):
            said += part
    except OSError:   # nobody has it open any more
        pass
    os.close(master)
    lines = said.decode().split("\r\033[K")
    assert lines[0] == "" and lines[-1] == "" and "\n" not in said.decode(), lines
    assert len(lines) >= 4 and lines[1].startswith("  building folder/: 1 of 3, 0:0"), lines


if __name__ == "__main__":
    main(sys.argv[1])
