#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""No comment opens with Of, The same, As, Those or Where: it is a sentence with a subject and a verb. How many are left in
each folder stands in comments.txt, which only shrinks.

Usage: check_comments.py ROOT [--write | --list FOLDER]   --write: takes lower numbers into comments.txt
       check_comments.py --selftest"""

import collections
import os
import re
import sys
import tempfile

import source

FOLDERS = ("lib", "drivers", "app", "examples", "test")
LEFT = "test/style/comments.txt"
OPENS = re.compile(r"//+ ?(?:Of|The same|As|Those|Where)\b")
COMMENT = re.compile(r'"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n]){1,8}\'|(//[^\n]*)')


def openings(text):
    """(line, first line) of each comment: one that goes on below another's line of nothing else opens none."""
    goes_on = False
    for number, line in enumerate(text.splitlines(), 1):
        found = next((m.group(1) for m in COMMENT.finditer(line) if m.group(1)), None)
        alone = found is not None and line.lstrip().startswith("//")
        if found and not (alone and goes_on):
            yield number, found
        goes_on = found is not None and "SPDX-License-Identifier" not in found


def faults(root):
    for path in source.project_files(root, source.CODE, FOLDERS):
        for number, comment in openings(source.read(root, path)):
            if OPENS.match(comment):
                yield path, number, comment


def left(root):
    try:
        rows = [row.split() for row in source.read(root, LEFT).splitlines() if row and not row.startswith("#")]
    except FileNotFoundError:
        rows = []
    return {folder: int(count) for folder, count in rows}


def verdicts(root):
    """(folder, fault) where a folder has more comments of the kind than it may, or fewer."""
    allowed, count, places = left(root), collections.Counter(), {}
    for path, number, comment in faults(root):
        folder = os.path.dirname(path)
        count[folder] += 1
        places.setdefault(folder, []).append(f"{path}:{number}: opens with {OPENS.match(comment).group(0)[2:].strip()}: {comment[:60]}")
    for folder in sorted(count | collections.Counter(allowed)):
        if count[folder] > allowed.get(folder, 0):
            yield folder, "\n".join([*places[folder], f"{folder}: {count[folder]} comments open so, {allowed.get(folder, 0)} may"])
        elif count[folder] < allowed.get(folder, 0):
            yield folder, f"{LEFT}: {folder} has {count[folder]} left, not {allowed[folder]}: run test/style/check_comments.py . --write"


def write(root):
    count = collections.Counter(os.path.dirname(path) for path, _, _ in faults(root))
    allowed = left(root)
    kept = {folder: min(n, allowed.get(folder, n if not allowed else 0)) for folder, n in count.items()}
    with open(os.path.join(root, LEFT), "w", encoding="utf-8") as f:
        f.write("# Comments that open with Of, The same, As, Those or Where, a folder a line: to be rewritten, never more.\n")
        f.writelines(f"{folder} {n}\n" for folder, n in sorted(kept.items()) if n)
    return sum(kept.values())


def selftest():
    with tempfile.TemporaryDirectory() as root:
        os.makedirs(os.path.join(root, "lib/x"))
        os.makedirs(os.path.join(root, "test/style"))
        for text, wanted in (("// SPDX-License-Identifier: BSD-3-Clause\n// Of a room.\n", 1), ("// A room\n// Of a house.\n", 0),
                             ("int a;  // As before\n// Those too\n", 1), ("int a;\n\n// Where it is.\nint b;  // The same\n", 2),
                             ('const char* s = "// Of";\n', 0), ("// Offset.\n", 0), ("// The sames\n// Assert\n", 0),
                             ("int a;  // a\nint b;  // Of b\n", 1)):
            with open(os.path.join(root, "lib/x/a.cc"), "w", encoding="utf-8") as f:
                f.write(text)
            assert len(list(faults(root))) == wanted, text
        with open(os.path.join(root, "lib/x/a.cc"), "w", encoding="utf-8") as f:
            f.write("// Of one\n\n// Of two\n")
        for allowed, wanted in (("lib/x 1\n", "2 comments open so, 1 may"), ("lib/x 3\n", "2 left, not 3"), ("lib/x 2\n", None),
                                ("", "2 comments open so, 0 may"), ("lib/x 2\nlib/y 1\n", "lib/y has 0 left")):
            with open(os.path.join(root, LEFT), "w", encoding="utf-8") as f:
                f.write(allowed)
            found = [fault for _, fault in verdicts(root)]
            assert not found if wanted is None else len(found) == 1 and wanted in found[0], (allowed, found)
        for allowed, wanted in (("lib/x 1\n", 1), ("lib/x 3\n", 2)):   # a number never grows
            with open(os.path.join(root, LEFT), "w", encoding="utf-8") as f:
                f.write(allowed)
            assert write(root) == wanted
    return 0


def main(arguments):
    if arguments == ["--selftest"]:
        return selftest()
    root = arguments[0]
    if "--list" in arguments:
        for path, number, comment in faults(root):
            if path.startswith(arguments[-1]):
                print(f"{path}:{number}: {comment}")
        return 0
    if "--write" in arguments:
        print(f"{write(root)} comments are left")
        return 0
    found = [fault for _, fault in verdicts(root)]
    print("\n".join([*found, f"{sum(left(root).values())} left, {len(found)} faults"]))
    return 1 if found else 0


if __name__ == "__main__":
    sys.dont_write_bytecode = True
    sys.exit(main(sys.argv[1:]))
