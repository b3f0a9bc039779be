# SPDX-License-Identifier: BSD-3-Clause
"""Asks the kernel's rdma_rxe what it thinks of the virtual adapter: each scenario with the adapter
as requester, then with the kernel as requester, compared with the InfiniBand specification; then
its connection manager (cm_oracle.py).

The last line is `oracle: N of N agree`; the exit status is 0 only if all do.
"""

import argparse
import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time

import cm_oracle
import guest
import relay
import scenario
from end import End
from run import Run

MAC = "02:4b:4c:ee:ee:01"
GID = {"hca": "fe80::4b:4cff:feee:ee01", "guest": "fe80::4b:4cff:feee:ee02"}
LEAST = 20     # scenarios that a whole run has, in either direction
PARTS = ("verbs", *cm_oracle.PARTS)
MTUS = {1024: 3, 4096: 5}


def arguments():
    p = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    p.add_argument("--build", required=True, help="folder of a build")
    p.add_argument("--kernel", required=True, help="folder of an unpacked Debian kernel package")
    p.add_argument("--folder", required=True, help="for files of this run, empty, of a short name")
    p.add_argument("--seed", type=int, default=1, help="of random requests and losses (1)")
    p.add_argument("--mtu", type=int, default=1024, choices=sorted(MTUS), help="of paths (1024)")
    p.add_argument("--only", default="", help="scenarios of verbs whose names contain this")
    p.add_argument("--part", default="", choices=PARTS, help="one of the parts (all)")
    return p.parse_args()


def start_adapter(folder, build, peer):
    process = subprocess.Popen(
        [build + "/app/kilim-vhca", "--wire", relay.names_of(folder), "--mac", MAC, "--", peer,
         "vhca0"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        preexec_fn=guest.end_with_parent)
    return process


def end_adapter(process):
    """The end of its input ends the peer program, and the launcher with it."""
    try:
        process.stdin.close()
        process.wait(timeout=10)
    except (OSError, subprocess.TimeoutExpired):
        process.terminate()
        process.wait()


def wait_ready(name, stream):
    line = stream.readline().strip()
    if line != "ok ready":
        raise RuntimeError(f"{name}: the peer program says '{line}'")


def compare(run, found):
    """(agrees, lines about it). An exception is believed only if it is as it says."""
    good = True
    lines = [f"    {field}: {' '.join(value) or '-'}: {why}"
             for field, (value, why) in run.exceptions.items()]
    for field, wanted in run.wanted().items():
        if found[field] != wanted:
            good = False
            lines.append(f"    {field}: wanted {' '.join(wanted) or '-'}, "
                         f"found {' '.join(found[field]) or '-'}")
    return good, lines


class Oracle:
    def __init__(self, options):
        self.options, self.folder = options, options.folder
        here = os.path.dirname(os.path.abspath(__file__))
        self.scenarios = [s for name in ("good", "violations")
                          for s in scenario.read_scenarios(f"{here}/{name}.txt")
                          if options.only in s.name]
        self.exceptions = scenario.read_exceptions(here + "/exceptions.tsv")
        self.agreed = self.asked = self.lost = self.of_a_card = 0

    def ask(self, ends, wires):
        for s in self.scenarios:
            for kernel_part in "pr":
                self.one(s, kernel_part, ends, wires)

    def one(self, s, kernel_part, ends, wires):
        hca, kernel = ends
        pair = {"r": hca, "p": kernel} if kernel_part == "p" else {"r": kernel, "p": hca}
        start = time.monotonic()
        parts = ("kernel as " + kernel_part, "adapter as " + ("r" if kernel_part == "p" else "p"))
        told = {who: {field: value for (name, w, field), value in self.exceptions.items()
                      if (name, w) == (s.name, who)} for who in parts}
        told = {who: fields for who, fields in told.items() if fields}
        exceptions = {field: value for fields in told.values() for field, value in fields.items()}
        run = Run(s, pair, wires, {"plan": relay.Plan, "seed": self.options.seed,
                                   "mtu": MTUS[self.options.mtu], "exceptions": exceptions})
        try:
            good, lines = compare(run, run.run())
        except RuntimeError as e:
            good, lines = False, [f"    {e}"]
        apart = good and any(who.startswith("adapter") for who in told)
        self.of_a_card += apart
        self.asked += not apart
        self.agreed += good and not apart
        self.lost += run.lost
        who = "adapter to kernel" if kernel_part == "p" else "kernel to adapter"
        lost = f", {run.lost} packets lost" if run.lost else ""
        self.tell(good, f"{s.name} ({who}, {time.monotonic() - start:.1f} s{lost})", *lines)

    @staticmethod
    def tell(good, *lines):
        print(f"{'agrees  ' if good else 'DISAGREES'}", end=" ")
        print(*lines, sep="\n", flush=True)

    def count(self, good, *lines):
        """Of the connection manager."""
        self.asked += 1
        self.agreed += good
        self.tell(good, *lines)

    def run_cm(self):
        of_cm = cm_oracle.CmOracle(self.options, self.count)
        try:
            of_cm.run()
        finally:
            self.lost += of_cm.lost

    def run_verbs(self):
        peer = self.options.build + "/test/oracle/peer"
        wires = relay.Relay(self.folder)
        with contextlib.ExitStack() as at_end:
            adapter = start_adapter(self.folder, self.options.build, peer)
            at_end.callback(end_adapter, adapter)
            wait_ready("adapter", adapter.stdout)
            machine = guest.Guest(self.folder, self.options.kernel, {"/peer": peer},
                                  (GID["hca"], MAC))
            at_end.callback(machine.stop)
            at_end.push(machine.tell)
            wait_ready("kernel", machine.stream)
            ends = (End("hca", adapter.stdin, adapter.stdout, GID["hca"]),
                    End("guest", machine.stream, machine.stream, GID["guest"]))
            self.ask(ends, wires)


def main():
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: sys.exit(130))
    options = arguments()
    guest.end_with_parent()
    oracle = Oracle(options)
    try:
        if options.part in ("", "verbs"):
            oracle.run_verbs()
        if options.part != "verbs" and not options.only:
            oracle.run_cm()
    except (OSError, RuntimeError, subprocess.SubprocessError) as e:
        print(f"oracle: {e}")
        oracle.asked = max(oracle.asked + 1, 2 * len(oracle.scenarios))
    finally:
        shutil.rmtree(options.folder, ignore_errors=True)
    print(f"{oracle.lost} packets were lost on purpose; {oracle.of_a_card} answers of the adapter "
          "are a card's instead of the specification's (exceptions.tsv)")
    print(f"oracle: {oracle.agreed} of {oracle.asked} agree")
    whole = options.only != "" or options.part != "" or oracle.asked >= 2 * LEAST
    sys.exit(0 if whole and oracle.asked and oracle.agreed == oracle.asked else 1)


if __name__ == "__main__":
    main()
