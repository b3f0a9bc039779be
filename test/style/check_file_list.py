#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""What the tree says of itself. Prints a line a file, from the file's own first comment. Parts of documents are
generated, between two marks, so that they cannot rot: in README.md the lines of an example; in
doc/compatibility.md what passes of rdma-core's tests (tiers.py).

Usage: check_file_list.py ROOT [--write]   compares, or writes those parts anew
       check_file_list.py ROOT --print     the list of files (also `ninja -C build files`)"""

import collections
import os
import re
import sys

import source
import tiers


def ten_lines(root):
    """The code of README.md: what stands between two marks of an example that is run."""
    lines = source.read(root, "examples/00_ten_lines.cc").splitlines()
    begin, end = (lines.index(f"  // README: {mark}") for mark in ("begin", "end"))
    return "```cpp examples/00_ten_lines.cc\n" + "\n".join(line[2:] for line in lines[begin + 1:end]) + "\n```\n"


def first_sentence(text):
    """The opening comment up to its first full stop, without the manual's sections."""
    words = " ".join(line for line in source.opening_comment(text))
    titles = re.match(r'PRM: (?:"[^"]+"(?:, |; | and )?)+[.:,;]?\s*', words)
    words = words[titles.end():] if titles else words
    m = re.match(r"(.*?[a-z0-9)\]>`\"'])\.(?:\s|$)", words)
    said = (m.group(1) if m else words).rstrip(".").strip()
    if titles and (not said or said.lower().startswith(("pure", "any thread"))):
        said = ", ".join(re.findall(r'"([^"]+)"', titles.group(0)))
    return said[:1].upper() + said[1:]


def list_files(root):
    return describe(root, source.project_files(root, (".hh", ".cc", ".h"),
                                               ("lib", "drivers", "app", "examples")))


def describe(root, paths):
    """A line a file, with the file's own words, by folder."""
    folders = {}
    for path in paths:
        folders.setdefault(os.path.dirname(path), []).append(path)
    out = []
    for folder in sorted(folders):
        out.append(f"\n**{folder}**\n")
        names = {}
        for path in folders[folder]:
            stem, ending = os.path.splitext(os.path.basename(path))
            entry = names.setdefault(stem, [[], ""])
            entry[0].append(ending)
            text = first_sentence(source.read(root, path))
            if ending in (".hh", ".h") or not entry[1]:
                entry[1] = text or entry[1]
        for stem in sorted(names):
            endings, text = names[stem]
            name = f"`{stem}{sorted(endings, reverse=True)[0]}`"
            if len(endings) > 1:
                name += ", `" + "`, `".join(sorted(endings, reverse=True)[1:]) + "`"
            out.append(f"- {name}: {text}")
    return "\n".join(out) + "\n"


def differs(root, generated, write):
    """Whether a document lacks the part that belongs between its two marks. Writes it, if asked."""
    page = generated.page
    text = source.read(root, page)
    if text.count(generated.begin) != 1 or text.count(generated.end) != 1:
        print(f"{page}:1: needs one `{generated.begin}` and one `{generated.end}`")
        return True
    head, rest = text.split(generated.begin)
    right = f"{head}{generated.begin}\n{generated.make(root)}{generated.end}" + \
        rest.split(generated.end)[1]
    if write:
        with open(os.path.join(root, page), "w", encoding="utf-8") as f:
            f.write(right)
        return False
    if text != right:
        print(f"{page}:1: {generated.what}: run test/style/check_file_list.py . --write")
    return text != right


Part = collections.namedtuple("Part", "page begin end make what")


def part(page, name, make, what):
    return Part(page, f"<!-- {name}: begin -->", f"<!-- {name}: end -->", make, what)


PARTS = (
    part("README.md", "code", ten_lines, "the code is not that of examples/00_ten_lines.cc"),
    part("doc/compatibility.md", "pyverbs", tiers.generate,
         "the table of tiers is not what test/pyverbs/manifest.tsv says"),
)


def main(arguments):
    if "--print" in arguments:
        sys.stdout.write(list_files(arguments[0]))
        return 0
    write = "--write" in arguments
    bad = [p.page for p in PARTS if differs(arguments[0], p, write)]
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
