# SPDX-License-Identifier: BSD-3-Clause
"""Asks the kernel's connection manager what it answers to messages written by hand, and writes down
both, for test/vhca/cm, which asks the adapter's the same. Usage: cm_record.py --build FOLDER
--kernel FOLDER --folder FOLDER --write FILE"""

import argparse
import os
import socket
import sys
import time

import cm_messages as cm
import guest

MACS = ("02:4b:4c:ee:ee:01", guest.MAC)
GIDS = ("fe80::4b:4cff:feee:ee01", "fe80::4b:4cff:feee:ee02")
SETTLE_SECONDS = 1.0    # after which a message has no answer; emulated, the kernel is slow
HOLD, REJECT, ACCEPT, NOBODY = (0x01060000 + port for port in (7471, 7472, 7473, 7474))


class Asker:
    """Sends, hears, writes down. An id or queue pair of the peer's is what it said last."""

    def __init__(self, folder):
        self.wire = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.wire.bind(folder + "/to-guest")
        self.to, self.psn, self.lines = folder + "/guest", 0, []
        self.sent, self.peer_id, self.peer_qpn = set(), 0, 0

    def begin(self, name):
        self.lines.append("# " + name)

    def send(self, data, names_peer=False, names_qpn=False):
        """What names the peer's id, or its queue pair, is marked: there it is another."""
        if names_peer:
            data = data[:28] + self.peer_id.to_bytes(4, "big") + data[32:]
        if names_qpn:
            data = data[:32] + self.peer_qpn.to_bytes(3, "big") + data[35:]
        mark = ">" + "i" * names_peer + "q" * names_qpn
        shown = data[:28] + bytes(4) + data[32:] if names_peer else data
        shown = shown[:32] + bytes(3) + shown[35:] if names_qpn else shown
        self.lines.append(f"{mark} {shown.rstrip(bytes(1)).hex()}")
        self.sent.add(int.from_bytes(data[8:16], "big"))
        self.psn += 1
        self.wire.sendto(cm.frame(MACS, GIDS, data, self.psn), self.to)
        self.hear()

    def hear(self):
        end = time.monotonic() + SETTLE_SECONDS
        while (left := end - time.monotonic()) > 0:
            self.wire.settimeout(left)
            try:
                data = cm.mad_of(self.wire.recv(1 << 16))
            except TimeoutError:
                return
            if data is None:
                continue
            if data[17] in (cm.REP, cm.MRA):
                self.peer_id = int.from_bytes(data[24:28], "big")
            if data[17] == cm.REP:
                self.peer_qpn = int.from_bytes(data[36:39], "big")
            self.lines.append("< " + cm.describe(data, self.sent))


def refusals(a):
    a.begin("nobody listens")
    a.send(cm.req(0x1001, 1, GIDS, service=NOBODY, qpn=0x101))
    a.begin("a program rejects, with data, and again when it is asked again")
    request = cm.req(0x1002, 2, GIDS, service=REJECT, qpn=0x102)
    a.send(request)
    a.send(request)
    a.begin("a GID that is none of the port's")
    a.send(cm.req(0x1003, 3, GIDS, service=HOLD, qpn=0x103, remote_gid=cm.gid("fe80::9")))
    a.begin("a path for failover")
    a.send(cm.req(0x1004, 4, GIDS, service=HOLD, qpn=0x104, alternate=True))
    a.begin("a reliable datagram, an MTU that is none")
    a.send(cm.req(0x1008, 9, GIDS, service=HOLD, qpn=0x108, transport=2))
    a.send(cm.req(0x1009, 10, GIDS, service=HOLD, qpn=0x109, mtu=0))
    a.send(cm.req(0x1009, 10, GIDS, service=HOLD, qpn=0x109, mtu=0))
    a.begin("nobody listens for datagrams")
    a.send(cm.sidr_req(5, 0x1005, NOBODY))
    a.begin("a DREQ for a connection that never was")
    a.send(cm.dreq(6, 0x1006, 0x7777, 0x106))
    a.begin("messages for ids that never were")
    a.send(cm.pair(cm.RTU, 7, 0x1007, 0x7777))
    a.send(cm.pair(cm.DREP, 7, 0x1007, 0x7777))
    a.send(cm.rej(7, 0x1007, 0x7777, 1, 28))
    a.send(cm.pair(cm.LAP, 7, 0x1007, 0x7777))
    a.begin("another version of the class, an attribute that is none")
    a.send(cm.mad(cm.REQ, 8, request[24:], version=1))
    a.send(cm.mad(0x1b, 8, request[24:]))


def held(a):
    a.begin("copies of a REQ that a program has not answered")
    request = cm.req(0x2001, 11, GIDS, service=HOLD, qpn=0x201)
    for _ in range(3):
        a.send(request)
    a.begin("a REQ that is withdrawn by the GUID, and comes again")
    a.send(cm.rej(11, 0x2001, 0, 2, 4, (0x33).to_bytes(8, "big")))
    a.send(cm.req(0x2002, 12, GIDS, service=HOLD, qpn=0x201))
    a.send(cm.req(0x2002, 12, GIDS, service=HOLD, qpn=0x201))


def accepted(a):
    a.begin("a connection, with copies of each message")
    request = cm.req(0x3001, 21, GIDS, service=ACCEPT, qpn=0x301)
    a.send(request)
    a.send(request)
    rtu = cm.pair(cm.RTU, 21, 0x3001, 0)
    a.send(rtu, names_peer=True)
    a.send(rtu, names_peer=True)
    a.send(request)
    a.begin("a DREQ for another queue pair, then the right one, twice")
    a.send(cm.dreq(22, 0x3001, 0, 0x999), names_peer=True)
    a.send(cm.dreq(22, 0x3001, 0, 0), names_peer=True, names_qpn=True)
    a.send(cm.dreq(22, 0x3001, 0, 0), names_peer=True, names_qpn=True)


def stale(a):
    a.begin("the queue pair of a connection in another REQ")
    a.send(cm.req(0x4001, 31, GIDS, service=ACCEPT, qpn=0x401))
    a.send(cm.pair(cm.RTU, 31, 0x4001, 0), names_peer=True)
    a.send(cm.req(0x4002, 32, GIDS, service=ACCEPT, qpn=0x401))
    a.send(cm.pair(cm.DREP, 33, 0x4001, 0), names_peer=True)
    a.begin("and again, when the old one is over")
    a.send(cm.req(0x4003, 34, GIDS, service=HOLD, qpn=0x401))
    a.send(cm.req(0x4003, 34, GIDS, service=HOLD, qpn=0x401))


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    for name in ("--build", "--kernel", "--folder", "--write"):
        p.add_argument(name, required=True)
    o = p.parse_args()
    asker = Asker(o.folder)
    program = os.path.abspath(o.build) + "/test/oracle/cm_listener"
    machine = guest.Guest(o.folder, o.kernel, program, GIDS[0], MACS[0])
    try:
        line = machine.stream.readline().strip()
        if line != "ok ready":
            raise RuntimeError(f"the guest says '{line}'")
        for part in (refusals, held, accepted, stale):
            part(asker)
    except BaseException as e:
        machine.tell(type(e))
        raise
    finally:
        machine.stop()
    version = os.path.basename(os.listdir(o.kernel + "/lib/modules")[0])
    with open(o.write, "w", encoding="ascii") as f:
        f.write(f"# SPDX-License-Identifier: BSD-3-Clause\n# Written by usertools/oracle.sh --cm, of "
                f"Linux {version}: what was sent, what came back.\n")
        f.write("\n".join(asker.lines) + "\n")
    print(f"{sum(line[0] == '<' for line in asker.lines)} answers")


sys.exit(main())
