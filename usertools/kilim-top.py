#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""A live view of a running Kilim program, from EAL's telemetry socket: rates of
ports and queues, drops by cause, workers, pools and keys, in 80 columns and 24
lines. In a pipe it prints plain text.

Usage: kilim-top.py [--file-prefix NAME] [--socket PATH] [--interval SECONDS]
         [--count N] [--once]

  --file-prefix NAME   the program's EAL option of that name, rte unless said
  --socket PATH        the telemetry socket itself
  --interval SECONDS   between two views, 1 unless said
  --count N            end after N views
  --once               one view of the first interval, and end

q or Ctrl-C ends it."""

import argparse
import os
import select
import sys
import termios
import time
import tty

sys.dont_write_bytecode = True
from kilim_telemetry import Client, TelemetryError, path_of, understood

WIDTH, HEIGHT = 80, 24
DROPS = {"rx_missed": "missed", "rx_no_buffer": "no-buffer", "rx_errors": "rx-errors", "rx_too_long": "too-long",
         "rx_discarded": "discarded", "rx_damaged": "damaged", "rx_undersize": "undersize",
         "rx_oversize": "oversize", "tx_errors": "tx-errors", "tx_lost": "tx-lost", "bind_errors": "bind-errors"}
BARS = " ▁▂▃▄▅▆▇█"


def si(value, unit=""):
    """Five columns and a unit."""
    for letter in ("", "k", "M", "G", "T"):
        if abs(value) < 999.5:
            return f"{value:5.3g}{letter}{unit}" if letter else f"{value:5.0f}{unit}"
        value /= 1000
    return f"{value:5.3g}P{unit}"


class Sample:
    """What the program has counted at one moment."""

    def __init__(self, client):
        client.begin()
        self.at = time.monotonic()
        self.info = client.ask("/kilim/info")
        if self.info is None:
            raise TelemetryError(f"the program at {client.path} is none of Kilim's: it has no /kilim/info")
        self.ports = client.ask("/kilim/stats")
        self.queues = {}
        for port in self.ports:
            try:
                self.queues[port] = client.queues(port)
            except TelemetryError:   # it has just gone
                self.queues[port] = {}
        self.workers = client.ask("/kilim/workers")
        self.pools = client.ask("/kilim/pools")
        self.mkeys = client.ask("/kilim/mkeys")
        self.umr = client.ask("/kilim/umr")


class View:
    """Lines of what happened between two samples."""

    def __init__(self, history):
        self.history = history   # packets a second by port, the newest last

    @staticmethod
    def rate(new, old, name, seconds):
        return max(0, new.get(name, 0) - old.get(name, 0)) / seconds

    def lines(self, old, new):
        seconds = max(new.at - old.at, 1e-6)
        head = f"{new.info['program']} {new.info['version']}, pid {new.info['pid']}"
        yield f"{head:<60}{time.strftime('%H:%M:%S'):>20}"
        yield f"{'port':<16}{'rx pps':>9}{'tx pps':>9}{'rx bps':>9}{'tx bps':>9}{'drops/s':>9}  last minute"
        for port, values in new.ports.items():
            yield self.port_line(port, values, old.ports.get(port, values), seconds)
        yield from self.drop_lines(old, new)
        yield from self.queue_lines(old, new, seconds)
        yield from self.worker_lines(old, new, seconds)
        for name, pool in new.pools.items():
            free = pool["available"]
            yield f"pool {name:<20} {pool['size']:>9} buffers, {free} free in the ring" if isinstance(free, int) \
                else f"pool {name:<20} {pool['size']:>9} buffers of a mempool"
        if new.mkeys["pools"]:
            bound = self.rate(new.umr, old.umr, "bound", seconds)
            yield (f"keys {new.mkeys['size']:>9} made, {new.mkeys['available']} free, bound {si(bound).strip()}/s, "
                   f"poisoned {new.umr['poisoned']}")

    def port_line(self, port, new, old, seconds):
        rx, tx, rx_bytes, tx_bytes = (self.rate(new, old, name, seconds)
                                      for name in ("rx_packets", "tx_packets", "rx_bytes", "tx_bytes"))
        drops = sum(self.rate(new, old, name, seconds) for name in DROPS)
        past = self.history.setdefault(port, [])
        past.append(max(rx, tx))
        del past[:-17]
        most = max(past) or 1
        bars = "".join(BARS[min(8, round(8 * v / most))] for v in past)
        return (f"{port[:15]:<16}{si(rx):>9}{si(tx):>9}{si(8 * rx_bytes):>9}{si(8 * tx_bytes):>9}{si(drops):>9}  "
                f"{bars}")

    @staticmethod
    def drop_lines(old, new):
        """Since the beginning; what grew just now is marked."""
        for port, values in new.ports.items():
            before = old.ports.get(port, values)
            said = [f"{text} {values[name]}{'!' if values[name] > before.get(name, 0) else ''}"
                    for name, text in DROPS.items() if values[name]]
            if values.get("rx_joined"):
                said.append(f"{values['rx_joined']} segments joined")
            if values["queues_down"]:
                said.insert(0, f"{values['queues_down']} queue(s) down")
            if said:
                yield f"  {port[:15]}: " + ", ".join(said)

    def queue_lines(self, old, new, seconds):
        cells = []
        for port, queues in new.queues.items():
            if len(queues) <= 2:
                continue
            for name, values in queues.items():
                before = old.queues.get(port, {}).get(name, values)
                state = "*" if values.get("down") or values.get("stopped") else ""
                cells.append(f"{port.removeprefix('net_')[:9]} {name}{state} {si(self.rate(values, before, 'packets', seconds)).strip()}")
        if cells:
            yield "queues, packets a second (* down or stopped)"
        for i in range(0, len(cells), 3):
            yield "  " + "".join(f"{cell[:25]:<26}" for cell in cells[i:i + 3]).rstrip()

    def worker_lines(self, old, new, seconds):
        for lcore, values in new.workers.items():
            before = old.workers.get(lcore, values)
            busy = self.rate(values, before, "busy_cycles", seconds) / new.info["tsc_hz"]
            rounds = self.rate(values, before, "rounds", seconds)
            sleeps = self.rate(values, before, "sleeps", seconds)
            yield (f"{lcore.replace('_', ' '):<10}{values['idle']:<7}busy {100 * min(busy, 1):5.1f} %  "
                   f"{si(rounds).strip()} rounds/s  {si(sleeps).strip()} sleeps/s")


def fit(lines, width, height):
    """So many lines and columns; where there are more lines the last one says so."""
    lines = [line[:width].rstrip() for line in lines]
    if len(lines) > height:
        left = len(lines) - height + 1
        lines = lines[:height - 1] + [f"... {left} further lines; a taller terminal shows them"]
    return lines


def screen_size():
    try:
        size = os.get_terminal_size(sys.stdout.fileno())
        return max(size.columns, 40), max(size.lines, 5)
    except OSError:
        return WIDTH, HEIGHT


class Screen:
    """An alternate screen while it lives, keys without a newline; the terminal is as before afterwards."""

    def __enter__(self):
        self.saved = termios.tcgetattr(sys.stdin) if sys.stdin.isatty() else None
        if self.saved:
            tty.setcbreak(sys.stdin)
        sys.stdout.write("\033[?1049h\033[?25l")
        return self

    def __exit__(self, *_):
        sys.stdout.write("\033[?25h\033[?1049l")
        sys.stdout.flush()
        if self.saved:
            termios.tcsetattr(sys.stdin, termios.TCSADRAIN, self.saved)

    @staticmethod
    def show(lines):
        width, height = screen_size()
        rows = [f"\033[1m{row}\033[0m" if i < 2 else row for i, row in enumerate(fit(lines, width, height))]
        sys.stdout.write("\033[H" + "\033[K\n".join(rows) + "\033[K\033[J")
        sys.stdout.flush()

    def wait(self, seconds):
        """False: q was pressed."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            if self.saved is None:
                time.sleep(left)
            elif select.select([sys.stdin], [], [], left)[0] and sys.stdin.read(1) in ("q", "Q", ""):
                return False
        return True


class Pipe:
    """Plain text, a view behind the other."""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    @staticmethod
    def show(lines):
        print("\n".join(fit(lines, WIDTH, HEIGHT)), flush=True)

    @staticmethod
    def wait(seconds):
        time.sleep(seconds)
        return True


def watch(client, args):
    view, old, shown = View({}), Sample(client), 0
    with Screen() if sys.stdout.isatty() and not args.once else Pipe() as out:
        while args.count == 0 or shown < args.count:
            if not out.wait(args.interval):
                return
            new = Sample(client)
            out.show(list(view.lines(old, new)))
            old, shown = new, shown + 1


def seconds(text):
    value = float(text)
    if not 0.05 <= value <= 3600:
        raise argparse.ArgumentTypeError("it is not 0.05 to 3600")
    return value


def count(text):
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError("it is not 1 or more")
    return value


def main():
    parser = argparse.ArgumentParser(usage="kilim-top.py, see --help")
    parser.format_help = lambda: __doc__ + "\n"
    parser.add_argument("--file-prefix", default="rte", metavar="NAME")
    parser.add_argument("--socket", metavar="PATH")
    parser.add_argument("--interval", type=seconds, default=1.0, metavar="SECONDS")
    parser.add_argument("--count", type=count, default=0, metavar="N")
    parser.add_argument("--once", action="store_true")
    args = parser.parse_args()
    if args.once:
        args.count = 1
    try:
        client = Client(path=args.socket or path_of(args.file_prefix))
        with understood(client.path):
            watch(client, args)
    except TelemetryError as error:
        sys.exit(f"kilim-top: {error}")


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(130)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
