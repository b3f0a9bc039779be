# SPDX-License-Identifier: BSD-3-Clause
"""What defects drawn by lot have shown: the rate of those that tests notice with its interval, by room, and the
table of doc/design/tests.md. Pure; reads and writes nothing but that page."""

import collections
import math
import os
import re

PAGE = "doc/design/tests.md"
MARKS = r"(<!-- {0}: begin -->\n).*?(<!-- {0}: end -->)"
COUNTED = ("killed", "survived")
CHECK = re.compile(r"\b(?:CU_ASSERT\w*|EQUAL(?:_FATAL)?|EXPECT\w*)\(|^\s*assert ", re.M)


def wilson(good, of, z=1.96):
    """The 95 % interval of a share (E. B. Wilson, 1927)."""
    if of == 0:
        return 0.0, 1.0
    share = good / of
    middle = share + z * z / (2 * of)
    half = z * math.sqrt(share * (1 - share) / of + z * z / (4 * of * of))
    return max(0.0, (middle - half) / (1 + z * z / of)), min(1.0, (middle + half) / (1 + z * z / of))


def by_room(rows):
    rooms = collections.defaultdict(collections.Counter)
    for row in rows:
        rooms[row["room"]][row["outcome"]] += 1
    return rooms


def percent(share):
    return f"{100 * share:.0f}"


def line_of(name, counts):
    killed, tried = counts["killed"], counts["killed"] + counts["survived"]
    low, high = wilson(killed, tried)
    rate = percent(killed / tried) if tried else "-"
    return (f"| {name} | {tried} | {killed} | {rate} % | {percent(low)}–{percent(high)} % | {counts['equivalent']} | "
            f"{counts['same code'] + counts['does not compile']} |")


def table(rows, title):
    rooms = by_room(rows)
    lines = [title, "", "| room | tried | killed | rate | 95 % interval | equivalent | thrown out |", "|---|---|---|---|---|---|---|"]
    lines += [line_of(name, rooms[name]) for name in sorted(rooms)]
    if len(rooms) > 1:
        lines.append(line_of("all", sum(rooms.values(), collections.Counter())))
    return "\n".join(lines) + "\n"


def kinds(rows):
    """Which kinds of defect live most."""
    counts = collections.defaultdict(collections.Counter)
    for row in rows:
        counts[row["kind"]][row["outcome"]] += 1
    lines = ["| kind | tried | killed |", "|---|---|---|"]
    for kind, n in sorted(counts.items()):
        tried = n["killed"] + n["survived"]
        if tried:
            lines.append(f"| {kind} | {tried} | {n['killed']} |")
    return "\n".join(lines) + "\n"


def put(root, mark, text):
    """Between the marks of that name; a page without them says so."""
    path = os.path.join(root, PAGE)
    with open(path, encoding="utf-8") as f:
        page = f.read()
    page, n = re.subn(MARKS.format(re.escape(mark)), lambda m: m.group(1) + text + m.group(2), page, flags=re.S)
    if n != 1:
        raise SystemExit(f"{PAGE} has no marks \"{mark}: begin\" and \"{mark}: end\"; add them, or name others by --mark")
    with open(path, "w", encoding="utf-8") as f:
        f.write(page)


def density(root, rooms, tests_of):
    """Checks in a room's own tests by its lines: (room, lines, checks, checks by 100 lines)."""
    for name, folder in rooms:
        lines = sum(1 for path in sources(os.path.join(root, folder)) for _ in open(path, encoding="utf-8"))
        checks = 0
        for path in sources(os.path.join(root, tests_of(folder)), (".cc", ".py", ".hh")):
            with open(path, encoding="utf-8") as f:
                checks += len(CHECK.findall(f.read()))
        if lines:
            yield name, lines, checks, 100 * checks / lines


def sources(folder, endings=(".cc", ".hh")):
    if not os.path.isdir(folder):
        return []
    return sorted(os.path.join(folder, n) for n in os.listdir(folder) if n.endswith(endings))
