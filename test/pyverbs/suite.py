# SPDX-License-Identifier: BSD-3-Clause
"""Runs rdma-core's suite on the virtual adapter and judges it by the manifest: columns id, tier,
expected (PASS, NOTYET:reason or EXCLUDED:reason; a reason that begins with "fails" is that of a
test which does not skip yet where it should). Each module of the suite has a process of its
own. usertools/run-pyverbs.sh prepares the files and calls this.

A test fails the run if it was expected to pass and did not, skipped included; if it failed where it
should have skipped; if it is not in the manifest, or not in the suite."""

import argparse
import json
import os
import subprocess
import sys

MODULE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "module.py")
SECONDS = 60                      # of one module; the slowest takes a few
EXCLUDED_TIER = "X"


def read_manifest(path):
    """[(id, tier, expected)]; what is malformed raises ValueError."""
    rows = []
    with open(path, encoding="utf-8") as f:
        for number, line in enumerate(f, 1):
            if line.startswith("#") or not line.strip():
                continue
            row = tuple(line.rstrip("\n").split("\t"))
            kind, _, reason = row[2].partition(":") if len(row) == 3 else ("", "", "")
            if kind != "PASS" and (kind not in ("NOTYET", "EXCLUDED") or not reason):
                raise ValueError(f"{path}:{number}: id, tier, PASS or NOTYET:why or EXCLUDED:why")
            if (kind == "EXCLUDED") != (row[1] == EXCLUDED_TIER):
                raise ValueError(f"{path}:{number}: excluded tests, and only they, are of tier X")
            rows.append(row)
    if len({r[0] for r in rows}) != len(rows):
        raise ValueError(f"{path}: a test is listed twice")
    return rows


def suite_ids(folder):
    """Every test that the files define."""
    code = ("import unittest\n"
            "from args_parser import parser\n"
            "parser.parse_args()\n"
            "import tests\n"
            "def walk(s):\n"
            "    for t in s:\n"
            "        yield from walk(t) if isinstance(t, unittest.TestSuite) else [t.id()]\n"
            "print('\\n'.join(walk(unittest.defaultTestLoader.loadTestsFromModule(tests))))\n")
    out = subprocess.run([sys.executable, "-c", code], env=environment(folder), check=True,
                         capture_output=True, text=True, timeout=SECONDS).stdout
    return set(out.split())


def environment(folder):
    more = {"PYTHONPATH": folder + ":" + folder + "/tests", "PYTHONDONTWRITEBYTECODE": "1"}
    return dict(os.environ, **more)


def run_module(args, ids):
    """{id: (how, why)} of tests of one module."""
    results = os.path.join(args.files, "results")
    open(results, "w", encoding="utf-8").close()
    words = [args.launcher, "--seed", str(args.seed), "--", sys.executable, MODULE, results,
             str(args.seed), *ids]
    with open(os.path.join(args.files, "output"), "w+b") as output:
        process = subprocess.Popen(words, env=environment(args.files), stdin=subprocess.DEVNULL,
                                   stdout=output, stderr=output, start_new_session=True)
        try:
            ended = f"the process ended with {process.wait(SECONDS)}"
        except subprocess.TimeoutExpired:
            ended = f"hung for {SECONDS} seconds"
        try:
            os.killpg(process.pid, 9)   # whatever the tests started
        except ProcessLookupError:
            pass
        process.wait()
        output.seek(0)
        said = output.read().decode(errors="replace")[-2000:]
    return dict({i: ("error", f"never ran: {ended}\n{said}") for i in ids},
                **read_results(results, f"{ended}\n{said}"))


def read_results(path, ended):
    """The last word on each test; a failure is never taken back by a later word."""
    found = {}
    with open(path, encoding="utf-8") as f:
        for line in f:
            test, how, why = json.loads(line)
            if how == "started":
                found[test] = ("error", ended)
            elif found[test][0] != "fail" and (found[test][0] != "error" or
                                               found[test][1] == ended):
                found[test] = (how, why)
    return found


def judge(expected, how):
    """(what to say or None, whether it fails the run)"""
    kind = expected.split(":")[0]
    if kind == "PASS":
        return (None, False) if how == "pass" else (f"{how}, should pass", True)
    if how == "skip" or (how != "pass" and expected.startswith("NOTYET:fails")):
        return None, False
    if how == "pass":
        return f"passes, the manifest says {kind}", False
    return f"{how}, should skip", True


def report(rows, got, verbose):
    """Prints what the run says: how many tests fail it, and {tier: [passed, all]}."""
    failed, counts = 0, {}
    for test, tier, expected in rows:
        how, why = got[test]
        count = counts.setdefault(tier, [0, 0])
        count[0] += how == "pass"
        count[1] += 1
        what, fails = judge(expected, how)
        failed += fails
        last = why.strip().splitlines()[-1:] or [""]
        if what:
            print(f"{test}: {what}: {last[0]}")
        if verbose and how != "pass":
            print(f"    {test}: {how}: " + why.strip().replace("\n", "\n    "))
    for tier, (passed, number) in counts.items():
        print(f"tier {tier}: {passed}/{number}")
    return failed, counts


def options(words):
    p = argparse.ArgumentParser(allow_abbrev=False)
    p.add_argument("--launcher", required=True)
    p.add_argument("--files", required=True)
    p.add_argument("--manifest", required=True)
    p.add_argument("--tier", action="append", default=[])
    p.add_argument("--seed", type=int, default=0)
    p.add_argument("--quick", action="store_true")
    p.add_argument("--verbose", action="store_true")
    return p.parse_args(words)


def main(words):
    args = options(words)
    rows = read_manifest(args.manifest)
    different = suite_ids(args.files) ^ {r[0] for r in rows}
    for test in sorted(different):
        print(f"{test}: either not in the suite or not in the manifest")
    everything, reachable = len(rows), sum(r[1] != EXCLUDED_TIER for r in rows)
    if args.tier:
        rows = [r for r in rows if r[1] in args.tier]
    if args.quick:
        rows = [r for r in rows if r[2] == "PASS"]
    modules = {}
    for test, _, _ in rows:
        modules.setdefault(test.split(".")[1], []).append(test)
    got = {}
    for ids in modules.values():
        got.update(run_module(args, ids))
    failed, counts = report(rows, got, args.verbose)
    passed = sum(c[0] for c in counts.values())
    print(f"pyverbs: {passed}/{everything}, "
          f"{passed - counts.get(EXCLUDED_TIER, [0])[0]}/{reachable}")
    return 1 if failed or different or not rows else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
