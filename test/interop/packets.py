# SPDX-License-Identifier: BSD-3-Clause
"""TCP segments, and frames in VXLAN and GRE, for tests of offloads. Sums are computed here, another
way than the device does it."""

import struct

from testpmd import MAC, PATTERN, checksum

VXLAN_PORT = 4789


def ipv4(protocol, packet, number=0, src=b"\xc6\x12\0\1", dst=b"\xc6\x12\0\2"):
    """An IPv4 packet."""
    head = struct.pack("!BBHHHBBH4s4s", 0x45, 0, 20 + len(packet), number & 0xffff, 0, 64,
                       protocol, 0, src, dst)
    return head[:10] + struct.pack("!H", checksum(head)) + head[12:] + packet


def ether(kind, packet, dst=MAC):
    """An Ethernet frame."""
    return dst + b"\x02\0\0\0\0\x99" + struct.pack("!H", kind) + packet


def tcp(payload, seq=1000, flags=0x10, ports=(5001, 80), number=0, ack=77, window=4096):
    """A frame with one segment of TCP."""
    head = struct.pack("!HHIIBBHHH", *ports, seq, ack, 0x50, flags, window, 0, 0)
    src, dst = b"\x0a\0\0\1", b"\x0a\0\0\2"
    pseudo = src + dst + struct.pack("!BBH", 0, 6, len(head) + len(payload))
    total = checksum(pseudo + head + payload)
    segment = head[:16] + struct.pack("!H", total) + head[18:] + payload
    return ether(0x800, ipv4(6, segment, number, src, dst), b"\x02\0\0\0\0\x31")


def vxlan(inner, number=0, vni=42):
    """The frame in VXLAN; the outer sum of UDP is 0: none."""
    head = struct.pack("!HHHH", 49152, VXLAN_PORT, 16 + len(inner), 0)
    return ether(0x800, ipv4(17, head + struct.pack("!II", 0x08000000, vni << 8) + inner, number))


def gre(inner, number=0):
    """The frame in GRE, with its Ethernet header (transparent bridging)."""
    return ether(0x800, ipv4(47, struct.pack("!HH", 0, 0x6558) + inner, number))


def spoiled(frame, *places):
    """With wrong bytes there."""
    frame = bytearray(frame)
    for at in places:
        frame[at] ^= 0x55
    return bytes(frame)


def bytes_of(number, size):
    """As many bytes that tell a number."""
    return PATTERN[number * 7 % 40000:][:size]
