#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Makes and compares pcap files of Ethernet frames.

Usage: pcap_file.py make FILE COUNT      COUNT frames of UDP over IPv4, sizes and payload random but
                                         the same at every call
       pcap_file.py compare SENT GOT     the same frames in the same order, time aside"""

import random
import struct
import sys

HEADER = struct.pack("<IHHiIII", 0xa1b2c3d4, 2, 4, 0, 0, 65535, 1)


def checksum(data):
    total = sum(struct.unpack(f">{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xffff) + (total >> 16)
    return ~total & 0xffff


def frame(rng, number):
    payload = struct.pack(">I", number) + rng.randbytes(rng.randrange(14, 1440))
    udp = struct.pack(">HHHH", 4660, 4661, 8 + len(payload), 0) + payload
    ip = struct.pack(">BBHHHBBH4B4B", 0x45, 0, 20 + len(udp), number & 0xffff, 0, 64, 17, 0,
                     198, 18, 0, 1, 198, 18, 0, 2)
    ip = ip[:10] + struct.pack(">H", checksum(ip)) + ip[12:]
    return bytes.fromhex("0200000000020200000000010800") + ip + udp


def make(path, count):
    rng = random.Random(1)
    with open(path, "wb") as f:
        f.write(HEADER)
        for number in range(count):
            data = frame(rng, number)
            f.write(struct.pack("<IIII", number // 1000000, number % 1000000, len(data),
                                len(data)) + data)


def frames(path):
    with open(path, "rb") as f:
        head = f.read(24)
        if len(head) != 24 or head[:4] not in (b"\xd4\xc3\xb2\xa1", b"\x4d\x3c\xb2\xa1"):
            sys.exit(f"{path}: not a little-endian pcap file")
        while len(record := f.read(16)) == 16:
            yield f.read(struct.unpack("<IIII", record)[2])


def compare(sent, got):
    count = 0
    arrived = frames(got)
    for data in frames(sent):
        other = next(arrived, None)
        if other != data:
            what = "is missing" if other is None else "differs"
            sys.exit(f"frame {count} of {sent} {what} in {got}")
        count += 1
    if next(arrived, None) is not None:
        sys.exit(f"{got} has more than the {count} frames of {sent}")
    print(f"pcap: {count} frames arrived as they were sent")


if __name__ == "__main__":
    if sys.argv[1:2] == ["make"] and len(sys.argv) == 4:
        make(sys.argv[2], int(sys.argv[3]))
    elif sys.argv[1:2] == ["compare"] and len(sys.argv) == 4:
        compare(sys.argv[2], sys.argv[3])
    else:
        sys.exit(__doc__)
