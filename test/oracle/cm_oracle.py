# SPDX-License-Identifier: BSD-3-Clause
"""Asks the kernel's connection manager and the adapter's the same, and compares: messages written by
hand (cm_asker.py), calls of librdmacm with both ends on one port (cm_ends.hh), and librdmacm's own
programs between the two (cm_peers.py). Part of oracle.py."""

import contextlib
import os
import shutil
import subprocess
import threading

import cm_asker
import cm_peers
import guest
import relay
from shell import Shell

UNREACHABLE, SILENT = "10.9.9.9", "10.7.0.99"
SCENARIO_SECONDS = 240
PARTS = ("messages", "calls", "peers")
PROGRAMS = ("rping", "rdma_server", "rdma_client", "ucmatose", "udaddy", "mckey", "rstream")


def exchanges(lines):
    """[(of which part, what was sent, what came back)]"""
    found, part = [], ""
    for line in lines:
        if line[0] == "#":
            part = line[2:]
        elif line[0] == ">":
            found.append((part, line, []))
        else:
            found[-1][2].append(line)
    return found


def scenarios(text):
    return dict(line.split(" = ", 1) for line in text.splitlines() if " = " in line)


class CmOracle:
    """`told(good, name, *lines)` hears of each comparison."""

    def __init__(self, options, told):
        self.options, self.told = options, told
        self.folder = options.folder + "/cm"    # the other part's sockets are still there
        os.mkdir(self.folder, 0o700)
        self.build = os.path.abspath(options.build)
        self.exceptions = self.read_exceptions()
        self.lost = 0

    @staticmethod
    def read_exceptions():
        """{message or scenario: (what the adapter says instead, why)}"""
        here = os.path.dirname(os.path.abspath(__file__))
        with open(here + "/cm_exceptions.tsv", encoding="ascii") as f:
            rows = [line.rstrip("\n").split("\t") for line in f
                    if line.strip() and not line.startswith("#")]
        return {name: (says, why) for name, says, why in rows}

    def launcher(self, ours, theirs, mac, ip=""):
        wire = f"dgram:{self.folder}/{ours}:{self.folder}/{theirs}" + (f"+ip:{ip}/24" if ip else "")
        return [self.build + "/app/kilim-vhca", "--wire", wire, "--mac", mac, "--"]

    @contextlib.contextmanager
    def adapter(self, launcher, *words):
        process = subprocess.Popen([*launcher, *words], stdin=subprocess.DEVNULL,
                                   stdout=subprocess.PIPE, text=True,
                                   preexec_fn=guest.end_with_parent)
        try:
            yield process
        finally:
            process.terminate()
            process.wait()

    def ask_messages(self, shell):
        lines = {}

        def ask(end):
            asker = cm_asker.Asker(self.folder, end)
            for part in cm_asker.ALL:
                part(asker)
            lines[end] = asker.lines
            asker.close()

        program = self.build + "/test/oracle/cm_listener"
        shell.get("/cm_listener rxe0 /run/listener > /run/listener-says 2>&1 &")
        shell.until("grep -q ready /run/listener")
        with self.adapter(self.launcher("hca", "to-hca", cm_asker.MACS[1]), program, "vhca0",
                          "/dev/stdout") as adapter:
            if adapter.stdout.readline().strip() != "ok ready":
                raise RuntimeError("the adapter's listener does not start")
            threads = [threading.Thread(target=ask, args=(end,)) for end in ("hca", "guest")]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        shell.get("kill $!")
        return lines

    def compare_messages(self, shell):
        lines = self.ask_messages(shell)
        if set(lines) != {"hca", "guest"}:
            raise RuntimeError("messages could not be asked")
        both = zip(exchanges(lines["guest"]), exchanges(lines["hca"]))
        number, last = 0, ""
        for (part, sent, kernel), (_, _, adapter) in both:
            number = number + 1 if part == last else 1
            last = part
            self.compare(f"{part}, {number}", " ".join(kernel) or "-", " ".join(adapter) or "-", sent)

    def compare(self, name, kernel, adapter, asked=""):
        instead, why = self.exceptions.get(name, (kernel, ""))
        good = adapter == instead and (not why or instead != kernel)
        lines = [f"    {why}"] if why else []
        if not good:
            lines += [f"    {asked}"] * bool(asked) + [f"    kernel  {kernel}", f"    adapter {adapter}"]
        self.told(good, name, *lines)

    def compare_calls(self, shell):
        program = self.build + "/test/oracle/cm_asker"
        words = [guest.IP, UNREACHABLE, SILENT]
        launcher = self.launcher("alone", "nobody", guest.MAC, guest.IP)
        with self.adapter(launcher, program, *words) as adapter:
            shell.get(f"timeout {SCENARIO_SECONDS} /cm_asker {' '.join(words)} > /run/calls 2>&1 &")
            shell.wait("$!", SCENARIO_SECONDS)
            kernel = scenarios(shell.get("cat /run/calls"))
            own = scenarios(adapter.communicate(timeout=SCENARIO_SECONDS)[0])
        for name, says in kernel.items():
            self.compare(name, says, own.get(name, "nothing"))
        for name in own.keys() - kernel.keys():
            self.told(False, name, "    the kernel does not say")

    def run_peers(self, shell):
        gids = {"hca": cm_asker.GIDS[0], "guest": cm_asker.GIDS[1]}
        peers = cm_peers.Peers(shell, self.launcher("hca", "to-hca", cm_asker.MACS[0],
                                                         cm_peers.IPS["hca"]),
                               relay.Relay(self.folder), self.options.seed, gids)
        for row in cm_peers.PROGRAMS:
            for server in ("guest", "hca"):
                wrong, lost = peers.run(row, server)
                self.lost += lost
                which = "adapter to kernel" if server == "guest" else "kernel to adapter"
                more = f", {lost} packets lost" if lost else ""
                self.told(not wrong, f"{row[0]} ({which}{more})", *([wrong] if wrong else []))

    def run(self):
        programs = {"/usr/bin/" + name: shutil.which(name) for name in PROGRAMS}
        programs |= {"/" + name: f"{self.build}/test/oracle/{name}"
                     for name in ("cm_listener", "cm_asker")}
        machine = guest.Guest(self.folder, self.options.kernel, programs,
                              (cm_asker.GIDS[0], cm_asker.MACS[0]), guest.SHELL)
        with contextlib.ExitStack() as at_end:
            at_end.callback(machine.stop)
            at_end.push(machine.tell)
            shell = Shell(machine.stream)
            parts = (self.compare_messages, self.compare_calls, self.run_peers)
            for name, part in zip(PARTS, parts):
                if self.options.part in ("", name):
                    part(shell)
