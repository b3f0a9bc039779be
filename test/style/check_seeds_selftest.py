# SPDX-License-Identifier: BSD-3-Clause
"""check_seeds.py on tables and programs made for it: what passes, what is a fault and with which
words, what only an ordinary user may skip; and that nothing stale is asked."""

import os
import sys
import tempfile

SCRIPT = """#!/bin/sh
case $1 in
-l) printf '%s\\n' good bad unlucky ;;
--suites) exit 1 ;;
good) ;;
unlucky) echo "needs a blue moon" && exit 77 ;;
*) echo "it broke" && exit 1 ;;
esac
"""
NEEDS_ROOT = "#!/bin/sh\necho 'needs root: nobody else may'\nexit 77\n"
SUITES = """#!/bin/sh
case $1-$2-$3 in
--suites--) printf '%s\n' one two ;;
--suite-one--l | --suite-two--l) echo shared ;;
--suite-two-shared) ;;
*) echo "it broke" && exit 1 ;;
esac
"""
BROKEN = "#!/bin/sh\necho 'no such device' >&2\nexit 2\n"

# (a row's file and case, whether one may skip, words that a fault or skip has; None: it passes)
ROWS = (
    ("a.cc", "good", True, None),
    ("a.cc", "bad", True, "it broke"),
    ("a.cc", "goo", True, 'a.cc has no case "goo"'),
    ("a.cc", "", True, "no case"),
    ("a.cc", "unlucky", True, "skipped: needs a blue moon"),
    ("a.cc", "unlucky", False, "root skips nothing, and this is skipped: needs a blue moon"),
    ("two.cc", "shared", True, None),
    ("one.cc", "shared", True, "it broke"),
    ("two.cc", "other", True, 'two.cc has no case "other"'),
    ("root.cc", "good", True, "skipped: needs root: nobody else may"),
    ("root.cc", "good", False, "root skips nothing"),
    ("broken.cc", "good", True, "broken.cc lists no cases: no such device"),
    ("gone.cc", "good", True, "not built into any program"),
)


def judge(seeds, known, row):
    path, case, may_skip, words = row
    one = seeds.Seeds(f"| A1 | a statement | same | {path} | {case} |\n", known, may_skip)
    passed, _ = one.run()
    said = one.faults + one.skipped
    skips = words is not None and words.startswith("skipped")
    if words is None:
        return passed == 1 and not said
    return passed == 0 and len(said) == 1 and words in said[0] and bool(one.skipped) == skips


def stale(seeds, folder):
    """Whether a program is made anew before it is asked, and a build that fails is told."""
    with open(os.path.join(folder, "build.ninja"), "w", encoding="utf-8") as f:
        f.write("rule copy\n  command = cp $in $out\nbuild program: copy source\n"
                "rule fail\n  command = echo wrong && false\nbuild bad: fail source\n")
    source, program = (os.path.join(folder, name) for name in ("source", "program"))
    for text in ("one", "two"):
        with open(source, "w", encoding="utf-8") as f:
            f.write(text)
        os.utime(source, (2e9, 2e9 + len(text)) if text == "two" else (1e9, 1e9))
        if seeds.bring_up_to_date(folder, ["program"]):
            return False
        with open(program, encoding="utf-8") as f:
            if f.read() != text:
                return False
    return "wrong" in seeds.bring_up_to_date(folder, ["bad"])


def main(root):
    sys.dont_write_bytecode = True
    sys.path.insert(0, os.path.join(root, "usertools"))
    import check_seeds as seeds
    wrong = []
    with tempfile.TemporaryDirectory() as folder:
        known = {"gone.cc": os.path.join(folder, "gone"), "two.cc": os.path.join(folder, "one")}
        for name, text in (("a", SCRIPT), ("one", SUITES), ("root", NEEDS_ROOT), ("broken", BROKEN)):
            path = os.path.join(folder, name)
            known[name + ".cc"] = path
            with open(path, "w", encoding="utf-8") as f:
                f.write(text)
            os.chmod(path, 0o755)
        wrong += [str(row) for row in ROWS if not judge(seeds, known, row)]
        if not stale(seeds, folder):
            wrong.append("what is stale was not built")
    for line in wrong:
        print(line)
    print(f"{len(ROWS) + 1 - len(wrong)} passed, {len(wrong)} failed")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
