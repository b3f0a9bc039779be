#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Makes and compares pcap files of Ethernet frames.

Usage: pcap_file.py make FILE COUNT      COUNT frames of UDP over IPv4, sizes
                                         and payload random but
                                         the same at every call
       pcap_file.py compare SENT GOT     the same frames in the same order, time
                                         aside"""

import itertools
import os
import random
import socket
import stat
import sys

if __name__ == "__main__" and {"-h", "--help"} & set(sys.argv[1:]):
    print(__doc__)
    sys.exit(0)

try:
    import dpkt
except ImportError:
    if __name__ != "__main__":
        raise
    sys.exit("pcap_file.py: it needs dpkt: install python3-dpkt")

MOST_BYTES = 16 << 30     # of a file
MOST_OF_FRAME = 1 << 20   # which may claim 4 GiB
FROM, TO = socket.inet_aton("198.18.0.1"), socket.inet_aton("198.18.0.2")


def frame(rng, number):
    payload = number.to_bytes(4, "big") + rng.randbytes(rng.randrange(14, 1440))
    udp = dpkt.udp.UDP(sport=4660, dport=4661, ulen=8 + len(payload), data=payload)
    ip = dpkt.ip.IP(src=FROM, dst=TO, id=number & 0xffff, p=dpkt.ip.IP_PROTO_UDP, data=udp)
    ip.len = len(ip)
    return bytes(dpkt.ethernet.Ethernet(dst=b"\x02\0\0\0\0\2", src=b"\x02\0\0\0\0\1", data=ip))


def make(path, count):
    rng = random.Random(1)
    with open(path, "wb") as f:
        writer = dpkt.pcap.Writer(f, snaplen=65535)
        for number in range(count):
            writer.writepkt(frame(rng, number), number / 1000000)


def opened(path):
    """A regular file: another one may have no end, or nobody who writes it."""
    try:
        f = open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK))
    except OSError as error:
        sys.exit(f"{path}: {error.strerror}")
    found = os.fstat(f.fileno())
    if not stat.S_ISREG(found.st_mode):
        sys.exit(f"{path}: it is no regular file, as a pcap file is")
    if found.st_size > MOST_BYTES:
        sys.exit(f"{path}: it is longer than {MOST_BYTES >> 30} GiB")
    return f


class Pieces:
    """A file of which nobody takes more than a frame at once."""

    def __init__(self, file):
        self.file, self.name = file, file.name

    def read(self, count):
        if count > MOST_OF_FRAME:
            raise ValueError(f"a frame of {count} bytes")
        return self.file.read(count)


def frames(path):
    with opened(path) as f:
        try:
            yield from (data for _, data in dpkt.pcap.Reader(Pieces(f)))
        except (ValueError, dpkt.dpkt.Error) as error:
            sys.exit(f"{path}: not a pcap file: {error}")


def compare(sent, got):
    count = 0
    for data, other in itertools.zip_longest(frames(sent), frames(got)):
        if data is None:
            sys.exit(f"{got} has more than the {count} frames of {sent}")
        if other != data:
            what = "is missing" if other is None else "differs"
            sys.exit(f"frame {count} of {sent} {what} in {got}")
        count += 1
    print(f"pcap: {count} frames arrived as they were sent")


if __name__ == "__main__":
    try:
        if sys.argv[1:2] == ["make"] and len(sys.argv) == 4:
            make(sys.argv[2], int(sys.argv[3]))
        elif sys.argv[1:2] == ["compare"] and len(sys.argv) == 4:
            compare(sys.argv[2], sys.argv[3])
        else:
            sys.exit(__doc__)
    except KeyboardInterrupt:
        sys.exit(130)
