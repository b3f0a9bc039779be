# SPDX-License-Identifier: BSD-3-Clause
"""One fault of each kind for check_commands.py, which has to report it, beside commands without a fault."""

import os
import tempfile

import commands


class Tree:
    """As check_commands.Tree, without a build."""
    programs = {"app/kilim-perf", "app/kilim-vhca", "test/x_y_tests"}
    quick = {"app/kilim-perf"}
    tests, suites, settings = {"binder", "two words"}, {"unit"}, {"buildtype"}

    def exists(self, path):
        return path.removeprefix("build/") in self.programs | {"usertools/check.sh", "usertools/", "app/"}

    def help(self, path):
        return {"build/app/kilim-testpmd": "--no-pci  -l LCORES", "build/app/kilim-perf": "-d, --ib-dev=DEV",
                "build/app/kilim-vhca": "--devices N"}.get(path, "--quick")

    root = "/"


GOOD = ("meson test -C build -t 3 --suite unit binder 'two words'", "build/app/", "cat /dev/null | sort  # --none",
        "build/app/kilim-perf --no-pci -l 0 -- umr -d vhca0,wire=unix:x", "usertools/check.sh --quick; true",
        "P='build/app/kilim-perf --no-pci' W=$(mktemp -d)\n$P -- umr -d x,wire=unix:$W &\nwait",
        "build/app/kilim-vhca --devices 2 -- build/app/kilim-perf --no-pci", "KILIM_X=1 build/app/kilim-perf",
        "valgrind --tool=callgrind \\\n  build/app/kilim-perf -- umr --ib-dev=x", "build/test/x_y_tests -l",
        "cat x.cc $(cat --flags y) -o out   # it's", "meson setup out -Dbuildtype=release")
# (command, a part of what must be said)
SEEDS = (("meson test -C build no_test", "no test no_test"), ("meson test --suite none", "no suite none"),
         ("build/app/kilim-gone", "no build/app/kilim-gone"), ("usertools/gone.sh", "no usertools/gone.sh"),
         ("true && usertools/check.sh --slow", "no option --slow"), ("no-such-program-at-all", "no program no-such"),
         ("build/app/kilim-perf --ib-dev=x -- umr", "no option --ib-dev"),   # EAL has none
         ("build/app/kilim-perf -- umr --no-pci", "no option --no-pci"),
         ("build/app/kilim-vhca --devices 2 -- usertools/gone.sh", "no usertools/gone.sh"),
         ("true\nP='usertools/check.sh --slow'\n$P", "x.md:3: check.sh has no option --slow"),
         ("meson setup out -Dbuildtype=release -Dgone=1", "no build option gone"),
         ("cat $(usertools/gone.sh)", "no usertools/gone.sh"), ("echo 'open", "no shell reads this"))
DOCUMENT = """# Title
```sh run
true
```
Text with `usertools/check.sh
--slow` and `other words`.
```cpp
build/app/none
```
"""


def found(checker, text):
    return list(checker.faults_of(Tree(), [commands.Block("x.md", 1, text)]))


def run(checker):
    wrong = [f"reported: {text}: {found(checker, text)}" for text in GOOD if found(checker, text)]
    for text, words in SEEDS:
        if not any(words in fault for fault in found(checker, text)):
            wrong.append(f"not reported: {text}; came instead: {found(checker, text)}")
    blocks = list(commands.blocks_of("x.md", DOCUMENT)) + list(commands.spans_of("x.md", DOCUMENT))
    if [(b.line, b.text, b.runs) for b in blocks] != [(3, "true\n", True), (5, "usertools/check.sh --slow", False)]:
        wrong.append(f"of a document: {[(b.line, b.text, b.runs) for b in blocks]}")
    runs = commands.Block("x.md", 1, "build/app/kilim-perf\nbuild/app/kilim-vhca", ["run"])
    if list(checker.faults_of(Tree(), [runs])) != ["x.md:2: README's first command does not build build/app/kilim-vhca"]:
        wrong.append("a block that runs names what is not built")
    with tempfile.TemporaryDirectory() as folder:
        os.mkdir(os.path.join(folder, "doc"))
        cases = [commands.Block("x.md", 1, text) for text in ("ls doc build/doc", "true\nfalse\ntrue", "echo $NONE")]
        failed = [block.text for block, _ in checker.run_blocks(folder, folder, cases)]
        if failed != ["true\nfalse\ntrue", "echo $NONE"]:
            wrong.append(f"of blocks that run failed {failed}")
    print("\n".join(wrong))
    print(f"{len(GOOD) + len(SEEDS) + 3} cases, {len(wrong)} faults")
    return 1 if wrong else 0
