#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Scripts that build for minutes say how far they are: each second on a terminal, now and then in a pipe.
And they end when they are told to.

Usage: run_progress.py SOURCE_ROOT"""

import os
import pty
import shutil
import subprocess
import sys
import tempfile
import time

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


def copied(root, place, *names):
    """Scripts of usertools in a tree of their own, which wants no packages."""
    tools = os.path.join(place, "usertools")
    os.mkdir(tools)
    for name in (*names, "prepare.sh"):
        shutil.copy(os.path.join(root, "usertools", name), tools)
    with open(os.path.join(tools, "packages.txt"), "w", encoding="ascii"):
        pass
    return tools


def words_for(place, ninja):
    """Meson that does nothing and a ninja of these words, for a script that is run in this environment."""
    return os.environ | {"BASH_FUNC_ninja%%": "() { " + ninja + "\n}", "BASH_FUNC_meson%%": "() { :\n}", "TMPDIR": place}


def quickstart(root):
    """The whole quickstart.sh, with a build of three steps that fails: it has told how far it was each second."""
    with tempfile.TemporaryDirectory() as place:
        tools = copied(root, place, "quickstart.sh")
        env = words_for(place, 'for i in 1 2 3; do echo "[$i/3] Compiling x"; sleep 1.2; done; return 1')
        done, said = on_a_terminal("bash", os.path.join(tools, "quickstart.sh"), env=env)
    assert done.returncode == 1 and done.stdout == b"building a release into build/\n", (done, said)
    for step in ("\r\033[K  building build/: 1 of 3, 0:0", "\r\033[K  building build/: 3 of 3, 0:0",
                 "quickstart: the build failed"):
        assert step in said, (step, said)


def killed(root):
    """check.sh, killed while it builds, ends at once and gives hugepages back: bash would wait for the build."""
    with tempfile.TemporaryDirectory() as place:
        tools = copied(root, place, "check.sh", "check_report.py")
        huge = os.path.join(place, "huge")
        os.mkdir(huge)
        for name in ("nr_hugepages", "free_hugepages"):
            with open(os.path.join(huge, name), "w", encoding="ascii") as f:
                f.write("3\n")
        path = os.path.join(tools, "prepare.sh")
        with open(path, encoding="utf-8") as f:
            text = f.read().replace("HUGE=/sys/kernel/mm/hugepages/hugepages-2048kB", "HUGE=" + huge)
        with open(path, "w", encoding="utf-8") as f:
            f.write(text)
        env = words_for(place, "[ -f $TMPDIR/building ] || { : > $TMPDIR/building; exec sleep 30; }")
        job = subprocess.Popen(["bash", os.path.join(tools, "check.sh"), "--quick"], env=env, stdout=subprocess.DEVNULL,
                               stderr=subprocess.DEVNULL)
        until = time.monotonic() + 20
        while not os.path.exists(os.path.join(place, "building")) and time.monotonic() < until:
            time.sleep(0.1)
        with open(os.path.join(huge, "nr_hugepages"), encoding="ascii") as f:
            assert f.read() == "128\n" or os.getuid() != 0, "it reserved hugepages"
        begun = time.monotonic()
        job.terminate()
        code = job.wait(timeout=60)
        seconds = time.monotonic() - begun
        with open(os.path.join(huge, "nr_hugepages"), encoding="ascii") as f:
            assert f.read() == "3\n", "it gives them back"
        assert code == 130 and seconds < 10, (code, seconds)


def orphaned(root):
    """Who tells how far a script is ends with it, even if another process has got the script's number."""
    subprocess.run(["bash", "-c", ". usertools/prepare.sh; tick work /dev/null 1", os.path.join(root, "usertools/x.sh")],
                   cwd=root, timeout=20, check=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


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
    killed(root)
    orphaned(root)


if __name__ == "__main__":
    main(sys.argv[1])
