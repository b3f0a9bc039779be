# SPDX-License-Identifier: BSD-3-Clause
"""What race.py found, as tables, a verdict and a plot. Numbers come from its runs only."""

import os
import re

PEER = "net_mlx5"
SIDES = ("kilim", "kilim, AVX2", "net_kilim")
LEVELS = ("hot", "L3", "memory")
# Of net_mlx5's instructions at the same setting, at most: what was reached and a fiftieth, so that
# what is lost today can only become less.
LIMITS = {
    "io": (0.35, 0.30, 0.61),
    "io, 1,518 bytes": (0.35, 0.30, 0.61),
    "mac": (0.38, 0.34, 0.63),
    "mac, 1,518 bytes": (0.38, 0.34, 0.63),
    "read": (0.46, 0.42, 0.65),
    "checksums": (0.42, 0.36, 0.58),
    "every second asks": (1.30, 1.23, 1.23),
    "one tag": (0.55, 0.50, 0.89),
    "32 tags": (0.58, 0.53, 0.89),
    "TSO": (1.66, 1.61, 2.09),
    "two segments": (0.50, 0.47, 1.74),
    "four segments": (0.43, 0.41, 1.64),
    "no fast free": (None, None, 0.75),
    "refcount 2": (None, None, 0.75),
    "compressed": (0.45, 0.37, 0.72),
    "compressed, mac": (0.48, 0.41, 0.74),
    "compressed, read": (0.57, 0.49, 0.75),
    "compressed, blocks of 7": (0.40, 0.38, 0.63),
    "compressed, checksums": (0.50, 0.42, 0.66),
}
# Goals, of net_mlx5 at the same setting: (setting, level) -> one for each of SIDES; of instructions
# where the level is None. A row that is not here has none but to be no loss.
GOALS = {
    ("io", None): (0.34, 0.30, 0.48), ("io", "hot"): (0.30, 0.30, 0.50), ("io", "L3"): (0.46, 0.45, 0.60),
    ("io", "memory"): (None, None, 0.70),
    ("compressed", None): (0.50, 0.42, 0.68), ("compressed", "hot"): (0.46, 0.42, 0.65),
    ("compressed", "L3"): (0.54, 0.50, 0.75), ("compressed", "memory"): (None, None, 0.85),
    ("checksums", None): (0.36, 0.30, 0.50), ("checksums", "hot"): (0.38, 0.34, 0.55),
    ("checksums", "L3"): (None, None, 0.60),
    ("one tag", None): (0.44, 0.40, 0.55), ("one tag", "hot"): (0.40, 0.37, 0.55),
    ("32 tags", None): (None, None, 0.65),
    ("refcount 2", None): (None, None, 0.58), ("refcount 2", "hot"): (None, None, 0.66),
    ("no fast free", None): (None, None, 0.58), ("no fast free", "hot"): (None, None, 0.66),
}
BEST_GOALS = {"L3": (0.50, 0.50, 0.65)}
BEST_OF = ("io", "compressed")  # settings of a receive queue that a user may choose freely
SIZES = (64, 1518)
MARKS = re.compile(r"(<!-- race: begin -->\n).*?(<!-- race: end -->\n)", re.S)


def sides_of(found):
    """Kilim's that run on this processor."""
    return [side for side in SIDES if any(key[1] == side for key in found)]


def settings_of(found):
    return list(dict.fromkeys(key[0] for key in found))


def ratio(found, setting, side, *level):
    """Over net_mlx5; None where that has no such setting."""
    peer = found.get((setting, PEER, *level))
    return found[setting, side, *level] / peer if peer else None


def goal_of(setting, side, level=None):
    return GOALS.get((setting, level), (None,) * len(SIDES))[SIDES.index(side)]


def limit_of(setting, side):
    return LIMITS.get(setting, (None,) * len(SIDES))[SIDES.index(side)]


def judge(counted):
    """1 where a side takes more instructions than its limit. A row that has none yet is told as such."""
    passed = lost = judged = 0
    for setting, side in counted:
        if side == PEER:
            continue
        of_peer, limit, goal = ratio(counted, setting, side), limit_of(setting, side), goal_of(setting, side)
        text = f"{setting}, {side}: {counted[setting, side]:.1f} instructions"
        if of_peer is None:
            print(f"{text}; {PEER} has no such setting")
            continue
        is_over = limit is not None and of_peer > limit
        passed += is_over
        lost += of_peer > 1
        judged += limit is not None
        print(f"{text}, {of_peer:.3f} of {PEER}, limit {limit or 'none yet'}, goal {goal or 'none'}"
              + ("  LOST" if of_peer > 1 else "") + ("  OVER THE LIMIT" if is_over else ""))
    print(f"{judged} limits, {passed} passed; {lost} rows lost to {PEER}")
    # On a processor without AVX2 that side does not run; nothing else may be missing.
    wanted = sum(limit is not None for setting in LIMITS for side in sides_of(counted)
                 for limit in [limit_of(setting, side)])
    return 1 if passed or judged < wanted else 0


def row(*cells):
    return "| " + " | ".join(cells) + " |\n"


def head(*cells):
    return row(*cells) + "|---" * len(cells) + "|\n"


def cell(value, of_peer, goal, digits):
    if value is None:
        return "-"
    if of_peer is None:
        return f"{value:.{digits}f}"
    goals = f", goal {goal:.2f}" if goal else ""
    text = f"{value:.{digits}f} ({of_peer:.2f}{goals})"
    return f"**{text} lost**" if of_peer > 1 else text


def table(found, what, level=None):
    """A line a setting, a column a side; in brackets of net_mlx5."""
    at = () if level is None else (level,)
    digits = 1 if level is None else 2
    text = head(what, *SIDES, PEER)
    for setting in settings_of(found):
        cells = [cell(found.get((setting, side, *at)), (setting, side, *at) in found and ratio(found, setting, side, *at)
                      or None, goal_of(setting, side, level), digits) for side in SIDES]
        text += row(setting, *cells, cell(found.get((setting, PEER, *at)), None, None, digits))
    return text + best(found, level)


def best(found, level):
    """Each side at the better one of its receive settings."""
    at = () if level is None else (level,)
    least = {side: min((found[s, side, *at] for s in BEST_OF if (s, side, *at) in found), default=None)
             for side in (*SIDES, PEER)}
    digits = 1 if level is None else 2
    goals = BEST_GOALS.get(level, (None,) * len(SIDES))
    cells = [cell(least[side], least[side] and least[side] / least[PEER], goal, digits) for side, goal in zip(SIDES, goals)]
    return row("best setting of each side", *cells, cell(least[PEER], None, None, digits))


def tables(counted, timed):
    text = "### Instructions a packet\n\n" + table(counted, "setting")
    for level in LEVELS:
        of_level = {key: ns for key, ns in timed.items() if key[2] == level}
        where = {"hot": "lines of the device in the first cache", "L3": "in L3", "memory": "in memory"}[level]
        text += f"\n### Nanoseconds a packet, {where}\n\n"
        text += table(of_level, "setting", level) if of_level else "- (not reached on this processor)\n"
    return text


def sides(found):
    return list(dict.fromkeys(key[-1] for key in found))


def context_table(around):
    text = head("driver, ns a packet", *(f"{m}, {s:,} bytes" for m in ("io", "mac") for s in SIZES))
    for name in sides(around):
        text += row(name, *(f"{around[m, s, name]:.1f}" if (m, s, name) in around else "not measured"
                            for m in ("io", "mac") for s in SIZES))
    return text


def processor():
    with open("/proc/cpuinfo", encoding="ascii", errors="replace") as f:
        return re.search(r"^model name\s*: (.*)$", f.read(), re.M)[1]


def page(counted, timed, around, rates, about):
    text = f"Processor: {processor()}. {about}\n\n" + tables(counted, timed)
    if around:
        text += "\n" + context_table(around)
    if rates:
        text += "\n" + head("whole program, 64 bytes, two ports", "million packets a second")
        for name, rate in rates.items():
            text += row(name, f"{rate / 1e6:.2f}")
    return text


WIDTH, BAR, LEFT, TOP = 760, 16, 190, 52
PLOTTED = ("io", "mac", "checksums", "one tag", "two segments", "refcount 2", "compressed")
COLOURS = {"kilim": "#1b6e6e", "kilim, AVX2": "#2f9e8f", "net_kilim": "#d99a2b", PEER: "#8a8f98"}


def bars(found, unit, at):
    """A group of bars for each setting of PLOTTED; returns the lines and where they end."""
    longest = max(n for (setting, _), n in found.items() if setting in PLOTTED)
    lines = [f'<text x="16" y="{at}" class="h">{unit}</text>']
    y = at + 10
    for setting in PLOTTED:
        lines.append(f'<text x="16" y="{y + BAR}" class="g">{setting}</text>')
        for side in (*SIDES, PEER):
            if (setting, side) not in found:
                continue
            n = found[setting, side]
            wide = (WIDTH - LEFT - 70) * n / longest
            lines.append(f'<rect x="{LEFT}" y="{y}" width="{wide:.1f}" height="{BAR - 3}" '
                         f'fill="{COLOURS[side]}"/>')
            lines.append(f'<text x="{LEFT + wide + 6:.1f}" y="{y + 11}">{n:.1f}</text>')
            y += BAR
        y += 8
    return lines, y + 24


def plot(counted, timed):
    lines, y = bars(counted, "instructions a packet", TOP + 20)
    hot = {(setting, side): ns for (setting, side, level), ns in timed.items() if level == "hot"}
    more, y = bars(hot, "nanoseconds a packet, the least of all samples", y)
    legend, x = [], LEFT
    for side in (*SIDES, PEER):
        legend.append(f'<rect x="{x}" y="20" width="12" height="12" fill="{COLOURS[side]}"/>'
                      f'<text x="{x + 18}" y="31">{side}</text>')
        x += 40 + 8 * len(side)
    style = ("text{font:12px sans-serif;fill:#333}.h{font-weight:bold}.g{fill:#666}")
    return (f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{y}" '
            f'viewBox="0 0 {WIDTH} {y}" role="img">\n<!-- SPDX-License-Identifier: BSD-3-Clause; '
            f'written by usertools/race.sh -->\n<title>A packet forwarded, by Kilim and by DPDK\'s '
            f'mlx5 driver</title>\n<style>{style}</style>\n<rect width="100%" height="100%" '
            f'fill="#fff"/>\n' + "\n".join([*legend, *lines, *more]) + "\n</svg>\n")


def write(root, text, counted, timed):
    path = os.path.join(root, "doc/performance.md")
    with open(path, encoding="utf-8") as f:
        old = f.read()
    new, places = MARKS.subn(lambda m: m[1] + text + m[2], old)
    if places != 1:
        raise SystemExit(f"{path}: no place for the table")
    with open(path, "w", encoding="utf-8") as f:
        f.write(new)
    with open(os.path.join(root, "doc/race.svg"), "w", encoding="utf-8") as f:
        f.write(plot(counted, timed))
