# SPDX-License-Identifier: BSD-3-Clause
"""Builds each defect of mutants.toml by itself and looks who notices.

Usage: mutants.py check ROOT                       the table fits the sources
       mutants.py run ROOT WORK [--minutes N] [--near-only] [--own-only] [NAME...]

A copy of the tree is changed, built in one incremental folder below WORK and put right again. Our
own tests come in the order of nearness: those of the file's own room, of its users, all others; the
first that fails ends it. Beside them, for defects of the adapter, rdma-core's own suite and
its ping-pongs are asked whether they alone would have noticed."""

import argparse
import collections
import json
import os
import re
import subprocess
import sys
import time
import tomllib

LEAST = 60             # defects in the table
WANTED = 95            # per cent of them that our own tests notice
OTHERS = ("pingpong",)  # tests that run programs of others and nothing else
OWN_SUITES = ("abi", "golden", "unit", "vhca", "e2e", "interop")    # in this order
SECONDS = 900          # of one step; a defect that hangs everything ends there
BUILD_SECONDS = 3600   # of the first build
FIELDS = {"name", "what", "file", "was", "now", "equivalent"}
COPIED = ("app", "doc", "drivers", "examples", "lib", "test", "usertools", "meson.build",
          "meson_options.txt")

Mutant = collections.namedtuple("Mutant", "name what file was now equivalent", defaults=("",))


def table(root):
    with open(os.path.join(root, "test/mutants/mutants.toml"), "rb") as f:
        rows = tomllib.load(f)["mutant"]
    for row in rows:
        if not FIELDS - {"equivalent"} <= set(row) <= FIELDS:
            raise ValueError(f"{row.get('name')}: fields are {sorted(FIELDS)}")
    return [Mutant(**row) for row in rows]


def check(root):
    rows, faults = table(root), []
    names = collections.Counter(m.name for m in rows)
    faults += [f"{name}: listed {n} times" for name, n in names.items() if n > 1]
    if len(rows) < LEAST:
        faults.append(f"{len(rows)} defects, at least {LEAST} are wanted")
    for m in rows:
        with open(os.path.join(root, m.file), encoding="utf-8") as f:
            n = f.read().count(m.was)
        if n != 1:
            faults.append(f"{m.name}: its text is {n} times in {m.file}: change the table too")
        if m.was == m.now:
            faults.append(f"{m.name}: changes nothing")
    for fault in faults:
        print(fault)
    print(f"{len(rows)} defects, {len(faults)} faults")
    return 1 if faults else 0


def files_of(top, part):
    if os.path.isfile(os.path.join(top, part)):
        return [part]
    return [os.path.relpath(os.path.join(folder, name), top)
            for folder, dirs, names in os.walk(os.path.join(top, part)) for name in names
            if "__pycache__" not in folder]


def write_if_new(path, data, mode):
    """Whether it had to be written: what is unchanged is not compiled again."""
    try:
        with open(path, "rb") as f:
            if f.read() == data:
                return
    except FileNotFoundError:
        os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as f:
        f.write(data)
    os.chmod(path, mode)


def copy_tree(root, tree):
    wanted = {name for part in COPIED for name in files_of(root, part)}
    for name in sorted(wanted):
        source = os.path.join(root, name)
        with open(source, "rb") as f:
            write_if_new(os.path.join(tree, name), f.read(), os.stat(source).st_mode & 0o777)
    if os.path.isdir(tree):
        for part in COPIED:
            for name in files_of(tree, part):
                if name not in wanted:
                    os.remove(os.path.join(tree, name))


class Folder:
    """The copy and its build."""

    def __init__(self, root, work):
        self.root, self.tree = root, os.path.join(work, "tree")
        self.build = os.path.join(work, "build")
        copy_tree(root, self.tree)
        if not os.path.exists(os.path.join(self.build, "build.ninja")):
            self.must(["meson", "setup", self.build, self.tree, "-Dbuildtype=debugoptimized",
                       "-Doptimization=1", "-Dwerror=false"])
        self.must(["ninja", "-C", self.build, "build.ninja"])   # there may be new tests
        self.tests = json.loads(self.must(["meson", "introspect", self.build, "--tests"]))
        targets = json.loads(self.must(["meson", "introspect", self.build, "--targets"]))
        self.files = {t["id"]: t["filename"] for t in targets}

    def run(self, words, seconds=SECONDS):
        """Its exit status (None: it did not end in time) and what it said."""
        process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                   stderr=subprocess.STDOUT, text=True, errors="replace",
                                   start_new_session=True, cwd=self.tree,
                                   env=dict(os.environ, KILIM_FIRST_FAILURE="1"))
        try:
            said = process.communicate(timeout=seconds)[0]
            return process.returncode, said
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, 9)
            return None, process.communicate()[0]

    def must(self, words):
        done = subprocess.run(words, capture_output=True, text=True, cwd=self.root)
        if done.returncode != 0:
            raise SystemExit(f"{' '.join(words)}\n{done.stdout[-3000:]}{done.stderr[-1000:]}")
        return done.stdout

    def suites(self, test):
        return {s.split(":")[-1] for s in test["suite"]}

    def own(self):
        return [t for t in self.tests
                if self.suites(t) & set(OWN_SUITES) and t["name"] not in OTHERS
                and "long" not in self.suites(t)]

    def circles(self, file):
        """Tests in the order of nearness: those that lie where the file's room has its mirror or are
        called like the file, then those of the room's users."""
        parts = file.split("/")
        # Queues are driven by the transport's tests.
        room = "transport" if parts[2] == "wq" else parts[2]
        mirrors = {"drivers/vhca": f"test/vhca/{room}/", "lib/kilim": f"test/kilim/{parts[2]}/",
                   "drivers/mlx5": "test/mlx5/", "app/vhca": "test/interop/launcher_test.py"}
        mirror = self.below(mirrors.get("/".join(parts[:2]), f"test/{parts[1]}/"))
        namesake = re.compile(rf"(^|_){parts[-1].split('.')[0]}\b")
        mirror += [t for t in self.own() if namesake.search(t["name"]) and t not in mirror]
        users = self.below("test/vhca/verbs/") if parts[1] == "vhca" else []
        return mirror, [t for t in users if t not in mirror]

    def below(self, place):
        marks = tuple(os.path.join(top, place) for top in (self.build, self.tree))
        return [t for t in self.own()
                if any(os.path.normpath(w).startswith(marks) for w in t["cmd"])]

    def built(self, tests):
        """Whether what the tests need compiles; what the compiler said."""
        needed = {os.path.relpath(f, self.build) for t in tests for d in t["depends"]
                  for f in self.files.get(d, [])}
        needed |= {os.path.relpath(w, self.build) for t in tests for w in t["cmd"]
                   if w.startswith(self.build + "/") and os.path.dirname(w) != self.build}
        known = {os.path.relpath(f, self.build) for files in self.files.values() for f in files}
        if not needed & known:
            return True, ""
        code, said = self.run(["ninja", "-C", self.build, *sorted(needed & known)], BUILD_SECONDS)
        return code == 0, said

    def first_failure(self, tests):
        """The name of a test that fails, None where all pass."""
        for suite in OWN_SUITES:    # a name may occur in several
            names = sorted({t["name"] for t in tests if suite in self.suites(t)})
            while names:
                failed = self.failure_of(suite, names)
                if failed is None:
                    break
                # Twice, the second time by itself: a busy machine has noticed nothing.
                if failed == "hang" or self.failure_of(suite, [failed]):
                    return failed
                names = [n for n in names if n != failed]
        return None

    def failure_of(self, suite, names):
        code, said = self.run(["meson", "test", "-C", self.build, "--no-rebuild", "--maxfail", "1",
                               "--suite", suite, *names])
        if code == 0:
            return None
        found = re.search(r" / (\S[^\n]*?) +(?:FAIL|TIMEOUT|ERROR)", said)
        if code is not None and not found:
            raise SystemExit(f"no test failed, and yet:\n{said[-3000:]}")
        return found.group(1) if found else "hang"

    def noticed_by_suite(self):
        words = ["usertools/run-pyverbs.sh", "--quick", "--build", self.build]
        return self.run(words)[0] != 0

    def noticed_by_pingpongs(self):
        return self.first_failure([t for t in self.tests if t["name"] in OTHERS]) is not None


def is_of_adapter(m):
    return m.file.startswith(("drivers/vhca/", "lib/kilim/prm/", "lib/kilim/base/"))


class BadDefect(Exception):
    """It does not compile: the table is wrong."""


class Broken:
    """The copy with the defect in it; put right at the end."""

    def __init__(self, folder, m):
        self.path = os.path.join(folder.tree, m.file)
        with open(self.path, encoding="utf-8") as f:
            self.right = f.read()
        self.wrong = self.right.replace(m.was, m.now)

    def write(self, text):
        with open(self.path, "w", encoding="utf-8") as f:
            f.write(text)

    def __enter__(self):
        self.write(self.wrong)

    def __exit__(self, *_):
        self.write(self.right)


def try_one(folder, m, near_only, own_only):
    """Who of ours notices, and whether the others alone would: (test, suite, ping-pongs)."""
    with Broken(folder, m):
        killer = None
        for tests in (*folder.circles(m.file), [] if near_only else folder.own()):
            good, said = folder.built(tests)
            if not good:
                wrong = re.search(r"error: (static assertion failed[^\n]*)", said)
                if not wrong:
                    raise BadDefect(f"{m.name} does not compile:\n{said[-2000:]}")
                killer = "abi"  # a fact that is checked when it is compiled
            killer = killer or folder.first_failure(tests)
            if killer:
                break
        suite = pingpongs = None
        if killer != "abi" and is_of_adapter(m) and not (near_only or own_only):
            folder.built([t for t in folder.tests if t["name"] in (*OTHERS, "pyverbs")])
            suite, pingpongs = folder.noticed_by_suite(), folder.noticed_by_pingpongs()
    return killer, suite, pingpongs


def word(noticed):
    return {None: "-", True: "yes", False: "no"}[noticed]


def run(root, o):
    end = time.monotonic() + o.minutes * 60
    rows = [m for m in table(root) if not o.names or m.name in o.names]
    if unknown := set(o.names) - {m.name for m in rows}:
        raise SystemExit(f"no such defect: {' '.join(sorted(unknown))}")
    folder = Folder(root, os.path.abspath(o.work))
    start = folder.own()
    if o.near_only:
        start = [t for m in rows for circle in folder.circles(m.file) for t in circle]
    good, said = folder.built(start)
    if not good or (bad := folder.first_failure(start)):
        raise SystemExit(f"without any defect: {bad if good else said[-2000:]}")
    print(f"{'defect':28} {'noticed by':28} {'pyverbs':8} {'pingpongs':9}  what it is", flush=True)
    killed, survivors, wrong, counts = 0, [], [], collections.Counter()
    done = 0
    for m in rows:
        if time.monotonic() > end:
            break
        done += 1
        try:
            killer, suite, pingpongs = try_one(folder, m, o.near_only, o.own_only)
        except BadDefect as bad:
            wrong.append(str(bad))
            continue
        counts.update(suite=suite is True, pingpongs=pingpongs is True, asked=suite is not None)
        print(f"{m.name:28} {killer or ('nobody can' if m.equivalent else 'NOBODY'):28} "
              f"{word(suite):8} {word(pingpongs):9}  {m.what}", flush=True)
        if m.equivalent:
            if killer:
                wrong.append(f"{m.name}: is said to be equivalent, and {killer} noticed it")
        elif killer:
            killed += 1
        else:
            survivors.append(m.name)
    for fault in wrong:
        print(fault)
    if done < len(rows):
        print(f"{len(rows) - done} defects were not tried in {o.minutes} minutes")
    print(f"of {counts['asked']} in the adapter: pyverbs alone {counts['suite']}, "
          f"the ping-pongs alone {counts['pingpongs']}")
    total = killed + len(survivors)
    print(f"mutants: {killed}/{total} killed by our own tests")
    enough = total > 0 and killed * 100 >= WANTED * total
    return 0 if enough and not wrong and done == len(rows) else 1


def main():
    words = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    words.add_argument("mode", choices=("check", "run"))
    words.add_argument("root")
    words.add_argument("work", nargs="?")
    words.add_argument("--minutes", type=int, default=240)
    words.add_argument("--near-only", action="store_true")
    words.add_argument("--own-only", action="store_true")
    words.add_argument("names", nargs="*", default=[])
    o = words.parse_intermixed_args()
    root = os.path.abspath(o.root)
    if o.mode == "check":
        return check(root)
    return run(root, o)


if __name__ == "__main__":
    sys.exit(main())
