#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""An example around kilim/detail/app, from one file of frames to another; dpkt says what has to come out.

Usage: run_packet_example.py FOLDER EXAMPLE     FOLDER: where the examples are built"""

import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time

import dpkt

EAL = ["--no-huge", "--no-shconf", "--no-pci", "--no-telemetry", "--log-level", "error", "-m", "256"]
MAC = b"\x02\0\0\0\0\x77"
SECONDS = 60


def udp(to, ttl=64, dport=4661, size=100, options=b""):
    payload = bytes(i & 0xff for i in range(size))
    inner = dpkt.udp.UDP(sport=4660, dport=dport, ulen=8 + size, data=payload)
    ip = dpkt.ip.IP(src=socket.inet_aton("198.18.0.1"), dst=socket.inet_aton(to), ttl=ttl, p=17, data=inner, opts=options)
    ip.hl += len(options) // 4
    ip.len = len(ip)
    return bytes(dpkt.ethernet.Ethernet(dst=b"\x02\0\0\0\0\2", src=b"\x02\0\0\0\0\1", data=ip))


def broken(frame, at):
    """One bit of it is wrong, and no checksum knows."""
    return frame[:at] + bytes([frame[at] ^ 1]) + frame[at + 1:]


def tagged(frame):
    return frame[:12] + b"\x81\0\0\5" + frame[12:]


def arp():
    return bytes(dpkt.ethernet.Ethernet(dst=b"\xff" * 6, src=b"\x02\0\0\0\0\1", type=0x806,
                                        data=dpkt.arp.ARP())).ljust(60, b"\0")


def forward():
    frames = [udp("198.18.0.2", size=s) for s in range(18, 1400, 7)] + [arp(), tagged(udp("1.2.3.4"))]
    return [], [(f, f) for f in frames]


def routed(frame, mac):
    """One hop further, every checksum computed anew. The router's own address is learnt from what came out."""
    e = dpkt.ethernet.Ethernet(frame)
    e.dst = mac
    e.data.ttl -= 1
    e.data.sum = 0
    return bytes(e)


def router():
    second = b"\x02\0\0\0\0\x78"
    words = ["198.18.0.0/15:0:" + MAC.hex(":"), "198.18.7.0/24:0:" + second.hex(":"), "203.0.113.9/32:0:" + MAC.hex(":")]
    pairs = [(udp(f"198.18.{i % 7}.{i}", ttl=2 + i, size=50 + i), MAC) for i in range(200)]
    pairs += [(udp("198.18.7.1"), second), (udp("203.0.113.9"), MAC), (udp("198.19.255.255"), MAC)]
    pairs += [(udp("198.18.0.2", options=b"\x01\x01\x01\0"), MAC)]
    pairs = [(frame, routed(frame, mac)) for frame, mac in pairs]
    gone = [udp("198.18.0.2", ttl=1), udp("203.0.113.8"), broken(udp("198.18.0.2"), 16), arp(), tagged(udp("198.18.0.2"))]
    return words, pairs + [(frame, None) for frame in gone]


def answered(frame):
    e = dpkt.ethernet.Ethernet(frame)
    e.src, e.dst = e.dst, e.src
    e.data.src, e.data.dst = e.data.dst, e.data.src
    e.data.ttl, e.data.sum = 64, 0
    u = e.data.data
    u.sport, u.dport, u.sum = u.dport, u.sport, 0
    return bytes(e)


def echo():
    frames = [udp("198.18.0.2", ttl=9, dport=4661, size=s) for s in range(18, 1400, 13)]
    gone = [udp("198.18.0.2", dport=4662), broken(udp("198.18.0.2"), 60), broken(udp("198.18.0.2"), 20), arp()]
    return ["4661"], [(f, answered(f)) for f in frames] + [(f, None) for f in gone]


def l2fwd():
    frames = [udp("198.18.0.2", size=s) for s in range(18, 1400, 7)] + [arp(), tagged(udp("1.2.3.4"))]
    return [], [(f, b"\2\0\0\0\0\0" + f[6:]) for f in frames]   # its source is the port's own: see check()


def write(path, frames):
    with open(path, "wb") as f:
        writer = dpkt.pcap.Writer(f, snaplen=65535)
        for frame in frames:
            writer.writepkt(frame, 0)


def read(path):
    with open(path, "rb") as f:
        return [data for _, data in dpkt.pcap.Reader(f)]


def run(program, folder, words, count, arrived):
    """What the program says of itself, having been stopped when all that has to come out is there."""
    vdev = "net_kilim0,hca=vhca0,wire=pcap:in.pcap:out.pcap"
    process = subprocess.Popen([program, *EAL, "-l", "0", "--vdev", vdev, "--", *words], cwd=folder,
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    end = time.monotonic() + SECONDS
    out = os.path.join(folder, "out.pcap")
    while process.poll() is None and time.monotonic() < end:
        if os.path.exists(out) and os.path.getsize(out) >= arrived:
            break
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    said = process.communicate(timeout=SECONDS)[0]
    assert process.returncode == 0, said
    assert f"received {count}," in said, said
    return said


def check(program, case, folder):
    words, pairs = case()
    write(os.path.join(folder, "in.pcap"), [sent for sent, _ in pairs])
    expected = [got for _, got in pairs if got is not None]
    said = run(program, folder, words, len(pairs), 24 + sum(16 + len(f) for f in expected))
    got = read(os.path.join(folder, "out.pcap"))
    assert len(got) == len(expected), f"{len(got)} of {len(expected)} frames came out\n{said}"
    for number, (frame, want) in enumerate(zip(got, expected)):
        if case in (router, l2fwd):   # its own address, which differs from device to device, is local
            assert frame[6] & 3 == 2 and frame[6:12] == got[0][6:12], f"frame {number}: source {frame[6:12].hex(':')}"
            want = want[:6] + frame[6:12] + want[12:]
        assert frame == want, f"frame {number}: {frame.hex()}\n   wanted: {want.hex()}"
    dropped = len(pairs) - len(expected)
    assert f"sent {len(expected)}, dropped {dropped}, transmit full 0, missed 0" in said, said
    print(f"{len(expected)} frames came out as they should, {dropped} did not")


def refuses(program, words, sentence):
    done = subprocess.run([program, *EAL, "-l", "0", "--vdev", "net_kilim0,hca=vhca0", "--", *words], capture_output=True,
                          text=True, timeout=SECONDS, check=False)
    assert done.returncode == 1 and sentence in done.stderr, (done.returncode, done.stderr)


class Station:
    """A machine at a port of the switch: a socket at the other end of its wire."""

    def __init__(self, folder, number):
        self.mac = bytes([2, 0, 0, 0, 1, number])
        self.theirs, ours = os.path.join(folder, f"switch{number}"), os.path.join(folder, f"station{number}")
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(ours)
        self.socket.settimeout(SECONDS)
        self.vdev = f"net_kilim{number},hca=vhca{number},wire=dgram:{self.theirs}:{ours}"
        self.sent = 0

    def send(self, to):
        """The frame, which no other one is like."""
        self.sent += 1
        frame = to + self.mac + b"\x88\xb5" + self.sent.to_bytes(4, "big") * 12
        self.socket.sendto(frame, self.theirs)
        return frame

    def hears(self, frame):
        got = self.socket.recv(9000)
        assert got == frame, f"{self.mac.hex(':')} heard {got.hex()}\n   wanted: {frame.hex()}"


def forgotten(a, b, c):
    """Until b's address is flooded again: how many frames that took."""
    for tries in range(1, SECONDS * 20):
        frame = a.send(b.mac)
        b.hears(frame)
        try:
            c.socket.settimeout(0.05)
            while c.socket.recv(9000) != frame:
                pass
            c.socket.settimeout(SECONDS)
            return tries
        except TimeoutError:
            pass
    raise AssertionError("a silent address is never forgotten")


def switch(program, folder):
    stations = [Station(folder, number) for number in range(3)]
    a, b, c = stations
    words = [w for s in stations for w in ("--vdev", s.vdev)] + ["--", "--idle=sleep", "0.5"]
    with Program([program, *EAL, "-l", "0", *words], folder) as process:
        while not all(os.path.exists(s.theirs) for s in stations):
            assert process.poll() is None, process.communicate()[0]
            time.sleep(0.02)
        process.await_start()
        frame = a.send(b"\xff" * 6)   # to all
        b.hears(frame), c.hears(frame)
        frame = a.send(b.mac)   # to somebody unknown
        b.hears(frame), c.hears(frame)
        frame = b.send(a.mac)   # known: c hears nothing of it
        a.hears(frame)
        frame = a.send(b.mac)
        b.hears(frame)
        a.send(a.mac)   # to itself: nobody hears of it
        frame = a.send(b"\x01\0\x5e\0\0\1")   # to a group
        b.hears(frame), c.hears(frame)   # and this was the next thing that they heard
        frame = b.send(a.mac)
        a.hears(frame)   # not what it sent to itself
        tries = forgotten(a, b, c)
        said = process.stop()
        assert "transmit full 0" in said and "errors 0" in said, said
    print(f"a switch of three ports learnt and forgot ({tries} frames)")


def workers(program, folder):
    """Many flows mixed; in each the frames are numbered."""
    flows, each = 64, 40
    frames = []
    for number in range(each):
        for flow in range(flows):
            frame = bytearray(udp(f"198.18.1.{flow}", size=40))
            frame[34:36] = (5000 + flow).to_bytes(2, "big")
            frames.append(bytes(frame[:-4]) + number.to_bytes(4, "big"))
    write(os.path.join(folder, "in.pcap"), frames)
    vdev = "net_kilim0,hca=vhca0,wire=pcap:in.pcap:out.pcap,rxq=4,rxd=4096,txd=4096"   # room for all, whoever is late
    with Program([program, *EAL, "--lcores", "0@0,1@0,2@0", "--vdev", vdev], folder) as process:
        process.await_file("out.pcap", 24 + sum(16 + len(f) for f in frames))
        said = process.stop()
    assert f"received {len(frames)}, sent {len(frames)}, dropped 0" in said, said
    assert "out of order in their flow: 0, of no flow: 0" in said, said
    spread = [line.split() for line in said.splitlines() if line.startswith("queue ")]
    assert [s[1] for s in spread] in (["0:", "2:", "1:", "3:"], ["0:", "1:", "2:", "3:"]), said
    assert sum(int(s[2]) for s in spread) == len(frames) and {s[5] for s in spread} == {"0", "1"}, said
    number = {}
    for frame in read(os.path.join(folder, "out.pcap")):
        flow = frame[34:36]
        assert int.from_bytes(frame[-4:], "big") == number.get(flow, 0), f"flow {flow.hex()}"
        number[flow] = number.get(flow, 0) + 1
    assert list(number.values()) == [each] * flows, number
    print("the spread: " + ", ".join(f"{s[2]} by lane {s[5]}" for s in spread))


def dies(program, folder):
    """The device is lost amid traffic: the program ends by itself, with a sentence."""
    write(os.path.join(folder, "in.pcap"), [udp("198.18.0.2", size=100)] * 500)
    vdev = "net_kilim0,hca=vhca0,wire=pcap:in.pcap:out.pcap,fault=fatal@5"
    for how in ("yield", "sleep"):
        done = subprocess.run([program, *EAL, "--lcores", "0@0,1@0", "--vdev", vdev, "--", f"--idle={how}"], cwd=folder,
                              capture_output=True, text=True, timeout=SECONDS, check=False)
        assert done.returncode == 1 and "net_kilim0 has lost its device vhca0 (IBV_EVENT_DEVICE_FATAL)" in done.stderr, done
        assert "received " in done.stdout, done


def wakes(process):
    """How often its threads have left a sleep, by thread, and the nanoseconds that they ran."""
    counts, ns = {}, 0
    for task in os.scandir(f"/proc/{process.pid}/task"):
        with open(os.path.join(task.path, "status"), encoding="ascii") as f:
            counts[task.name] = int(re.search(r"^voluntary_ctxt_switches:\s+(\d+)", f.read(), re.M)[1])
        with open(os.path.join(task.path, "schedstat"), encoding="ascii") as f:
            ns += int(f.read().split()[0])
    return counts, ns


def idle(program, folder):
    """Where nothing comes a sleeping program hardly wakes, and a frame ends a sleep at once instead of
    waiting for a clock. Sleeps are counted, which no other load adds to; times are told only."""
    quiet, rounds, frames = 0.5, 3, 100
    for progress in ("poll", "thread"):
        station = Station(folder, 8 + (progress == "thread"))
        vdev = f"{station.vdev},progress={progress}"
        with Program([program, *EAL, "--lcores", "0@0,1@0", "--vdev", vdev, "--", "--idle=sleep"], folder) as process:
            process.await_start()
            station.hears(station.send(station.mac))   # it runs
            seen = []
            for _ in range(rounds):
                before, ns = wakes(process)
                time.sleep(quiet)
                after, ns_after = wakes(process)
                seen.append((sum(after.values()) - sum(before.values()), ns_after - ns))
            least = min(n for n, _ in seen)
            # The control lcore looks every 10 ms for signals and failed queues; naps would be thousands a second.
            assert least <= 110 * quiet, f"progress={progress}: {least} sleeps ended in {quiet} s without a frame"
            before, _ = wakes(process)
            times = []
            for _ in range(frames):
                time.sleep(0.001)   # asleep again
                start = time.monotonic()
                station.hears(station.send(station.mac))
                times.append(time.monotonic() - start)
            after, _ = wakes(process)
            most = max(after[task] - before.get(task, 0) for task in after)
            assert most <= 4 * frames, f"progress={progress}: {most} sleeps of one thread for {frames} frames"
            share = min(ns for _, ns in seen) / (quiet * 1e9)
            process.stop()
        print(f"progress={progress}: idle {least / quiet:.0f} wake-ups a second, {share * 100:.2f} % of a core; "
              f"a frame there and back {min(times) * 1e6:.0f} us at best")


class Program(subprocess.Popen):
    def __init__(self, words, folder):
        self.args_folder = folder
        super().__init__(words, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.before = ""

    def await_start(self):
        while "SIGINT stops" not in self.before:
            line = self.stdout.readline()
            assert line, self.before
            self.before += line

    def await_file(self, name, size):
        end = time.monotonic() + SECONDS
        path = os.path.join(self.args_folder, name)
        while self.poll() is None and time.monotonic() < end:
            if os.path.exists(path) and os.path.getsize(path) >= size:
                return
            time.sleep(0.02)

    def stop(self):
        self.send_signal(signal.SIGINT)
        said = self.before + self.communicate(timeout=SECONDS)[0]
        assert self.returncode == 0, said
        return said

    def __exit__(self, *what):
        if self.poll() is None:
            self.kill()
        super().__exit__(*what)


# Examples that need more than a file of frames.
OTHERS = {"12_switch": switch, "14_two_workers": workers}
CASES = {"01_forward": forward, "11_router": router, "13_udp_echo": echo, "15_l2fwd": l2fwd}
REFUSED = {"01_forward": (["word"], "unknown word behind --: word"),
           "11_router": (["198.18.0.0/15:1:02:00:00:00:00:77"], "a route is PREFIX/LENGTH:PORT:MAC"),
           "12_switch": (["0.05"], "one word, seconds from 0.1 to 400"),
           "13_udp_echo": (["65536"], "one word, a UDP port from 1 to 65535"),
           "14_two_workers": (["--idle=never"], "--idle= is spin, pause, yield or sleep"),
           "15_l2fwd": (["--pcap=0"], "--pcap=0: it is not PORT:FILE")}


def main(folder, name):
    program = os.path.abspath(os.path.join(folder, name))
    with tempfile.TemporaryDirectory() as scratch:
        if name in OTHERS:
            OTHERS[name](program, scratch)
        else:
            check(program, CASES[name], scratch)
        if name == "01_forward":
            dies(program, scratch)
            idle(program, scratch)
    refuses(program, *REFUSED[name])


if __name__ == "__main__":
    main(*sys.argv[1:])
