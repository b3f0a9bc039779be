# SPDX-License-Identifier: BSD-3-Clause
"""DPDK's testpmd with its mlx5 driver under the launcher, and the frames for it.

A session answers commands; what it forwards goes from one capture file to another."""

import ctypes
import os
import random
import shutil
import socket
import struct
import subprocess
import tempfile
import time

PMDS = ("librte_bus_pci.so", "librte_mempool_ring.so", "librte_net_mlx5.so")
PROMPT = "testpmd> "
# Of one process alone.
OWN_MEMORY = ("--no-huge", "-m", "192", "--no-shconf")


def huge_memory(folder):
    """EAL's words for memory that processes share; None where huge pages are too few, or may not be mounted.
    What this mounts is this process's and its children's alone."""
    with open("/proc/meminfo", encoding="ascii") as f:
        free = int(f.read().split("HugePages_Free:")[1].split()[0])
    libc = ctypes.CDLL(None, use_errno=True)
    new_mounts, private = 0x20000, 0x4000 | 1 << 18
    if free < 64 or libc.unshare(new_mounts) != 0 or libc.mount(b"none", b"/", None, private, None) != 0:
        return None
    huge = tempfile.mkdtemp(dir=folder)
    if libc.mount(b"none", huge.encode(), b"hugetlbfs", 0, None) != 0:
        return None
    return ("--huge-dir", huge, "-m", "64")


def unmount(huge):
    detach = 2
    ctypes.CDLL(None).umount2(huge.encode(), detach)


def begin(launcher, wires, options=(), devargs="", eal=OWN_MEMORY, inside=()):
    """A program's line up to its own words, without it: what is before it, and EAL's words."""
    cores = "0,1" if len(os.sched_getaffinity(0)) > 1 else "0@0,1@0"
    lcores = ["-l", cores] if "@" not in cores else ["--lcores", cores]
    before = [*inside, "stdbuf", "-oL", launcher, "--pci", "--devices", str(len(wires)), *options]
    for wire in wires:
        before += ["--wire", wire]
    words = ["--file-prefix=kilim%d" % os.getpid(), "--no-telemetry", *lcores, *eal]
    for name in PMDS:
        words += ["-d", name]
    for i in range(len(wires)):
        words += ["-a", "0000:%02x:00.0%s" % (0x81 + i, devargs)]
    return [*before, "--"], words


class Session:
    """One testpmd with a device for each wire."""

    def __init__(self, launcher, wires, options=(), devargs="", words=(), eal=OWN_MEMORY,
                 mbufs=16384, inside=()):
        before, first = begin(launcher, wires, options, devargs, eal, inside)
        line = [*before, "dpdk-testpmd", *first, "--", "-i", "--no-flush-rx",
                "--total-num-mbufs=%d" % mbufs, *words]
        self.said = tempfile.TemporaryFile("w+b")
        self.process = subprocess.Popen(line, stdin=subprocess.PIPE, stdout=self.said,
                                        stderr=subprocess.STDOUT)
        self.seen = 0
        self.wait_for(PROMPT)

    def text(self):
        return os.pread(self.said.fileno(), 1 << 26, 0).decode(errors="replace")

    def wait_for(self, words, patience=60):
        """What was said since the last look, up to these words."""
        end = time.monotonic() + patience
        while True:
            new = os.pread(self.said.fileno(), 1 << 26, self.seen).decode(errors="replace")
            at = new.find(words)
            if at >= 0:
                self.seen += len(new[:at + len(words)].encode(errors="replace"))
                return new[:at + len(words)]
            if self.process.poll() is not None or time.monotonic() > end:
                raise AssertionError("testpmd did not say %r:\n%s" % (words, self.text()[-6000:]))
            time.sleep(0.01)

    def command(self, words):
        self.process.stdin.write((words + "\n").encode())
        self.process.stdin.flush()
        return self.wait_for(PROMPT)

    def commands(self, *lines):
        return [self.command(line) for line in lines]

    def count(self, name, port=0):
        """Of what the port's statistics tell."""
        said = self.command("show port stats %d" % port)
        return int(said.split(name + ":")[1].split()[0])

    def until(self, name, at_least, port=0, patience=60):
        end = time.monotonic() + patience
        while True:
            now = self.count(name, port)
            if now >= at_least:
                return now
            if time.monotonic() > end:
                raise AssertionError("%s is %d, not %d:\n%s" % (name, now, at_least,
                                                                self.text()[-4000:]))
            time.sleep(0.05)

    def end(self):
        """Ends it; its status."""
        if self.process.poll() is None:
            try:
                self.process.stdin.write(b"quit\n")
                self.process.stdin.close()
            except BrokenPipeError:
                pass
        try:
            return self.process.wait(60)
        finally:
            self.process.kill()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.end()


def checksum(data):
    """The Internet checksum."""
    if len(data) % 2:
        data += b"\0"
    total = sum(struct.unpack("!%dH" % (len(data) // 2), data))
    while total >> 16:
        total = (total & 0xffff) + (total >> 16)
    return ~total & 0xffff


MAC = b"\x02\x4b\x4c\0\0\1"
PATTERN = random.Random(1).randbytes(1 << 16)


def udp(number, size, dst=MAC, ports=None, vlan=None):
    """A frame of this size, without its check sequence; its bytes tell its number."""
    tag = struct.pack("!HH", 0x8100, vlan) if vlan is not None else b""
    length = size - 14 - len(tag)
    source, to = ports or (1024 + number % 60000, 4661)
    at = number * 7 % 40000
    payload = struct.pack("!I", number) + PATTERN[at:at + length - 32]
    head = struct.pack("!BBHHHBBH4s4s", 0x45, 0, length, number & 0xffff, 0, 64, 17, 0,
                       b"\xc6\x12\0\1", struct.pack("!BBH", 198, 18, number & 0xffff))
    head = head[:10] + struct.pack("!H", checksum(head)) + head[12:]
    packet = struct.pack("!HHHH", source, to, length - 20, 0) + payload[:length - 28]
    pseudo = head[12:20] + struct.pack("!BBH", 0, 17, length - 20)
    packet = packet[:6] + struct.pack("!H", checksum(pseudo + packet) or 0xffff) + packet[8:]
    return dst + b"\x02\0\0\0\0\x99" + tag + b"\x08\0" + head + packet


class Neighbour:
    """What is at the other end of a `dgram:` wire."""

    def __init__(self, folder):
        self.wire = "dgram:%s/device:%s/neighbour" % (folder, folder)
        self.device = folder + "/device"
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 22)
        self.socket.bind(folder + "/neighbour")

    def exchange(self, frames, expected=None, patience=20):
        """Sends them; what comes back, until as many have come, and a little longer."""
        wanted = len(frames) if expected is None else expected
        got, end = [], time.monotonic() + patience
        for frame in frames:
            got += self.send(frame, end)
        while len(got) < wanted and time.monotonic() < end:
            got += self.receive(0.05)
        return got + self.receive(0.1)

    def send(self, frame, end):
        """Waits for room; what has come meanwhile."""
        got = []
        while True:
            got += self.receive(0)
            try:
                self.socket.sendto(frame, self.device)
                return got
            except BlockingIOError:
                if time.monotonic() > end:
                    raise AssertionError("the device takes no more frames") from None
                time.sleep(0.0005)

    def receive(self, seconds):
        got = []
        self.socket.settimeout(seconds)
        try:
            while True:
                got.append(self.socket.recv(1 << 16))
        except (BlockingIOError, TimeoutError):
            return got


def write(path, frames):
    with open(path, "wb") as f:
        f.write(struct.pack("<IHHiIII", 0xa1b2c3d4, 2, 4, 0, 0, 65535, 1))
        for data in frames:
            f.write(struct.pack("<IIII", 0, 0, len(data), len(data)) + data)


def read(path):
    """The whole frames of a capture file, which may be longer by now."""
    with open(path, "rb") as f:
        data = f.read()
    frames, at = [], 24
    while at + 16 <= len(data):
        size = struct.unpack_from("<I", data, at + 8)[0]
        if at + 16 + size > len(data):
            break
        frames.append(data[at + 16:at + 16 + size])
        at += 16 + size
    return frames


def toeplitz(key, data):
    """Microsoft's "RSS hashing functions", bit by bit."""
    window, result = int.from_bytes(key, "big"), 0
    bits = len(key) * 8
    for i in range(len(data) * 8):
        if data[i // 8] >> (7 - i % 8) & 1:
            result ^= window >> (bits - 32 - i) & 0xffffffff
    return result


def found():
    return shutil.which("dpdk-testpmd") is not None


