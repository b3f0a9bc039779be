# SPDX-License-Identifier: BSD-3-Clause
"""What race.py found, as tables, a verdict and a plot. Numbers come from its runs only."""

import os
import re

# (mode, side) -> instructions and time over net_mlx5's. Those of Kilim's own bursts are the goals of
# the race, net_kilim's the state that was reached.
GOALS = {("io", "kilim"): (0.55, 0.47), ("mac", "kilim"): (0.58, 0.57),
         ("io", "kilim, AVX2"): (0.46, 0.41), ("mac", "kilim, AVX2"): (0.50, 0.52),
         ("io", "net_kilim"): (0.78, None), ("mac", "net_kilim"): (0.78, None)}
PEER = "net_mlx5"
SIZES = (64, 1518)
MARKS = re.compile(r"(<!-- race: begin -->\n).*?(<!-- race: end -->\n)", re.S)


def ratio(found, mode, size, side):
    return found[mode, size, side] / found[mode, size, PEER]


def sides(found):
    return list(dict.fromkeys(side for _, _, side in found))


def judge(counted):
    """1 where Kilim takes more instructions than its goal, at any size."""
    missed = judged = 0
    for (mode, side), (goal, _) in GOALS.items():
        if side not in sides(counted):
            continue
        for size in SIZES:
            is_over = ratio(counted, mode, size, side) > goal
            missed += is_over
            judged += 1
            print(f"{mode}, {size} bytes, {side}: {counted[mode, size, side]:.1f} instructions, "
                  f"{counted[mode, size, PEER]:.1f} of {PEER}, "
                  f"{ratio(counted, mode, size, side):.3f}, goal {goal:g}"
                  + ("  MISSED" if is_over else ""))
    print(f"{judged} goals, {missed} missed")
    return 1 if missed or not judged else 0


def row(*cells):
    return "| " + " | ".join(cells) + " |\n"


def head(*cells):
    return row(*cells) + "|---" * len(cells) + "|\n"


def verdict(counted, timed, mode, size, side):
    goals = GOALS.get((mode, side))
    if goals is None or goals[1] is None:
        return "none"
    is_met = (ratio(counted, mode, size, side) <= goals[0]
              and ratio(timed, mode, size, side) <= goals[1])
    return f"{goals[0]:.2f}, {goals[1]:.2f}: {'met' if is_met else 'missed'}"


def table(counted, timed):
    text = head("mode", "bytes", "side", "instructions", f"of {PEER}", "ns", f"of {PEER}", "goals")
    for (mode, size, side), n in sorted(counted.items(), key=lambda item: (
            item[0][0], item[0][1], sides(timed).index(item[0][2]))):
        ns = timed[mode, size, side]
        own = side == PEER
        text += row(mode, f"{size:,}", side, f"{n:.1f}",
                    "" if own else f"{ratio(counted, mode, size, side):.2f}", f"{ns:.2f}",
                    "" if own else f"{ratio(timed, mode, size, side):.2f}",
                    "" if own else verdict(counted, timed, mode, size, side))
    return text


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
    text = f"Processor: {processor()}. {about}\n\n" + table(counted, timed)
    if around:
        text += "\n" + context_table(around)
    if rates:
        text += "\n" + head("whole program, 64 bytes, two ports", "million packets a second")
        for name, rate in rates.items():
            text += row(name, f"{rate / 1e6:.2f}")
    return text


WIDTH, BAR, LEFT, TOP = 760, 16, 190, 52
COLOURS = {"kilim": "#1b6e6e", "kilim, AVX2": "#2f9e8f", "net_kilim": "#d99a2b", PEER: "#8a8f98"}


def bars(found, unit, at):
    """A group of bars for each mode and size; returns the lines and where they end."""
    longest = max(found.values())
    lines = [f'<text x="16" y="{at}" class="h">{unit}</text>']
    y = at + 10
    for mode in ("io", "mac"):
        for size in SIZES:
            lines.append(f'<text x="16" y="{y + BAR}" class="g">{mode}, {size:,} bytes</text>')
            for side in sides(found):
                n = found[mode, size, side]
                wide = (WIDTH - LEFT - 70) * n / longest
                lines.append(f'<rect x="{LEFT}" y="{y}" width="{wide:.1f}" height="{BAR - 3}" '
                             f'fill="{COLOURS[side]}"/>')
                lines.append(f'<text x="{LEFT + wide + 6:.1f}" y="{y + 11}">{n:.1f}</text>')
                y += BAR
            y += 8
    return lines, y + 24


def plot(counted, timed):
    lines, y = bars(counted, "instructions a packet", TOP + 20)
    more, y = bars(timed, "nanoseconds a packet, the least of all samples", y)
    legend, x = [], LEFT
    for side in sides(timed):
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
