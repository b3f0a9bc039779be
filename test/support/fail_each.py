#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Runs a program again and again, and lets one call of the C library fail each time: the first, the
second, and so on until the program makes no such call any more (failing_calls.hh says which calls).
Whichever it is, the program ends by itself: well, with what it prints anyhow, or with a sentence and a
status that is no signal's; it leaves nothing behind, and the next run goes well.

Usage: fail_each.py LIBRARY [--every N] [--only KIND[:N]] [--may-differ] -- PROGRAM [ARGUMENT]...

  --every N      only each Nth call; where KILIM_CHECK is "long", each
  --only KIND    memory, map, open, space or short (all); one call alone by KIND:N
  --may-differ   what it prints is another thing each time

Where an ARGUMENT has IN, a file of 20 packets stands there (usertools/pcap_file.py)."""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../usertools"))
import pcap_file  # noqa: E402

# By kind how many calls fail: where memory is short the next allocation is refused too, though something was given back
# (std::set_new_handler), and a disk stays full.
KINDS = {"memory": 2, "map": 1, "open": 1, "space": 100, "short": 1}
MOST_SECONDS = 60
# Of a shell's and of valgrind's conventions none: a signal's number, and 128 and a signal's number.
WORST_STATUS = 128
NO_MEMORY, SWEPT = "the process has no memory left: ask for less", "kilim-vhca"


class Runs:
    def __init__(self, library, words, folder, may_differ):
        self.library, self.words, self.folder, self.may_differ = library, words, folder, may_differ
        self.report = os.path.join(folder, "report")
        self.own = os.path.join(folder, "own")   # where what the program leaves would lie
        self.clean = None
        self.count = 0

    def run(self, failing):
        """(status, output, errors, where the call was that failed)"""
        shutil.rmtree(self.own, ignore_errors=True)
        os.mkdir(self.own, 0o700)
        if os.path.exists(self.report):
            os.unlink(self.report)
        env = {**os.environ, "XDG_RUNTIME_DIR": self.own, "TMPDIR": self.own}
        if failing:
            env |= {"LD_PRELOAD": self.library, "KILIM_FAIL": failing, "KILIM_FAIL_REPORT": self.report}
        self.count += 1
        with subprocess.Popen(self.words, cwd=self.own, env=env, text=True, errors="replace", stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE) as p:
            try:
                out, err = p.communicate(timeout=MOST_SECONDS)
            except subprocess.TimeoutExpired:
                p.kill()
                out, err = p.communicate()
                return None, out, err, self.place()
        return p.returncode, out, err, self.place()

    def place(self):
        if not os.path.exists(self.report):
            return ""
        with open(self.report, encoding="utf-8") as f:
            return " ".join(f.read().split())

    def left(self):
        return sorted(os.listdir(self.own))

    def fault(self, status, out, err):
        """What is wrong with how it ended; nothing: it is well."""
        if status is None:
            return f"it has not ended after {MOST_SECONDS} seconds"
        if status < 0 or status >= WORST_STATUS:
            return f"it was ended by a signal (status {status})"
        if "terminate called" in err or "Assertion" in err:
            return "it ended itself by an exception or an assertion"
        if status != 0 and not err.strip() and not out.strip():
            return f"it ended with status {status} and no word"
        if status == 0 and not self.may_differ and out != self.clean[0]:
            return f"it says that all went well, and prints {out[-200:]!r}"
        more = sorted(set(self.left()) - set(self.clean[1]))
        # What a device's folder is for nobody knows who ends at once; the next start sweeps it.
        if more and not (NO_MEMORY in err and all(name.startswith(SWEPT) for name in more)):
            return f"it leaves {more}"
        return ""


def one_kind(runs, kind, first, every, alone):
    """(faults, how many runs ended well, how many by a sentence)"""
    faults, well, refused, n = [], 0, 0, first
    while True:
        status, out, err, place = runs.run(f"{kind}:{n}x{KINDS[kind]}")
        if not place:
            break
        wrong = runs.fault(status, out, err)
        if kind == "short" and status != 0 and not wrong:
            wrong = f"a short read or write is no error, and it ended with status {status}"
        if wrong:
            last = (err.strip() or out.strip()).splitlines()[-1:]
            faults.append(f"{kind}:{n} at {place}: {wrong}; its last words: {last}")
            print(faults[-1], flush=True)
        well += status == 0 and not wrong
        refused += status != 0 and not wrong
        if alone:
            break
        n += every
    return faults, well, refused


def with_input(words, folder):
    path = os.path.join(folder, "in.pcap")
    pcap_file.make(path, 20)
    return [os.path.abspath(words[0]), *(re.sub(r"\bIN\b", path, w) for w in words[1:])]


def main():
    words = argparse.ArgumentParser(usage="fail_each.py, see --help")
    words.format_help = lambda: __doc__ + "\n"
    words.add_argument("library")
    words.add_argument("--every", type=int, default=1)
    words.add_argument("--only", default="")
    words.add_argument("--may-differ", action="store_true")
    words.add_argument("program", nargs="+")
    o = words.parse_args()
    every = 1 if os.environ.get("KILIM_CHECK") == "long" else o.every
    only, _, number = o.only.partition(":")
    if only and only not in KINDS:
        raise SystemExit(f"fail_each.py: --only={o.only}: must be one of {', '.join(KINDS)}")
    with tempfile.TemporaryDirectory(prefix="kilim-fail-") as folder:
        runs = Runs(os.path.abspath(o.library), with_input(o.program, folder), folder, o.may_differ)
        status, out, err, _ = runs.run("")
        if status != 0:
            raise SystemExit(f"fail_each.py: the program does not run without a failure: {status}: {err}")
        runs.clean = (out, runs.left())
        faults, ways = [], {}
        for kind in [only] if only else KINDS:
            wrong, well, refused = one_kind(runs, kind, int(number) if number else 1, every, bool(number))
            faults += wrong
            ways[kind] = well + refused
            print(f"{kind}: {well} ended well, {refused} with a sentence, {len(wrong)} faults", flush=True)
            status, out, err, _ = runs.run("")
            if runs.fault(status, out, err) or status != 0:
                faults.append(f"after {kind}: the next run does not go well: {status}: {err[-300:]}")
                print(faults[-1], flush=True)
        if sum(ways.values()) == 0 and not faults:
            raise SystemExit("fail_each.py: no call failed: the library was not loaded")
    print(f"{runs.count} runs, {len(faults)} faults")
    return 1 if faults else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
