#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""doc/prm-map.md: which file stands for which section of the manual, from the files' own
`// PRM: "..."` lines.

Usage: check_prm_map.py ROOT [--write]   compares, or writes the file anew"""

import os
import re
import sys

import source

MAP = "doc/prm-map.md"
HEAD = """# Where the manual's sections live

Generated from the `// PRM: "..."` lines of the sources by `test/style/check_prm_map.py . --write`;
the style suite compares. Section titles are those of the *Mellanox Adapters Programmer's Reference
Manual*, revision 0.40; what it leaves out (UMR, the key context, commands) is named as rdma-core 44
(`providers/mlx5`) and Linux 6.1 (`include/linux/mlx5`) name it. Titles, not numbers: numbers move
between revisions.

| section | files |
|---|---|
"""


def sections(root):
    """{title: [files]} and the files of kilim/prm that name no section."""
    found, silent = {}, []
    for path in source.project_files(root, (".hh", ".cc"), ("lib", "drivers")):
        comment = " ".join(source.opening_comment(source.read(root, path)))
        # The list of titles ends where the sentence does.
        m = re.search(r'PRM: ((?:"[^"]+"(?:, |; | and )?)+)', comment)
        if m:
            for title in re.findall(r'"([^"]+)"', m.group(1)):
                found.setdefault(title, []).append(path)
        elif path.startswith("lib/kilim/prm/") and path.endswith(".hh"):
            silent.append(path)
    return found, silent


def main(arguments):
    root = arguments[0]
    found, silent = sections(root)
    text = HEAD
    for title in sorted(found, key=str.lower):
        files = ", ".join(f"[{p}](../{p})" for p in found[title])
        text += f"| {title} | {files} |\n"
    for path in silent:
        print(f'{path}:2: no `// PRM: "..."` line')
    if "--write" in arguments:
        with open(os.path.join(root, MAP), "w", encoding="utf-8") as f:
            f.write(text)
    same = os.path.exists(os.path.join(root, MAP)) and source.read(root, MAP) == text
    if not same:
        print(f"{MAP}:1: not what the sources say: run test/style/check_prm_map.py . --write")
    print(f"{len(found)} sections")
    return 0 if same and not silent and found else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
