#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""The list of files in doc/architecture.md: a line a file, from the file's own first comment, so
that the map cannot rot. What lies between the markers is generated.

Usage: check_file_list.py ROOT [--write]   compares, or writes that part anew"""

import os
import re
import sys

import source

PAGE = "doc/architecture.md"
BEGIN, END = "<!-- files: begin -->", "<!-- files: end -->"


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


def generate(root):
    folders = {}
    for path in source.project_files(root, (".hh", ".cc", ".h"), ("lib", "drivers", "app",
                                                                  "examples")):
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


def main(arguments):
    root = arguments[0]
    page = source.read(root, PAGE)
    if page.count(BEGIN) != 1 or page.count(END) != 1:
        print(f"{PAGE}:1: needs one `{BEGIN}` and one `{END}`")
        return 1
    head, rest = page.split(BEGIN)
    tail = rest.split(END)[1]
    text = f"{head}{BEGIN}\n{generate(root)}{END}{tail}"
    if "--write" in arguments:
        with open(os.path.join(root, PAGE), "w", encoding="utf-8") as f:
            f.write(text)
        page = text
    if page != text:
        print(f"{PAGE}:1: the list of files is not what the sources say: "
              "run test/style/check_file_list.py . --write")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
