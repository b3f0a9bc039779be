#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Scripts that build for minutes say how far they are: each second on a terminal, now and then in a pipe.

Usage: run_progress.py SOURCE_ROOT"""

import os
import pty
import shutil
import subprocess
import sys
import tempfile

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


def on_a_terminal(*words, **kwargs):
    """What these words write to stderr, which is a terminal."""
    master, slave = pty.openpty()
    done = subprocess.run(words, stdout=subprocess.PIPE, stderr=slave, timeout=60, check=False, **kwargs)
    os.close(slave)
    said = b""
    try:
        while part := os.read(master, 4096):
            said += part
    except OSError:   # nobody has it open any more
        pass
    os.close(master)
    return done, said.decode()


def quickstart(root):
    """The whole quickstart.sh, with a build of three steps that fails: it has told how far it was each second."""
    with tempfile.TemporaryDirectory() as place:
        tools = os.path.join(place, "usertools")
        os.mkdir(tools)
        for name in ("quickstart.sh", "prepare.sh"):
            shutil.copy(os.path.join(root, "usertools", name), tools)
        for name, text in (("packages.txt", ""), ("precompile.py", "#!/bin/sh\n")):
            with open(os.path.join(tools, name), "w", encoding="ascii") as f:
                f.write(text)
            os.chmod(os.path.join(tools, name), 0o755)
        ninja = '() { for i in 1 2 3; do echo "[$i/3] Compiling x"; sleep 1.2; done; return 1\n}'
        env = os.environ | {"BASH_FUNC_ninja%%": ninja, "BASH_FUNC_meson%%": "() { :\n}", "TMPDIR": place}
        done, said = on_a_terminal("bash", os.path.join(tools, "quickstart.sh"), env=env)
    assert done.returncode == 1 and done.stdout == b"building a release into build/\n", (done, said)
    for step in ("\r\033[K  building build/: 1 of 3, 0:0", "\r\033[K  building build/: 3 of 3, 0:0",
                 "quickstart: the build failed"):
        assert step in said, (step, said)


def main(root):
    piped = run(root, "folder", capture_output=True, text=True)
    assert piped.stdout == "before\nbuilt\n", piped
    assert piped.stderr == "  building folder/: 2 of 3, 0:02 min\n", piped
    wrong = run(root, "wrong", capture_output=True, text=True)
    assert wrong.stdout == "before\nfailed\n", wrong
    done, said = on_a_terminal("bash", "-c", SCRIPT, os.path.join(root, "usertools/x.sh"), "folder", cwd=root)
    assert done.returncode == 0, done
    lines = said.split("\r\033[K")
    assert lines[0] == "" and lines[-1] == "" and "\n" not in said, lines
    assert len(lines) >= 4 and lines[1].startswith("  building folder/: 1 of 3, 0:0"), lines
    quickstart(root)


if __name__ == "__main__":
    main(sys.argv[1])
