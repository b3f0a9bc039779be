#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""usertools/check_report.py counts what it should: a failure, a timeout, a skip that nobody named,
a stage that broke and a whole check over its limit each make the check fail.
Usage: check_report_selftest.py ROOT"""

import json
import os
import subprocess
import sys
import tempfile

# (what, stage, exit code, seconds, results of its tests, expected last line, expected exit code); a
# stage "quick x" is stage x of a quick check, "beside x" stage x while another runs.
CASES = (
    ("all well", "unit", 0, 9, ("OK", "OK"), "2 passed, 0 failed, 0 skipped", 0),
    ("a stage without tests", "build", 0, 9, (), "1 passed, 0 failed, 0 skipped", 0),
    ("a failure", "unit", 1, 9, ("OK", "FAIL"), "1 passed, 1 failed, 0 skipped", 1),
    ("a timeout", "unit", 1, 9, ("TIMEOUT",), "0 passed, 1 failed, 0 skipped", 1),
    ("an error", "unit", 1, 9, ("ERROR",), "0 passed, 1 failed, 0 skipped", 1),
    ("an unexpected pass", "unit", 1, 9, ("UNEXPECTEDPASS",), "0 passed, 1 failed, 0 skipped", 1),
    ("a skip that nobody named", "unit", 0, 9, ("OK", "SKIP"), "1 passed, 1 failed, 0 skipped", 1),
    ("a broken build", "build", 1, 9, (), "0 passed, 1 failed, 0 skipped", 1),
    ("a run that ended early", "unit", 1, 9, ("OK",), "1 passed, 1 failed, 0 skipped", 1),
    ("a part over budget, which is told", "e2e", 0, 241, ("OK",), "1 passed, 0 failed, 0 skipped", 0),
    ("a whole check over budget, which is told", "else", 0, 45 * 60 + 1, (), "1 passed, 0 failed, 0 skipped", 0),
    ("a whole check over its limit", "else", 0, 75 * 60 + 1, (), "1 passed, 1 failed, 0 skipped", 1),
    ("a whole check within it", "else", 0, 45 * 60 - 1, (), "1 passed, 0 failed, 0 skipped", 0),
    ("two stages at a time, which take it once", "beside else", 0, 45 * 60, (), "2 passed, 0 failed, 0 skipped", 0),
    ("a quick one over it", "quick else", 0, 601, (), "1 passed, 1 failed, 0 skipped", 1),
    ("a long one, which has none", "long else", 0, 9999, (), "1 passed, 0 failed, 0 skipped", 0),
)


def main(root):
    bad = 0
    for what, stage, code, seconds, results, line, expected in CASES:
        with tempfile.TemporaryDirectory() as folder:
            mode = stage.split()[0] if " " in stage else "normal"
            base = os.path.join(folder, "11-" + stage.split()[-1])
            files = {base + ".ended": f"{code} 0 {seconds} 100 alone", base + ".out": "said\n"}
            if mode == "beside":
                other = os.path.join(folder, "51-tidy")
                files |= {other + ".ended": f"0 0 {seconds} {seconds * 100 * os.cpu_count()} beside", other + ".out": ""}
            for path, text in files.items():
                with open(path, "w", encoding="utf-8") as f:
                    f.write(text)
            if results:
                with open(base + ".json", "w", encoding="utf-8") as f:
                    for i, r in enumerate(results):
                        f.write(json.dumps({"name": f"kilim:unit / t{i}", "result": r,
                                            "stdout": "", "stderr": ""}) + "\n")
            done = subprocess.run([sys.executable, os.path.join(root, "usertools/check_report.py"),
                                   "all", folder], capture_output=True, text=True, check=False,
                                  env=os.environ | {"KILIM_CHECK": "normal" if mode == "beside" else mode})
        said = done.stdout.splitlines()[-1]
        named = sum(text.startswith("failed: ") for text in done.stdout.splitlines())
        if f", {named} failed," not in line:
            print(f"{what}: {named} named as failed, expected `{line}`")
            bad += 1
        if said != line or done.returncode != expected:
            print(f"{what}: `{said}` and {done.returncode}, expected `{line}` and {expected}")
            bad += 1
    print(f"{len(CASES)} cases, {bad} wrong")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
