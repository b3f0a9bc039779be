# SPDX-License-Identifier: BSD-3-Clause
"""Runs rdma-core's suite on the virtual adapter and judges it by the manifest: columns id, tier,
expected (PASS, NOTYET:reason or EXCLUDED:reason; a reason that begins with "fails" is that of a
test which does not skip yet where it should), then words for what the test is about: the work that
the device's journal must show (work.py), profile=NAME for another adapter than the usual one, and
"shared" for tests whose processes meet on one adapter, by the address of its network interface.
Each module of the suite has a process of its own, as many at a time as there are processors.
usertools/run-pyverbs.sh prepares the files and calls this. With KILIM_FIRST_FAILURE in the
environment no module is begun after a failure, and nothing is told but that there was one.

A test fails the run if it was expected to pass and did not, skipped included; if it passed and the
device did not do the work; if it failed where it should have skipped; if it is not in the manifest,
or not in the suite."""

import argparse
import collections
import concurrent.futures
import json
import os
import subprocess
import sys
import tempfile

import crypto_info
import work

MODULE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "module.py")
SECONDS = 60                      # of one module; the slowest takes a few
EXCLUDED_TIER = "X"
USUAL = "cx6dx"                   # profile
# Of the launcher: as on a machine with one card whose port has an address.
SHARED = ("--shared", "--pci", "--sysfs", "mount", "--ip", "198.18.7.1/24")

Row = collections.namedtuple("Row", "test tier expected work profile shared",
                             defaults=("", USUAL, False))


def read_row(columns, where):
    kind, _, reason = columns[2].partition(":") if 3 <= len(columns) <= 4 else ("", "", "")
    if kind != "PASS" and (kind not in ("NOTYET", "EXCLUDED") or not reason):
        raise ValueError(f"{where}: id, tier, PASS or NOTYET:why or EXCLUDED:why")
    if (kind == "EXCLUDED") != (columns[1] == EXCLUDED_TIER):
        raise ValueError(f"{where}: excluded tests, and only they, are of tier X")
    row = Row(*columns[:3])
    for word in (columns[3] if len(columns) == 4 else "").split():
        if word.startswith("profile="):
            row = row._replace(profile=word.partition("=")[2])
        elif word == "shared":
            row = row._replace(shared=True)
        elif word in work.KINDS and not row.work:
            row = row._replace(work=word)
        else:
            raise ValueError(f"{where}: no such work: {word}")
    return row


def read_manifest(path):
    """Its rows; what is malformed raises ValueError."""
    rows = []
    with open(path, encoding="utf-8") as f:
        for number, line in enumerate(f, 1):
            if line.startswith("#") or not line.strip():
                continue
            rows.append(read_row(line.rstrip("\n").split("\t"), f"{path}:{number}"))
    if len({r.test for r in rows}) != len(rows):
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


def environment(folder, own=None):
    """For the suite's files in `folder`; devices of other runs are not met in the folder `own`."""
    more = {"PYTHONPATH": folder + ":" + folder + "/tests", "PYTHONDONTWRITEBYTECODE": "1",
            "MLX5_CRYPTO_TEST_INFO": os.path.join(folder, "crypto.json")}
    return dict(os.environ, **more, **({"XDG_RUNTIME_DIR": own} if own else {}))


def run_module(args, profile, shared, ids):
    """{id: (how, why, seen)} of tests of one module."""
    with tempfile.TemporaryDirectory(dir=args.files) as folder:
        options = ["--profile", profile, *(SHARED if shared else ())]
        return run_module_in(folder, args, options, ids)


def run_module_in(folder, args, options, ids):
    results, journal = os.path.join(folder, "results"), os.path.join(folder, "journal.json")
    open(results, "w", encoding="utf-8").close()
    words = [args.launcher, "--seed", str(args.seed), *options, "--journal", journal,
             "--", sys.executable, MODULE, results, journal, str(args.seed), *ids]
    with open(os.path.join(folder, "output"), "w+b") as output:
        process = subprocess.Popen(words, env=environment(args.files, folder),
                                   stdin=subprocess.DEVNULL, stdout=output, stderr=output,
                                   start_new_session=True)
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
    return dict({i: ("error", f"never ran: {ended}\n{said}", {}) for i in ids},
                **read_results(results, f"{ended}\n{said}"))


def read_results(path, ended):
    """The last word on each test; a failure is never taken back by a later word."""
    found = {}
    with open(path, encoding="utf-8") as f:
        for line in f:
            test, how, why, seen = json.loads(line)
            if how == "started":
                found[test] = ("error", ended, {})
            elif found[test][0] != "fail" and (found[test][0] != "error" or
                                               found[test][1] == ended):
                found[test] = (how, why, seen)
    return found


def counted(row, got):
    """What a result is worth: a pass without the work that the test is about is none."""
    how, why, seen = got
    lacks = work.missing(row.work, seen) if how == "pass" and row.work else []
    return ("idle", "the device's journal shows " + ", ".join(lacks)) if lacks else (how, why)


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
    for row in rows:
        how, why = counted(row, got[row.test])
        count = counts.setdefault(row.tier, [0, 0])
        count[0] += how == "pass"
        count[1] += 1
        what, fails = judge(row.expected, how)
        failed += fails
        last = why.strip().splitlines()[-1:] or [""]
        if what:
            print(f"{row.test}: {what}: {last[0]}")
        if verbose and how != "pass":
            print(f"    {row.test}: {how}: " + why.strip().replace("\n", "\n    "))
        if verbose and how == "pass":
            seen = " ".join(f"{k}={v}" for k, v in got[row.test][2].items() if v)
            print(f"    {row.test}: pass: {seen}")
    for tier, (passed, number) in counts.items():
        print(f"tier {tier}: {passed}/{number}")
    return failed, counts


def any_fails(rows, got):
    return any(judge(row.expected, counted(row, got[row.test])[0])[1]
               for row in rows if row.test in got)


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
    crypto_info.main(os.path.join(args.files, "crypto.json"))
    different = suite_ids(args.files) ^ {r.test for r in rows}
    for test in sorted(different):
        print(f"{test}: either not in the suite or not in the manifest")
    everything, reachable = len(rows), sum(r.tier != EXCLUDED_TIER for r in rows)
    if args.tier:
        rows = [r for r in rows if r.tier in args.tier]
    if args.quick:
        rows = [r for r in rows if r.expected == "PASS"]
    modules = {}
    for row in rows:
        modules.setdefault((row.profile, row.shared, row.test.split(".")[1]), []).append(row.test)
    got = {}
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        runs = [pool.submit(run_module, args, m[0], m[1], ids) for m, ids in modules.items()]
        for run in concurrent.futures.as_completed(runs):
            got.update(run.result())
            if "KILIM_FIRST_FAILURE" in os.environ and any_fails(rows, got):
                pool.shutdown(cancel_futures=True)
                print("pyverbs: a test failed")
                return 1
    failed, counts = report(rows, got, args.verbose)
    passed = sum(c[0] for c in counts.values())
    print(f"pyverbs: {passed}/{everything}, "
          f"{passed - counts.get(EXCLUDED_TIER, [0])[0]}/{reachable}")
    return 1 if failed or different or not rows else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
