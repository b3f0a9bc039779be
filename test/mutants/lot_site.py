# SPDX-License-Identifier: BSD-3-Clause
"""Where drawn defects are built and looked for: a copy of the tree and of its build folder, which is seen at the
tree's own path in a mount namespace of this process, so that nothing has to be compiled for it. One process owns
it; the checkout is never written.

An object is compiled as its own command says but for -Werror. Its time stays what it was, so that ninja believes
it; what is linked of it is removed instead, and made again by ninja for those tests that are run."""

import collections
import hashlib
import os
import re
import resource
import signal
import subprocess
import time

from folder import DRIVEN_BY, OTHERS, SETTINGS, SKIPPED, suites
from ninja_graph import Graph

DRIVERS = {**DRIVEN_BY, "hca": (*DRIVEN_BY["hca"], "uverbs"), "cm": ("rdmacm",)}    # whose tests drive a room
ELSEWHERE = {    # rooms whose tests lie in no folder of their name
    "drivers/mlx5": "test/mlx5", "drivers/connect": "test/mlx5", "drivers/compat": "test/compat", "app/cli": "test/app/cli",
    "drivers/net/kilim": "test/net", "drivers/attach": "test/net", "app/testpmd": "test/net",
    "lib/kilim/detail/app": "test/net", "lib/kilim/detail/capture": "test/net", "drivers/vhca/api": "test/install"}
LEFT_OUT = {"long", "style", "tidy", "callgrind", "perf", "install"}
TIMES = 10              # of a clean run: what takes longer hangs
LEAST_SECONDS = 20      # of that limit
BUILD_SECONDS = 1200
MOST_MEMORY = 6 << 30   # a defect may ask for all there is
MOST_FILE = 4 << 30

Clean = collections.namedtuple("Clean", "seconds")


def contents(path):
    """What is in an object, without where and when it was made: its sections and relocations."""
    done = subprocess.run(["objdump", "-sr", path], capture_output=True, check=True)
    text = b"\n".join(done.stdout.split(b"\n")[3:])
    return hashlib.sha256(re.sub(rb"Contents of section \.comment:\n(?: .*\n)*", b"", text)).hexdigest()


def limits():
    resource.setrlimit(resource.RLIMIT_DATA, (MOST_MEMORY, MOST_MEMORY))
    resource.setrlimit(resource.RLIMIT_FSIZE, (MOST_FILE, MOST_FILE))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def run(words, cwd, seconds, env=None):
    """Its exit status, None where it took too long, and what it said. No child of it is left."""
    process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                               text=True, errors="replace", start_new_session=True, cwd=cwd, preexec_fn=limits,
                               env={**os.environ, **SETTINGS, **(env or {})})
    try:
        text = process.communicate(timeout=seconds)[0]
        return process.returncode, text
    except subprocess.TimeoutExpired:
        return None, ""
    finally:
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        process.wait()


def mirror_of(folder):
    """Where the tests of a room lie."""
    if folder in ELSEWHERE:
        return ELSEWHERE[folder]
    parts = [p for p in folder.split("/") if p != "detail"]
    if folder.startswith("drivers/vhca/"):
        return f"test/vhca/{parts[2]}"
    return f"test/kilim/{parts[2]}" if folder.startswith("lib/kilim/") else "test/interop"


class Site:
    """The copy at work. `root` and `build` are paths inside of the namespace."""

    def __init__(self, root, build):
        self.root, self.build = root, build
        self.graph = Graph(build)
        self.hashes = {}       # of clean objects
        self.clean = {}        # by test: how long it takes, None where it does not pass

    def tests(self):
        return [t for t in self.graph.tests if not suites(t) & LEFT_OUT and t["name"] not in OTHERS]

    def lies_in(self, test, folder):
        places = tuple(os.path.join(top, folder) + "/" for top in (self.root, self.build))
        return any(os.path.normpath(w).startswith(places) for w in test["cmd"])

    def circles(self, file):
        """Tests by nearness: of the room, called like the file, of rooms that drive it, of the device's users, others."""
        folder = os.path.dirname(file)
        stem = re.compile(rf"(^|_| ){re.escape(os.path.basename(file).split('.')[0])}\b")
        drivers = [f"test/vhca/{room}" for room in DRIVERS.get(os.path.basename(folder), ())]
        users = ["test/vhca/verbs"] if "vhca" in folder else ["test/golden"]
        asked = (lambda t: self.lies_in(t, mirror_of(folder)), lambda t: stem.search(t["name"]),
                 lambda t: any(self.lies_in(t, d) for d in drivers), lambda t: any(self.lies_in(t, u) for u in users),
                 lambda t: True)
        left, circles = self.tests(), []
        for question in asked:
            circles.append([t for t in left if question(t)])
            left = [t for t in left if t not in circles[-1]]
        return circles

    # Building.

    def link(self, outputs):
        """By ninja; what it said where it failed."""
        code, text = run(["ninja", "-C", self.build, "-j1", *sorted(outputs)], self.root, BUILD_SECONDS)
        return None if code == 0 else text

    def compile(self, output):
        """One object. What the compiler said where it refused."""
        path = os.path.join(self.build, output)
        before = os.stat(path)
        command = re.sub(r" -Werror(?:=\S+)?", "", self.graph.commands[output]) + " -w"
        done = subprocess.run(["sh", "-c", command], cwd=self.build, capture_output=True, text=True,
                              env={**os.environ, **SETTINGS})
        if os.path.exists(path):
            os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
        return None if done.returncode == 0 else done.stdout + done.stderr

    def remove(self, outputs):
        for name in outputs:
            path = os.path.join(self.build, name)
            if os.path.isfile(path) and not name.endswith((".o", ".gch")):
                os.remove(path)

    # Tests.

    def passes(self, test, seconds):
        """True, False, or None where it takes longer."""
        code, _ = run(test["cmd"], test["workdir"] or self.build, seconds, test["env"])
        return None if code is None else code in (0, SKIPPED)

    def try_clean(self, test):
        """How long it takes without a defect; None: it does not pass, or is skipped."""
        key = test["name"], tuple(test["cmd"])
        if key not in self.clean:
            if self.link(self.graph.needs(test)) is not None:
                self.clean[key] = None
                return None
            start = time.monotonic()
            code, _ = run(test["cmd"], test["workdir"] or self.build, 3 * test["timeout"] or None, test["env"])
            self.clean[key] = Clean(time.monotonic() - start) if code == 0 else None
        return self.clean[key]

    def fails(self, test):
        """Twice: what fails once on a busy machine has noticed nothing."""
        limit = max(LEAST_SECONDS, TIMES * self.try_clean(test).seconds)
        return all(self.passes(test, limit) is not True for _ in range(2))


class Trial:
    """One defect in the copy, from its first object to putting it right."""

    def __init__(self, site, defect, end):
        self.site, self.defect, self.end = site, defect, end
        self.path = os.path.join(site.root, defect.file)
        self.compiled = {}      # whether the object differs
        self.saved = {}
        self.linked = set()
        self.objects = set(site.graph.objects_of(self.path))

    def __enter__(self):
        with open(self.path, "rb") as f:
            self.right = f.read()
        self.times = os.stat(self.path)
        d = self.defect
        self.write(self.right[:d.begin] + d.now.encode() + self.right[d.end:])
        return self

    def write(self, data):
        with open(self.path, "wb") as f:
            f.write(data)
        os.utime(self.path, ns=(self.times.st_atime_ns, self.times.st_mtime_ns))

    def __exit__(self, *_):
        self.write(self.right)
        for output, (data, times) in self.saved.items():
            path = os.path.join(self.site.build, output)
            with open(path, "wb") as f:
                f.write(data)
            os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
        self.site.remove(self.linked)

    def differs(self, output):
        """Whether this object is another one with the defect; a text where it does not compile."""
        if output in self.compiled:
            return self.compiled[output]
        path = os.path.join(self.site.build, output)
        with open(path, "rb") as f:
            self.saved[output] = f.read(), os.stat(path)
        if output not in self.site.hashes:
            self.site.hashes[output] = contents(path)
        refused = self.site.compile(output)
        self.compiled[output] = refused or contents(path) != self.site.hashes[output]
        return self.compiled[output]

    def meets(self, test):
        """"killed", "unchanged" (nothing that the test runs differs), "passed", "late", or what the compiler said."""
        needs = self.site.graph.needs(test)
        below = [o for o in sorted(self.objects) if self.site.graph.made_of(o) & needs]
        changed = set()
        for output in below:    # of a header these may be hundreds
            if time.monotonic() > self.end:
                return "late"
            differs = self.differs(output)
            if isinstance(differs, str):
                return differs
            if differs:
                changed.add(output)
        if not changed:
            return "unchanged"
        above = set().union(*(self.site.graph.made_of(o) for o in changed))
        stale = above - self.linked
        self.site.remove(stale)
        self.linked |= stale
        if (text := self.site.link(needs)) is not None:
            return text
        return "killed" if self.site.fails(test) else "passed"


def verdict(site, defect, reach, seconds):
    """(outcome, by whom). `reach`: circles of tests that are asked, each timed without the defect first."""
    end, met, compiled = time.monotonic() + seconds, False, False
    for circle in site.circles(defect.file)[:reach]:
        timed = [(clean.seconds, t["name"], t) for t in circle if (clean := site.try_clean(t))]
        with Trial(site, defect, end) as trial:
            for _, name, test in sorted(timed, key=lambda row: row[:2]):
                found = trial.meets(test)
                if found == "late":
                    return "out of time", ""
                if found == "killed":
                    return "killed", name
                if found not in ("passed", "unchanged"):
                    return ("killed", "a static assertion") if "static assertion failed" in found else \
                        ("does not compile", found[-300:])
                met = met or found == "passed"
            compiled = compiled or bool(trial.compiled)
    if met:
        return "survived", ""
    return ("same code", "") if compiled else ("no test runs it", "")
