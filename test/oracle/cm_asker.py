# SPDX-License-Identifier: BSD-3-Clause
"""Sends messages of the connection manager that are written by hand, and hears what comes back.
Whoever is asked has cm_listener running: the kernel, or the adapter."""

import os
import socket
import struct
import time

import cm_messages as cm
import guest

MACS = ("02:4b:4c:ee:ee:01", guest.MAC)
GIDS = ("fe80::4b:4cff:feee:ee01", "fe80::4b:4cff:feee:ee02")
SETTLE_SECONDS = 1.0    # after which a message has no answer; emulated, the kernel is slow
HOLD, REJECT, ACCEPT, NOBODY = (0x01060000 + port for port in (7471, 7472, 7473, 7474))


class Asker:
    """Sends, hears, writes down. An id or queue pair of the peer's is what it said last. `end`: who
    is asked, whose wire ends in sockets of that name."""

    def __init__(self, folder, end):
        self.wire = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.name = f"{folder}/to-{end}"
        self.wire.bind(self.name)
        self.to, self.psn, self.lines = f"{folder}/{end}", 0, []
        self.sent, self.peer_id, self.peer_qpn = set(), 0, 0

    def close(self):
        """Others may be on the wire then."""
        self.wire.close()
        os.unlink(self.name)

    def begin(self, name):
        self.lines.append("# " + name)

    def send(self, data, names_peer=False, names_qpn=False, spoil=None, **frame):
        """What names the peer's id, or its queue pair, is marked: there it is another. `spoil`: what
        becomes of the frame on its way."""
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
        whole = cm.frame(MACS, GIDS, data, self.psn, **frame)
        self.wire.sendto(spoil(whole) if spoil else whole, self.to)
        self.hear()

    def forge(self, data):
        """A message with ids that are nearly the peer's, which are not written down."""
        self.lines.append(f"> forged {cm.NAMES[data[17]]}")
        self.psn += 1
        self.sent.add(int.from_bytes(data[8:16], "big"))
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


def flip(at):
    """A frame with one byte changed, which the checksums do not know of."""
    return lambda frame: frame[:at] + bytes([frame[at] ^ 1]) + frame[at + 1:]


def crooked(a):
    """What no manager may hear of. A datagram that is shorter than a base transport header is not
    asked: Linux 6.1 panics of it (drivers/infiniband/sw/rxe/rxe_recv.c, rxe_rcv() puts a queue pair
    that it has not looked for yet)."""
    request = cm.req(0x5001, 41, GIDS, service=NOBODY, qpn=0x501)
    a.begin("frames of other checksums, lengths, keys, opcodes")
    a.send(request, spoil=flip(-1))
    a.send(request, spoil=flip(100))
    a.send(request, spoil=lambda frame: frame[:-1])
    a.send(request, spoil=lambda frame: frame[:60])
    a.send(request[:255])
    a.send(request[:24])
    a.send(b"")
    a.send(request, qkey=0x80010001)
    a.send(request, qkey=0)
    a.send(request, opcode=0x04)
    a.send(request, opcode=0x6a)
    a.send(request)
    a.begin("other versions, classes, methods")
    body = request[24:]
    a.send(cm.mad(cm.REQ, 42, body, base=2))
    a.send(cm.mad(cm.REQ, 43, body, of_class=0x30))
    a.send(cm.mad(cm.REQ, 44, body, method=1))
    a.send(cm.mad(cm.REQ, 45, body, method=0x83))
    a.send(cm.mad(0, 46, body))
    a.send(cm.mad(1, 47, body, method=1))
    a.send(cm.mad(1, 71, body, method=2))
    for number, of_class in enumerate((0x01, 0x03, 0x04, 0x06, 0x09, 0x30, 0x81), 72):
        a.send(cm.mad(0x12, number, body, of_class=of_class, method=1))
    a.send(cm.mad(0xffff, 48, body))
    a.begin("lengths that lie, values that are none")
    a.send(cm.pair(cm.REJ, 49, 0x5002, 0, struct.pack(">BBH", 3 << 6, 0xfe, 4)))
    a.send(cm.rej(50, 0x5003, 0x7777, 0, 0xffff))
    a.send(cm.mad(cm.SIDR_REP, 51, struct.pack(">IBBHI", 0x7777, 0, 0xff, 0, 1)))
    a.send(cm.mad(cm.REQ, 52, b"\xff" * 232))
    a.send(cm.mad(cm.REQ, 53, bytes(232)))
    a.send(cm.mad(cm.SIDR_REQ, 54, b"\xff" * 232))
    a.send(cm.mad(cm.SIDR_REQ, 55, bytes(232)))
    a.send(cm.pair(cm.DREQ, 56, 0, 0))
    a.send(cm.pair(cm.DREQ, 57, 0xffffffff, 0xffffffff, b"\xff" * 224))
    a.begin("forged ids beside a connection, then its own end")
    a.send(cm.req(0x6001, 61, GIDS, service=ACCEPT, qpn=0x601))
    a.send(cm.pair(cm.RTU, 61, 0x6001, 0), names_peer=True)
    peer = a.peer_id
    for remote, local in ((peer ^ 1, 0x6001), (peer, 0x6002), (peer ^ 1 << 31, 0x6001)):
        a.forge(cm.dreq(62, local, remote, a.peer_qpn))
        a.forge(cm.rej(63, local, remote, 2, 28))
        a.forge(cm.pair(cm.DREP, 64, local, remote))
    a.send(cm.dreq(65, 0x6001, 0, 0), names_peer=True, names_qpn=True)


# What test/vhca/cm asks too, and what is for the layers below.
OF_THE_AGENT = (refusals, held, accepted, stale)
ALL = (*OF_THE_AGENT, crooked)
