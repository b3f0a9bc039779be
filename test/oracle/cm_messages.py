# SPDX-License-Identifier: BSD-3-Clause
"""Messages of the connection manager and the RoCE frames around them, as the kernel's
<rdma/ibta_vol1_c12.h> lays them out; written here a third time, so that nothing of the adapter's
own code says what is right."""

import ipaddress
import struct
import zlib

REQ, MRA, REJ, REP, RTU, DREQ, DREP, SIDR_REQ, SIDR_REP, LAP, APR = range(0x10, 0x1b)
NAMES = {REQ: "REQ", MRA: "MRA", REJ: "REJ", REP: "REP", RTU: "RTU", DREQ: "DREQ", DREP: "DREP",
         SIDR_REQ: "SIDR_REQ", SIDR_REP: "SIDR_REP", LAP: "LAP", APR: "APR"}
QKEY = 0x80010000


def gid(text):
    return ipaddress.IPv6Address(text).packed


def mad(attribute, tid, body, version=2, *, base=1, of_class=7, method=3):
    data = struct.pack(">BBBBHHQHHI", base, of_class, version, method, 0, 0, tid, attribute, 0, 0) + body
    return data.ljust(256, b"\0")


def req(local, tid, path, *, service=0x01061d2f, qpn=0x111, ca=0x33, mtu=3, transport=0,
        remote_gid=None, alternate=False):
    """`path`: the GIDs of both ends, ours first."""
    ours, theirs = (gid(g) for g in path)
    first = struct.pack(">IIQQIIIIIIHBB", local, 0, service, ca, 0, 0, qpn << 8 | 4, 7,
                        20 << 3 | transport << 1 | 1, 0xabcdef << 8 | 20 << 3 | 5, 0xffff,
                        mtu << 4 | 6, 3 << 4)
    tail = struct.pack(">IBBBB", 0, 0, 64, 0, 19 << 3)
    primary = struct.pack(">HH", 0xffff, 0xffff) + ours + (remote_gid or theirs) + tail
    other = primary if alternate else bytes(44)
    header = struct.pack(">BBH", 0, 6 << 4, 0x1234) + ours + theirs
    return mad(REQ, tid, first + primary + other + header + b"hello")


def pair(attribute, tid, local, remote, rest=b""):
    return mad(attribute, tid, struct.pack(">II", local, remote) + rest)


def dreq(tid, local, remote, qpn):
    return pair(DREQ, tid, local, remote, struct.pack(">I", qpn << 8))


def rej(tid, local, remote, about, reason, info=b""):
    return pair(REJ, tid, local, remote, struct.pack(">BBH", about << 6, len(info) << 1, reason) + info)


def sidr_req(tid, request, service):
    return mad(SIDR_REQ, tid, struct.pack(">IHHQ", request, 0xffff, 0, service))


def icrc(ip, udp, bth):
    masked = b"\xff" * 8 + bytes([ip[0] | 0x0f, 0xff, 0xff, 0xff]) + ip[4:7] + b"\xff" + ip[8:]
    masked += udp[:6] + b"\xff\xff" + bth[:4] + b"\xff" + bth[5:]
    return struct.pack("<I", zlib.crc32(masked) & 0xffffffff)


def frame(macs, gids, data, psn, *, qkey=QKEY, opcode=0x64):
    """A datagram from queue pair 1 to queue pair 1; ours first in both pairs."""
    bth = struct.pack(">BBHII", opcode, 0x40, 0xffff, 1, psn) + struct.pack(">II", qkey, 1) + data
    udp = struct.pack(">HHHH", 0xc000, 4791, len(bth) + 12, 0)
    ip = struct.pack(">IHBB", 6 << 28, len(bth) + 12, 17, 64) + gid(gids[0]) + gid(gids[1])
    ether = b"".join(bytes.fromhex(m.replace(":", "")) for m in (macs[1], macs[0])) + b"\x86\xdd"
    return ether + ip + udp + bth + icrc(ip, udp, bth)


def mad_of(data):
    """The management datagram in a frame; None: it is something else."""
    if len(data) < 342 or data[12:14] != b"\x86\xdd" or data[20] != 17 or data[62] != 0x64:
        return None
    return data[82:338] if int.from_bytes(data[67:70], "big") == 1 else None


def describe(data, sent):
    """What of an answer is the same whoever gives it. `sent`: the transactions that we began."""
    attribute = int.from_bytes(data[16:18], "big")
    tid = int.from_bytes(data[8:16], "big")
    local, remote = struct.unpack(">II", data[24:32])
    words = [NAMES.get(attribute, hex(attribute)), "tid=" + (str(tid) if tid in sent else "own")]
    if data[1] != 7 or data[3] != 3:
        return " ".join([*words, f"class={data[1]}", f"method={data[3]}",
                         f"status={int.from_bytes(data[4:6], 'big')}"])
    if attribute == SIDR_REP:
        return " ".join([*words, f"request={local}", f"status={data[28]}"])
    words += ["local=" + ("0" if local == 0 else "own"), f"remote={remote}"]
    if attribute == REJ:
        words += [f"about={data[32] >> 6}", f"reason={int.from_bytes(data[34:36], 'big')}",
                  f"info={data[33] >> 1}", f"data={data[108:119].hex()}"]
    elif attribute == MRA:
        words += [f"about={data[32] >> 6}", f"time={data[33] >> 3}"]
    elif attribute == REP:
        words += [f"resources={data[48]}", f"depth={data[49]}", f"failover={data[50] >> 1 & 3}",
                  f"rnr={data[51] >> 5}", f"srq={data[51] >> 4 & 1}", f"data={data[60:68].hex()}"]
    elif attribute == DREQ:
        words += [f"qpn={int.from_bytes(data[32:35], 'big'):#x}"]
    return " ".join(words)
