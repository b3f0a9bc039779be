#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Draws small defects by lot, builds each by itself in a copy of the tree and of
its build folder, and looks which test notices it. What is not noticed is a gap
in the tests; the rate by room goes into doc/design/tests.md.

Usage: lot.py [--build FOLDER] [--seed N] [--count N] [--room NAME]...
         [--changed-since REF] [--near] [--list] [--minutes N] [--each SECONDS]
         [--results FILE] [--again] [--write] [--mark NAME] [--density]

  --build FOLDER       a folder whose tests are built (build)
  --seed N             another seed draws other defects (1)
  --count N            of each room; unless said 40, 20 or 15, by the room
  --room NAME          a room of doc/layers.txt, or its last word (all)
  --changed-since REF  only in files that git says have changed since then
  --near               only tests of the room, those called like the file, and
                       of rooms that drive it: others may notice what lives
  --list               says what would be tried, and tries nothing
  --minutes N          stop after so long; the next run goes on from there (600)
  --each SECONDS       of tests for one defect (600)
  --results FILE       a line of JSON for each defect that was tried
                       (/var/tmp/kilim-lot-UID.jsonl); they are not tried again
  --again              tries them again
  --write              the table of all results of this seed goes into the page
  --mark NAME          the place there, "lot" unless said
  --density            prints checks by room, and ends

The copy lies in /var/tmp, and nothing of it is left. It needs a mount
namespace: root, or a kernel that lets users have one. Defects in
equivalent.toml of test/mutants are argued there to change nothing."""

import argparse
import datetime
import hashlib
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import tomllib

sys.dont_write_bytecode = True
ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(ROOT, "test/mutants"))
import defects  # noqa: E402
import lot_figures  # noqa: E402
import lot_site  # noqa: E402
from ninja_graph import Graph  # noqa: E402

MOST = {"burst", "port", "umr", "mkey", "drivers/net/kilim", "tpt", "exec", "ethernet", "transport", "hca", "uverbs", "cm"}
COPIES = "/var/tmp/kilim-lot-"
CIRCLES_NEAR, CIRCLES = 3, 5


def say(text):
    print(text, flush=True)


# Rooms and what is drawn of them.


def rooms():
    """[(name, folder)] of what a user runs, as doc/layers.txt lists them."""
    found = []
    with open(os.path.join(ROOT, "doc/layers.txt"), encoding="utf-8") as f:
        for line in f:
            if (m := re.match(r"!?([a-z0-9/]+) *:", line)) is None:
                continue
            name = m.group(1)
            folder = re.sub(r"^kilim/", "lib/kilim/", re.sub(r"^vhca/", "drivers/vhca/", name))
            if folder.startswith(("lib/", "drivers/", "app/")):
                found.append((name, folder))
    return found


def asked_rooms(names):
    known = rooms()
    chosen = [r for r in known if not names or r[0] in names or r[0].split("/")[-1] in names]
    missing = [n for n in names if all(n not in (r[0], r[0].split("/")[-1]) for r in known)]
    if missing:
        raise SystemExit(f"lot.py: there is no room {', '.join(missing)}; doc/layers.txt lists them")
    return chosen


def sample_of(name):
    if name in MOST or name.split("/")[-1] in MOST:
        return 40
    return 15 if name.startswith("app/") else 20


def changed_files(ref):
    done = subprocess.run(["git", "-C", ROOT, "diff", "--name-only", ref], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"lot.py: git does not know {ref}: {done.stderr.strip()}")
    return set(done.stdout.split())


class Draw:
    """Draws of one room: a file by its lines, a kind of defect that it has, one of these."""

    def __init__(self, graph, room, seed, only):
        self.graph, self.dice = graph, random.Random(f"{seed} {room[0]}")
        paths = [os.path.relpath(p, ROOT) for p in lot_figures.sources(os.path.join(ROOT, room[1]))]
        self.files = [p for p in paths if os.path.basename(p) != "hot.cc" and (only is None or p in only)]
        self.lines = [self.length(p) for p in self.files]
        self.found = {}     # by file

    @staticmethod
    def length(path):
        with open(os.path.join(ROOT, path), encoding="utf-8") as f:
            return sum(1 for line in f if line.strip() and not line.lstrip().startswith("//"))

    def of(self, file):
        if file not in self.found:
            path = os.path.join(ROOT, file)
            words = self.graph.arguments(path)
            found, read = defects.defects_of(path, file, words or [])
            if not read:
                say(f"{file}: clang does not read it; drawn by text")
            kinds = {}
            for d in found:
                kinds.setdefault(d.kind, []).append(d)
            self.found[file] = kinds
        return self.found[file]

    def some(self, count):
        drawn = []
        for _ in range(20 * count if self.files else 0):
            kinds = self.of(self.dice.choices(self.files, self.lines)[0])
            if kinds:
                d = self.dice.choice(kinds[self.dice.choice(sorted(kinds))])
                if d not in drawn:
                    drawn.append(d)
            if len(drawn) == count:
                break
        return drawn


def line_text(d):
    with open(os.path.join(ROOT, d.file), encoding="utf-8") as f:
        return f.read().splitlines()[d.line - 1].strip()


def key_of(d):
    """A defect is another one when its file is."""
    with open(os.path.join(ROOT, d.file), "rb") as f:
        return hashlib.sha256(f.read() + repr(d).encode()).hexdigest()[:24]


def equivalents():
    """{(file, line, was, now)} that are argued to change nothing."""
    with open(os.path.join(ROOT, "test/mutants/equivalent.toml"), "rb") as f:
        rows = tomllib.load(f).get("equivalent", [])
    for row in rows:
        if set(row) != {"file", "line", "was", "now", "why"} or len(row["why"]) < 20:
            raise SystemExit(f"equivalent.toml: {row}: a row has file, line, was, now, and why in a sentence")
    return {(r["file"], r["line"], r["was"], r["now"]) for r in rows}


def is_equivalent(d, known):
    return (d.file, line_text(d), d.was.strip(), d.now.strip()) in known


# Trying them.


def inside(plan_path):
    """In a namespace of its own: the copy takes the tree's place, and each defect of the plan is tried."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))    # what runs in the copy ends with this
    with open(plan_path, encoding="utf-8") as f:
        plan = json.load(f)
    subprocess.run(["mount", "--bind", plan["copy"], ROOT], check=True)
    os.chdir(ROOT)
    site = lot_site.Site(ROOT, plan["build"])
    end, reach = time.monotonic() + plan["minutes"] * 60, CIRCLES_NEAR if plan["near"] else CIRCLES
    with open(plan["results"], "a", encoding="utf-8") as out:
        for room, rows in plan["rooms"]:
            for row in rows:
                if time.monotonic() > end:
                    return say("the time is over; the next run goes on from here")
                try_row(site, room, defects.Defect(*row[1]), row[0], plan, reach, out)
    return None


def try_row(site, room, d, key, plan, reach, out):
    start = time.monotonic()
    outcome, by = lot_site.verdict(site, d, reach, plan["each"])
    row = {"key": key, "seed": plan["seed"], "room": room, "file": d.file, "line": d.line, "kind": d.kind, "was": d.was,
           "now": d.now, "outcome": outcome, "by": by, "seconds": round(time.monotonic() - start), "near": plan["near"]}
    out.write(json.dumps(row) + "\n")
    out.flush()
    say(f"{outcome:17} {by[:24] if outcome == 'killed' else '':24} {d.file}:{d.line}: {d.kind}: "
        f"{' '.join(d.was.split())[:60]} -> {' '.join(d.now.split())[:60]}")


def sweep():
    """Copies of runs that were killed."""
    for folder in (os.path.join("/var/tmp", n) for n in os.listdir("/var/tmp") if n.startswith("kilim-lot-")):
        pid = os.path.join(folder, "pid")
        if os.path.isfile(pid) and os.access(folder, os.W_OK):
            with open(pid, encoding="ascii") as f:
                if not os.path.exists(f"/proc/{f.read().strip()}"):
                    shutil.rmtree(folder, ignore_errors=True)


def copied(build, to):
    """The tree with this one build folder, times and all."""
    here = os.path.relpath(build, ROOT)
    for name in sorted(os.listdir(ROOT)):
        if name == ".git" or (name.startswith("build") and name != here):
            continue
        subprocess.run(["cp", "-a", "--reflink=auto", os.path.join(ROOT, name), to], check=True)


def tried(plan, build):
    sweep()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    with tempfile.TemporaryDirectory(prefix=os.path.basename(COPIES), dir="/var/tmp") as work:
        with open(os.path.join(work, "pid"), "w", encoding="ascii") as f:
            f.write(str(os.getpid()))
        plan["copy"] = os.path.join(work, "tree")
        os.mkdir(plan["copy"])
        copied(build, plan["copy"])
        with open(os.path.join(work, "plan"), "w", encoding="utf-8") as f:
            json.dump(plan, f)
        words = ["unshare", "-m" if os.geteuid() == 0 else "-rm", "--propagation", "private"]
        child = subprocess.Popen([*words, sys.executable, os.path.abspath(__file__), "--inside", os.path.join(work, "plan")])
        try:
            return child.wait()
        finally:
            child.terminate()
            child.wait()


def results_of(path):
    if not os.path.exists(path):
        return []
    with open(path, encoding="utf-8") as f:
        return [json.loads(line) for line in f if line.endswith("\n")]


def drawn_rooms(o, graph, done, known):
    """[(room, [(key, defect)])] that are left to try; what is argued to be equivalent counts as such."""
    only, plan = changed_files(o.changed_since) if o.changed_since else None, []
    for room in asked_rooms(o.room):
        rows = [(key_of(d), d) for d in Draw(graph, room, o.seed, only).some(o.count or sample_of(room[0]))]
        left = [(key, d) for key, d in rows if key not in done and not is_equivalent(d, known)]
        if rows:
            say(f"{room[0]}: {len(rows)} drawn, {len(rows) - len(left)} known already")
        plan.append((room[0], left))
    return plan


def told_equivalent(rows, known):
    """What was found out before somebody argued."""
    for row in rows:
        d = defects.Defect(row["file"], row["line"], row["kind"], 0, 0, row["was"], row["now"])
        path = os.path.join(ROOT, d.file)
        if row["outcome"] == "survived" and os.path.exists(path) and d.line <= len(open(path, encoding="utf-8").readlines()) \
                and is_equivalent(d, known):
            row["outcome"] = "equivalent"
    return rows


def report(o, known):
    rows = {r["key"]: r for r in results_of(o.results) if r["seed"] == o.seed}    # the last one counts
    names = {r[0] for r in asked_rooms(o.room)}
    mine = told_equivalent([r for r in rows.values() if r["room"] in names], known)
    if not mine:
        return
    near = ", tests near the room alone" if all(r["near"] for r in mine) else ""
    title = f"Seed {o.seed}, {datetime.date.today().isoformat()}{near}."
    text = lot_figures.table(mine, title) + "\n" + lot_figures.kinds(mine)
    say(text)
    if o.write:
        lot_figures.put(ROOT, o.mark, text)


def options():
    words = argparse.ArgumentParser(usage="lot.py, see --help")
    words.format_help = lambda: __doc__ + "\n"
    words.add_argument("--build", default=os.path.join(ROOT, "build"))
    words.add_argument("--results", default=f"{COPIES}{os.getuid()}.jsonl")
    for name, kind, least in (("--seed", int, 1), ("--count", int, 0), ("--minutes", float, 600), ("--each", float, 600)):
        words.add_argument(name, type=kind, default=least)
    words.add_argument("--room", action="append", default=[])
    words.add_argument("--changed-since", metavar="REF")
    words.add_argument("--mark", default="lot")
    words.add_argument("--inside", help=argparse.SUPPRESS)
    for flag in ("--near", "--list", "--again", "--write", "--density"):
        words.add_argument(flag, action="store_true")
    return words.parse_args()


def main():
    o = options()
    if o.inside:
        return inside(o.inside)
    if o.density:
        for name, lines, checks, by_hundred in lot_figures.density(ROOT, asked_rooms(o.room), lot_site.mirror_of):
            say(f"{name:18} {lines:6} lines {checks:6} checks {by_hundred:6.1f} by 100 lines")
        return 0
    build, known = os.path.realpath(o.build), equivalents()
    if not os.path.exists(os.path.join(build, "build.ninja")) or os.path.dirname(build) != os.path.realpath(ROOT):
        raise SystemExit(f"lot.py: {o.build} is no build folder of this tree; make one by usertools/check.sh --quick")
    done = set() if o.again else {r["key"] for r in results_of(o.results) if r["seed"] == o.seed}
    plan = drawn_rooms(o, Graph(build), done, known)
    if o.list:
        for room, rows in plan:
            for _, d in rows:
                say(f"{room:14} {d.file}:{d.line}: {d.kind}: {' '.join(d.was.split())[:70]} -> {' '.join(d.now.split())[:70]}")
        return 0
    code = 0
    if any(rows for _, rows in plan):
        code = tried({"rooms": plan, "build": build, "minutes": o.minutes, "each": o.each, "near": o.near, "seed": o.seed,
                      "results": os.path.abspath(o.results)}, build)
    report(o, known)
    return code


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
