#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""One paragraph from the statistics that `kilim-testpmd --json=FILE` leaves.

Usage: summary.py FILE      the paragraph
       summary.py --live    a line for each periodic report on standard input"""

import json
import re
import signal
import sys


def main(path):
    with open(path, encoding="utf-8") as f:
        stats = json.load(f)
    total = stats["total"]
    print(f"summary ({stats['mode']}, {stats['seconds']:.1f} s):")
    for port in stats["ports"]:
        print(f"  {port['name']} on {port['hca']}: received {port['rx_packets']} packets, "
              f"{port['rx_bytes']} bytes; sent {port['tx_packets']}, {port['tx_bytes']}")
    print(f"  forwarded {total['forwarded']} packets, {total['mpps']:.3f} Mpps over the whole time, "
          f"{total['cycles_per_packet']:.0f} cycles a packet, the virtual device {total['device_cycles_per_packet']:.0f}")
    print(f"  keys bound: {total['keys_bound']}")
    drops = ", ".join(f"{cause} {count}" for cause, count in total["drops"].items() if count)
    print(f"  drops: {drops or 'none'}")


def live(lines):
    """The lines of a report between `all ports` and `forwarded`, said in one."""
    said, report, folded = None, {}, None
    for line in lines:
        m = re.match(r"---- (\w+) statistics|---- statistics, .*, ([\d.]+) s$", line)
        if m:
            said, report, folded = m.group(2), None, None
        elif line.startswith("all ports"):
            report = {}
        elif report is not None and said:
            name, _, rest = line.strip().partition(" ")
            label = folded or name.rstrip(":,")
            report[label] = f"{report[label]} {line.strip()}" if folded else rest.strip()
            folded = label if line.rstrip().endswith(",") else None   # kilim-testpmd folds at a comma
            if name == "forwarded":
                causes = [c for c in report["drops"].split(", ") if not c.endswith(" 0")]
                print(f"  | {said:>6} s: {report['RX-packets']} packets in, "
                      f"{report['TX-packets']} out, {report.get('keys-bound', 0)} keys bound, "
                      f"{'drops: ' + ', '.join(causes) if causes else 'no drops'}")
                said = None


if __name__ == "__main__":
    if {"-h", "--help"} & set(sys.argv[1:]):
        print(__doc__)
        sys.exit(0)
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    if sys.argv[1] == "--live":
        # Ctrl-C goes to every process of the terminal: kilim-testpmd's last report comes behind it, then its end.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        live(sys.stdin)
    else:
        main(sys.argv[1])
