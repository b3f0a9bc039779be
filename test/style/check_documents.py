#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Documents keep their sizes and name what exists.

README.md has at most 10 KB, and the figures of its table stand in doc/performance.md; a page of doc/design, which
doc/design/README.md lists, has at most 6 KB, the guide to the virtual HCA 12 KB; doc/decisions/README.md has a line for each decision. Links within the tree lead to
files and headings. In guides and design pages a file's name and a `ns::name` in backticks exist: in a guide in a public header (or
what it includes), in a design page in any.

Usage: check_documents.py ROOT [--write]   --write: adds a line for each decision and design page that lacks one
       check_documents.py --selftest"""

import glob
import os
import re
import sys
import tempfile

import source

README_BYTES, DESIGN_BYTES, DEVICE_GUIDE_BYTES = 10 * 1024, 6 * 1024, 12 * 1024
INDEX, DESIGN = "doc/decisions/README.md", "doc/design"
STATES = re.compile(r"(holds|superseded by \d{4}(, \d{4})*|folded into \[[^]]+\]\([^)]+\))(; in part superseded by \d{4})?$")
SPAN = re.compile(r"(?<!`)`([^`\n]+)`(?!`)")
FENCE = re.compile(r"^```.*?^```$", re.M | re.S)
NAME = re.compile(r"^~?([a-zA-Z_]\w*(?:::~?[a-zA-Z_]\w*)+)(?:\(.*\))?$")
FILE = re.compile(r"^[\w./-]+/[\w.-]+\.(?:hh|cc|h|c|py|sh|txt)$|^[\w-]+\.(?:hh|cc)$")
LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")
# What stands in front of a type's name where it is declared.
TYPE = r"\b(?:class|struct|union|enum|using|concept) (?:[\w:\[\]]+(?:\([^)]*\))? )*"
# Where the path of a file in the documents may begin.
ROOTS = ("", "lib", "lib/kilim", "lib/kilim/detail", "drivers", "drivers/vhca", "doc")
FOREIGN = re.compile(r"^(providers|drivers/(?:net/mlx5|infiniband|common|crypto)|include|tests|app/test-pmd|hw|en|net|examples/l|prov)/|^/")
# Headers that are not installed; a guide teaches them to who builds in this tree, and says so.
IN_TREE = ("drivers/vhca/entry/attach.hh", "drivers/mlx5/encryption_key.hh")


def read(root, path):
    with open(os.path.join(root, path), encoding="utf-8") as f:
        return f.read()


def pages(root, pattern):
    return sorted(os.path.relpath(p, root) for p in glob.glob(os.path.join(root, pattern), recursive=True))


def anchors(text):
    """The headings of a document as GitHub names them."""
    found = set()
    for line in re.findall(r"^#+ (.*)$", FENCE.sub("", text), re.M):
        plain = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", line).lower()
        found.add(re.sub(r"[^\w\- ]", "", plain).replace(" ", "-"))
    return found


class Names:
    """What headers declare: for a name that qualifies others, the headers in which it is a namespace or a type."""

    def __init__(self, root, paths):
        self.code = [source.blank(source.read(root, path)) for path in paths]
        self.within = {}

    def scope(self, name):
        if name not in self.within:
            opens = re.compile(rf"\bnamespace (?:(?:inline )?\w+::)*(?:inline )?{name}\b|{TYPE}{name}\b")
            self.within[name] = "\n".join(c for c in self.code if opens.search(c))
        return self.within[name]

    def has(self, name):
        parts = name.split("::")
        parts = parts if len(parts) == 2 else [p for p in parts if p != "kilim"]
        text = self.scope(parts[0])
        return all(re.search(rf"{TYPE}{part}\b" if part[:1].isupper() else rf"{TYPE}{part}\b|\b{part}\s*[(){{=;,[}}]", text)
                   for part in parts[1:])


def reached(root, headers):
    """These headers and what they include of the tree."""
    found, rest = set(), list(headers)
    while rest:
        path = rest.pop()
        if path not in found:
            found.add(path)
            for name in re.findall(r'^#include "([^"]+)"', source.read(root, path), re.M):
                rest += [at for at in (f"lib/{name}", f"drivers/{name}") if os.path.exists(os.path.join(root, at))]
    return sorted(found)


class Tree:
    def __init__(self, root):
        self.root = root
        every = source.project_files(root, (".hh", ".h"), ("lib", "drivers", "app", "test"))
        door = [path for path in [*every, *IN_TREE] if re.match(r"lib/kilim/[\w.]+$", path) or path in IN_TREE]
        self.files = set(source.project_files(root))
        self.stems = {os.path.basename(path) for path in self.files}
        self.all = Names(root, every)
        self.public = Names(root, reached(root, [path for path in door if os.path.exists(os.path.join(root, path))]))

    def has_file(self, name):
        if "/" not in name:
            return name in self.stems
        return any(os.path.join(at, name) in self.files for at in ROOTS) or \
            any(path.endswith("/" + name) for path in self.files)


def name_faults(tree, page):
    names = tree.public if page.startswith("doc/guides/") else tree.all
    text = FENCE.sub(lambda m: "\n" * m.group(0).count("\n"), read(tree.root, page))
    for m in SPAN.finditer(text):
        span, line = m.group(1), text.count("\n", 0, m.start()) + 1
        name = NAME.match(span)
        if name and not names.has(name.group(1)):
            yield f"{page}:{line}: no header {'that is public ' if names is tree.public else ''}has {name.group(1)}"
        elif FILE.match(span) and not FOREIGN.match(span) and not tree.has_file(span):
            yield f"{page}:{line}: there is no file {span}"


def link_faults(root, page):
    text = FENCE.sub(lambda m: "\n" * m.group(0).count("\n"), read(root, page))
    for m in LINK.finditer(text):
        target, _, heading = m.group(1).partition("#")
        if "://" in target:
            continue
        path = os.path.normpath(os.path.join(os.path.dirname(page), target)) if target else page
        place = f"{page}:{text.count(chr(10), 0, m.start()) + 1}"
        if not os.path.exists(os.path.join(root, path)):
            yield f"{place}: the link leads to no file: {m.group(1)}"
        elif heading and path.endswith(".md") and heading not in anchors(read(root, path)):
            yield f"{place}: the link leads to no heading: {m.group(1)}"


def title_of(root, page):
    words = re.sub(r"^# (\d{4}[.:]?\s*)?", "", read(root, page).splitlines()[0])
    return words[:1].upper() + words[1:]


def index_faults(root, write):
    index = read(root, INDEX)
    rows = dict(re.findall(r"^\| \[(\d{4})\]\([\w.-]+\) \| .* \| (.*) \|$", index, re.M))
    for page in pages(root, "doc/decisions/[0-9]*.md"):
        name = os.path.basename(page)
        if f"]({name})" not in index:
            if write:
                index += f"| [{name[:4]}]({name}) | {title_of(root, page)} | holds |\n"
            else:
                yield f"{INDEX}:1: no line for {name}: run test/style/check_documents.py . --write"
        elif not STATES.match(rows.get(name[:4], "")):
            yield f"{INDEX}:1: the state of {name[:4]} is none of holds, superseded by N, folded into [page](...)"
    if write:
        lines = index.splitlines()
        numbered = [line for line in lines if re.match(r"\| \[\d{4}\]", line)]
        head = [line for line in lines if line not in numbered]
        with open(os.path.join(root, INDEX), "w", encoding="utf-8") as f:
            f.write("\n".join([*head, *sorted(numbered)]) + "\n")


def list_pages(root):
    """Adds a line for each page of design that lacks one to the table of their README."""
    index = read(root, f"{DESIGN}/README.md")
    for page in pages(root, f"{DESIGN}/*.md"):
        name = os.path.basename(page)
        if name != "README.md" and f"]({name})" not in index:
            row = f"| [{name[:-3].replace('-', ' ')}]({name}) | {title_of(root, page)} |\n"
            at = index.rfind("\n| ") + 1
            end = index.find("\n", at) + 1
            index = index[:end] + row + index[end:]
    with open(os.path.join(root, f"{DESIGN}/README.md"), "w", encoding="utf-8") as f:
        f.write(index)


def size_faults(root):
    if len(read(root, "README.md").encode()) > README_BYTES:
        yield f"README.md:1: more than {README_BYTES} bytes"
    device = "doc/guides/vhca.md"   # what it says by feature is in doc/reference
    if os.path.exists(os.path.join(root, device)) and len(read(root, device).encode()) > DEVICE_GUIDE_BYTES:
        yield f"{device}:1: more than {DEVICE_GUIDE_BYTES} bytes"
    listed = read(root, f"{DESIGN}/README.md")
    for page in pages(root, f"{DESIGN}/*.md"):
        if len(read(root, page).encode()) > DESIGN_BYTES:
            yield f"{page}:1: more than {DESIGN_BYTES} bytes, two pages"
        name = os.path.basename(page)
        if name != "README.md" and f"]({name})" not in listed:
            yield f"{DESIGN}/README.md:1: does not list {name}"


def figure_faults(root):
    """README's table of numbers has those of doc/performance.md alone."""
    table = re.search(r"<!-- numbers: begin -->\n(.*?)<!-- numbers: end -->", read(root, "README.md"), re.S)
    if table is None:
        yield "README.md:1: needs a table between `<!-- numbers: begin -->` and `<!-- numbers: end -->`"
        return
    measured = set(re.findall(r"\d+\.\d+", read(root, "doc/performance.md")))
    for figure in re.findall(r"\d+\.\d+", table.group(1)):
        if figure not in measured:
            yield f"README.md:1: {figure} does not stand in doc/performance.md"


def faults(root, write=False):
    tree = Tree(root)
    if write:
        list_pages(root)
    yield from index_faults(root, write)
    yield from size_faults(root)
    yield from figure_faults(root)
    for page in pages(root, f"{DESIGN}/*.md") + pages(root, "doc/guides/*.md"):
        yield from name_faults(tree, page)
    for page in pages(root, "*.md") + pages(root, "doc/**/*.md"):
        yield from link_faults(root, page)


# What a tree of one file of each kind may say: page, text, the fault that is to be found, or none.
PLANTED = (
    ("doc/guides/x.md", "`room::Thing` and `room::Thing::act()`, `room/x.hh`", None),
    ("doc/guides/x.md", "`room::Other`", "no header that is public has room::Other"),
    ("doc/guides/x.md", "`room::Apart`", "no header that is public has room::Apart"),
    ("doc/guides/x.md", "`inner::Thing`", "no header that is public has inner::Thing"),
    (f"{DESIGN}/x.md", "`inner::Hidden`", None),
    (f"{DESIGN}/x.md", "`room/z.hh`", "there is no file room/z.hh"),
    (f"{DESIGN}/x.md", "`y.cc`", "there is no file y.cc"),
    (f"{DESIGN}/x.md", "x" * DESIGN_BYTES + "x", "more than 6144 bytes"),
    (f"{DESIGN}/y.md", "# Y\n", "does not list y.md"),
    ("doc/guides/vhca.md", "x" * DEVICE_GUIDE_BYTES + "x", "more than 12288 bytes"),
    ("doc/x.md", "[a](y.md)", "the link leads to no file: y.md"),
    ("doc/x.md", "[a](#there)\n# Not there\n", "the link leads to no heading: #there"),
    ("doc/x.md", "[a](#is-there)\n# Is `there`?\n", None),
    ("doc/decisions/0002-b.md", "# 0002 B\n", "no line for 0002-b.md"),
    (INDEX, "| [0001](0001-a.md) | A | forgotten |\n", "the state of 0001 is none of"),
    ("README.md", "<!-- numbers: begin -->\n| 1.5 |\n<!-- numbers: end -->\n", "1.5 does not stand in"),
    ("README.md", "", "needs a table between"),
    ("README.md", "<!-- numbers: begin -->\n<!-- numbers: end -->\n" + "x" * README_BYTES, "more than 10240 bytes"),
)
SOUND = {
    "README.md": "<!-- numbers: begin -->\n| 2.5 |\n<!-- numbers: end -->\n", "doc/performance.md": "2.5\n",
    INDEX: "| [0001](0001-a.md) | A | holds |\n", "doc/decisions/0001-a.md": "# 0001 A\n",
    f"{DESIGN}/README.md": "| a | b |\n| [x](x.md) | X |\n", f"{DESIGN}/x.md": "# X\n", "doc/guides/x.md": "# X\n",
    "lib/kilim/room.hh": '#include "kilim/detail/room/x.hh"\n', "lib/kilim/detail/room/y.hh": "namespace kilim::room {\nstruct Apart;\n}\n",
    "lib/kilim/detail/room/x.hh": "namespace kilim::inline v1::room {\nstruct Thing {\n  void act();  // Other\n};\n}\n",
    "drivers/inner/z.hh": "namespace kilim::inner {\nstruct Hidden;\nstruct Thing;\n}\n",
}


def selftest():
    for page, text, wanted in (("doc/x.md", "", None), *PLANTED):
        with tempfile.TemporaryDirectory() as root:
            for path, content in {**SOUND, page: text}.items():
                os.makedirs(os.path.dirname(os.path.join(root, path)), exist_ok=True)
                with open(os.path.join(root, path), "w", encoding="utf-8") as f:
                    f.write(content)
            found = list(faults(root))
            assert [] == found if wanted is None else len(found) == 1 and wanted in found[0], (page, text[:60], found)
            if "does not list" in (wanted or ""):
                assert list(faults(root, write=True)) == [] and read(root, f"{DESIGN}/README.md").endswith("| [y](y.md) | Y |\n")
            if "no line for" in (wanted or ""):
                assert list(faults(root, write=True)) == [] and "| [0002](0002-b.md) | B | holds |" in read(root, INDEX)
    return 0


def main(arguments):
    if arguments == ["--selftest"]:
        return selftest()
    found = list(faults(arguments[0], "--write" in arguments))
    print("\n".join([*found, f"{len(found)} faults"]))
    return 1 if found else 0


if __name__ == "__main__":
    sys.dont_write_bytecode = True
    sys.exit(main(sys.argv[1:]))
