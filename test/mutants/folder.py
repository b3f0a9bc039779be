# SPDX-License-Identifier: BSD-3-Clause
"""A copy of the tree, its incremental build, and its tests: where one defect after another is built
and looked for (mutants.py).

What costs time in one defect is compiling it: nothing is optimised, there is no debug information,
and where ccache is installed a file that is put right is not compiled again."""

import json
import os
import re
import signal
import subprocess

OTHERS = ("pingpong",)  # tests that run programs of others and nothing else
OWN_SUITES = ("abi", "golden", "unit", "vhca", "e2e", "interop")    # in this order
ENGINE = ("hca", "exec", "ethernet", "lint")
DRIVEN_BY = {"wq": ("transport",), "core": ENGINE, "memory": ENGINE,
             **{room: ENGINE for room in ENGINE}}
SKIPPED = 77           # exit status of a test that cannot run here
FEW = 2                # tests that are run one by one
SECONDS = 900          # of a run that has no limit of its own
BUILD_SECONDS = 3600   # of the first build
COPIED = ("app", "doc", "drivers", "examples", "lib", "test", "usertools", "meson.build",
          "meson_options.txt", "README.md", "LICENSE")
SETTINGS = {
    "KILIM_FIRST_FAILURE": "1",
    "MALLOC_PERTURB_": "165",   # `meson test` takes any; a test that fails has to fail again
    "CCACHE_SLOPPINESS": "pch_defines,time_macros",     # or it keeps nothing
}


def files_of(top, part):
    if os.path.isfile(os.path.join(top, part)):
        return [part]
    return [os.path.relpath(os.path.join(folder, name), top)
            for folder, dirs, names in os.walk(os.path.join(top, part)) for name in names
            if "__pycache__" not in folder]


def write_if_new(path, data, mode):
    """What is unchanged is not compiled again."""
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
    for part in COPIED:
        for name in files_of(tree, part):
            if name not in wanted:
                os.remove(os.path.join(tree, name))


def suites(test):
    return {s.split(":")[-1] for s in test["suite"]}


class Folder:
    """The copy and its build."""

    def __init__(self, root, work):
        self.root, self.tree = root, os.path.join(work, "tree")
        self.build = os.path.join(work, "build")
        copy_tree(root, self.tree)
        self.configure()
        self.tests = json.loads(self.must(["meson", "introspect", self.build, "--tests"]))
        targets = json.loads(self.must(["meson", "introspect", self.build, "--targets"]))
        self.files = {t["id"]: t["filename"] for t in targets}
        self.known = {os.path.relpath(f, self.build) for files in self.files.values() for f in files}

    def configure(self):
        if not os.path.exists(os.path.join(self.build, "build.ninja")):
            self.must(["rm", "-rf", self.build])
            self.must(["meson", "setup", self.build, self.tree, "-Dbuildtype=debugoptimized",
                       "-Doptimization=0", "-Ddebug=false", "-Dwerror=false"])
        self.must(["ninja", "-C", self.build, "build.ninja"])   # there may be new tests

    def run(self, words, seconds=SECONDS, cwd=None, **settings):
        """Its exit status (None: it did not end in time) and what it said."""
        process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                   stderr=subprocess.STDOUT, text=True, errors="replace",
                                   start_new_session=True, cwd=cwd or self.tree,
                                   env={**os.environ, **SETTINGS, **settings})
        try:
            said = process.communicate(timeout=seconds)[0]
            return process.returncode, said
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            return None, process.communicate()[0]

    def must(self, words):
        done = subprocess.run(words, capture_output=True, text=True, cwd=self.root)
        if done.returncode != 0:
            raise SystemExit(f"{' '.join(words)}\n{done.stdout[-3000:]}{done.stderr[-1000:]}")
        return done.stdout

    def own(self):
        return [t for t in self.tests
                if suites(t) & set(OWN_SUITES) and t["name"] not in OTHERS
                and "long" not in suites(t)]

    def named(self, name):
        return [t for t in self.own() if t["name"] == name]

    def circles(self, file):
        """Tests in the order of nearness: those that lie where the file's room has its mirror or are
        called like the file, then those of the room's users."""
        parts = [p for p in file.split("/") if p != "detail"]
        mirrors = {"drivers/vhca": f"test/vhca/{parts[2]}/", "lib/kilim": f"test/kilim/{parts[2]}/",
                   "drivers/mlx5": "test/mlx5/", "app/vhca": "test/interop/launcher_test.py"}
        mirror = self.below(mirrors.get("/".join(parts[:2]), f"test/{parts[1]}/"))
        if parts[1] == "vhca":    # rooms that are driven by the tests of others
            for room in DRIVEN_BY.get(parts[2], ()):
                mirror += [t for t in self.below(f"test/vhca/{room}/") if t not in mirror]
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
        if not needed & self.known:
            return True, ""
        code, said = self.run(["ninja", "-C", self.build, *sorted(needed & self.known)],
                              BUILD_SECONDS)
        return code == 0, said

    def fails(self, test):
        """Runs one test by itself, twice if need be and then with more time: a busy machine has
        noticed nothing. The program is started without `meson test`, which takes as long as most
        tests."""
        def failed(times):
            code = self.run(test["cmd"], times * test["timeout"] or None,
                            test["workdir"] or self.build, **test["env"])[0]
            return code not in (0, SKIPPED)
        return failed(1) and failed(3)

    def first_failure(self, tests):
        """The name of a test that fails, None where all pass."""
        if len(tests) <= FEW:
            return next((t["name"] for t in tests if self.fails(t)), None)
        for suite in OWN_SUITES:    # a name may occur in several
            left = {t["name"]: t for t in tests if suite in suites(t)}
            while left:
                failed = self.failure_of(suite, sorted(left))
                if failed is None:
                    break
                if self.fails(left.pop(failed)):
                    return failed
        return None

    def failure_of(self, suite, names):
        code, said = self.run(["meson", "test", "-C", self.build, "--no-rebuild", "--maxfail", "1",
                               "--suite", suite, *names], None)     # it ends each test in its time
        if code == 0:
            return None
        found = re.search(r" / (\S[^\n]*?) +(?:FAIL|TIMEOUT|ERROR)", said)
        if not found:
            raise SystemExit(f"no test failed, and yet:\n{said[-3000:]}")
        return found.group(1)

    def noticed_by_suite(self):
        words = ["usertools/run-pyverbs.sh", "--quick", "--build", self.build]
        return self.run(words)[0] != 0

    def noticed_by_pingpongs(self):
        return any(self.fails(t) for t in self.tests if t["name"] in OTHERS)
