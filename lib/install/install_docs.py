#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Installs README, the documents and the examples; run by `meson install`.

Usage: install_docs.py ROOT FOLDER      FOLDER: below the prefix, or absolute

A document's link to a file that is not installed, such as a source, would lead nowhere: its text stays, the
link goes."""

import os
import re
import shutil
import sys

LINK = re.compile(r"(!?)\[([^\]]*)\]\(([^)#\s]+)(#[^)\s]*)?\)")
ALONE = ("README.md", "LICENSE")
TREES = ("doc", "examples")
LEFT_OUT = ("meson.build",)


def files(root):
    """What is installed, by the names that it has in the tree."""
    found = list(ALONE)
    for tree in TREES:
        for folder, _, names in os.walk(os.path.join(root, tree)):
            found += [os.path.relpath(os.path.join(folder, name), root) for name in names if name not in LEFT_OUT]
    return sorted(found)


def without_dead_links(text, name, there):
    def linked(m):
        target = os.path.normpath(os.path.join(os.path.dirname(name), m.group(3)))
        alive = "://" in m.group(3) or target in there or any(at.startswith(target + "/") for at in there)
        return m.group(0) if alive else m.group(2)
    return LINK.sub(linked, text)


def main(root, folder):
    prefix = os.environ.get("MESON_INSTALL_DESTDIR_PREFIX", "/")
    if os.path.isabs(folder):
        prefix = os.environ.get("DESTDIR", "") + "/"
    to, there = os.path.join(prefix, folder.lstrip("/")), set(files(root))
    for name in sorted(there):
        path = os.path.join(to, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        if name.endswith(".md"):
            with open(os.path.join(root, name), encoding="utf-8") as f:
                text = without_dead_links(f.read(), name, there)
            with open(path, "w", encoding="utf-8") as f:
                f.write(text)
        else:
            shutil.copyfile(os.path.join(root, name), path)
        os.chmod(path, 0o644)
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main(*sys.argv[1:3]))
    except KeyboardInterrupt:
        sys.exit(130)
