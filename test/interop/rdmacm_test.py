# SPDX-License-Identifier: BSD-3-Clause
"""Programs of others that connect through librdmacm, in two processes each: librdmacm's own,
perftest -R, libfabric, fio; and our own: a TCP program over rsockets, what others do not try, librpma.
Usage: rdmacm_test.py KILIM_VHCA SLOW_ARP ECHO CM_LIFE RPMA
"""

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import dpkt

import pair

SLOW_ARP, ECHO, CM_LIFE, RPMA = (os.path.abspath(p) for p in sys.argv[2:6])
RSOCKETS = "/usr/lib/x86_64-linux-gnu/rsocket/librspreload.so"
NAMESPACE_IPS = "10.11.0.1", "10.11.0.2"
SERVER, CLIENT = "127.0.0.1", "127.0.0.2"   # programs have a TCP connection beside it, by the same


def preloaded(library, words):
    """The words with a library in front of the program, behind the launcher's own."""
    return ["sh", "-c", f'LD_PRELOAD="$LD_PRELOAD:{library}" exec "$@"', "sh", *words.split()]


class CmPair:
    """A server and a client of librdmacm, on a folder of their own."""

    def __init__(self, server, client, ready=None, port=None, client_part=""):
        self.folder = tempfile.mkdtemp(prefix="kilim-cm")
        self.outputs = []
        self.port = port
        self.parts = "", client_part   # of the wires' specs
        self.server = self.run(0, server)
        self.wait_until(ready)
        self.client = self.run(1, client)

    def launcher(self, which):
        wire = f"unix:{self.folder}/w+ip:{(SERVER, CLIENT)[which]}/8+ip:fd07::{which + 1}/64"
        wire += self.parts[which]
        return [pair.LAUNCHER, "--wire", wire, "--"]

    def run(self, which, words):
        self.outputs.append(tempfile.TemporaryFile("w+"))
        words = words.split() if isinstance(words, str) else words
        return subprocess.Popen([*self.launcher(which), *words], stdin=subprocess.DEVNULL,
                                stdout=self.outputs[-1], stderr=subprocess.STDOUT,
                                cwd=self.folder)

    def text(self, which):
        self.outputs[which].seek(0)
        return self.outputs[which].read()

    def wait_until(self, ready):
        """Until the server listens on its TCP port, or says that it is about to; most do neither, and
        have opened rdma_cm by then. Between these words and rdma_listen() lies nothing to wait for."""
        end = time.monotonic() + pair.PATIENCE
        while self.server.poll() is None and time.monotonic() < end:
            if self.port is not None and self.port.listened():
                return
            if ready is not None and ready in self.text(0):
                time.sleep(0.2)
                return
            if self.port is None and ready is None and self.listens():
                time.sleep(0.5)
                return
            time.sleep(0.02)

    def listens(self):
        folder = f"{self.folder}/w"
        return os.path.exists(folder) and any(n.startswith("slot-") for n in os.listdir(folder))

    def end(self, server_stays=False):
        """Both exit codes and both texts."""
        try:
            client = self.client.wait(pair.PATIENCE)
            if server_stays or client != 0:
                self.server.terminate()   # the launcher hands it on: no server is left behind
            server = self.server.wait(pair.PATIENCE)
        except subprocess.TimeoutExpired:
            client = server = None    # the texts say more
        finally:
            for process in (self.client, self.server):
                process.kill()
                process.wait()
            if self.port is not None:
                self.port.socket.close()
        text = self.text(0) + "\n-- client:\n" + self.text(1)
        for file in self.outputs:
            file.close()
        shutil.rmtree(self.folder, ignore_errors=True)
        return client, 0 if server_stays else server, text


class Namespaces:
    """Two network namespaces, one end of a cable of the kernel's (veth(4)) in each."""

    def __init__(self):
        self.holders = [subprocess.Popen(["unshare", "--net", "sleep", "600"],
                                         stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
                        for _ in range(2)]
        ours = os.readlink("/proc/self/ns/net")
        end = time.monotonic() + pair.PATIENCE
        while any(h.poll() is None and os.readlink(f"/proc/{h.pid}/ns/net") == ours
                  for h in self.holders) and time.monotonic() < end:
            time.sleep(0.01)
        if any(h.poll() is not None for h in self.holders):
            raise unittest.SkipTest("no network namespace can be made here")
        made = subprocess.run("ip link add cm0 netns {} type veth peer name cm1 netns {}".format(
            *(h.pid for h in self.holders)).split(), stderr=subprocess.PIPE, text=True)
        if "Unknown device type" in made.stderr or "not supported" in made.stderr:
            self.end()
            raise unittest.SkipTest("this kernel has no veth: " + made.stderr.strip())
        made.check_returncode()
        for which, address in enumerate(NAMESPACE_IPS):
            for words in (f"addr add {address}/24 dev cm{which}", f"link set cm{which} up",
                          "link set lo up"):
                self.call("ip " + words, which)

    def enter(self, which):
        return ["nsenter", f"--net=/proc/{self.holders[which].pid}/ns/net"]

    def call(self, words, which=None):
        subprocess.run([*([] if which is None else self.enter(which)), *words.split()], check=True)

    def has_socket(self, which):
        """Whether somebody is on the interface by af_packet."""
        with open(f"/proc/{self.holders[which].pid}/net/packet", encoding="ascii") as lines:
            return len(lines.readlines()) > 1

    def end(self):
        for holder in self.holders:
            holder.kill()
            holder.wait()


class NamespacePair(CmPair):
    """Server and client in a namespace each: the interfaces' own addresses, found by ARP."""

    def __init__(self, namespaces, server, client, ready=None):
        self.namespaces = namespaces
        super().__init__(server, client, ready)

    def launcher(self, which):
        return [*self.namespaces.enter(which), pair.LAUNCHER, "--wire", f"af_packet:cm{which}",
                "--mac", f"02:00:00:00:00:0{which + 1}", "--"]

    def listens(self):
        return self.namespaces.has_socket(0)


def programs(server, client, more=()):
    """Name, server, client, what the texts have to say."""
    return (
        ("rping", f"rping -s -a {server} -C 3 -v", f"rping -c -a {server} -C 3 -v", r"(?s)rdma-ping-2.*rdma-ping-2"),
        ("ucmatose", f"ucmatose -b {server} -c 5", f"ucmatose -s {server} -c 5", r"(?s)data transfers complete.*data transfers complete"),
        ("udaddy", f"udaddy -b {server} -c 3", f"udaddy -s {server} -c 3", r"(?s)data transfers complete.*data transfers complete"),
        ("mckey", f"mckey -b {server} -m 239.7.0.1", f"mckey -b {client} -m 239.7.0.1 -s", r"(?s)test complete\nreturn status 0.*return status 0"),
        ("cmtime", f"cmtime -b {server} -c 10", f"cmtime -s {server} -c 10", r"connect +: +\d"),
        ("rstream", f"rstream -b {server} -S 1000 -C 10", f"rstream -s {server} -S 1000 -C 10", r"1000 .*10"),
        ("riostream", f"riostream -b {server} -S 1000 -C 10", f"riostream -s {server} -S 1000 -C 10", r"1000 .*10"),
        *more,
    )


PROGRAMS = programs(SERVER, CLIENT, (
    ("rping IPv6", "rping -s -a fd07::1 -C 3 -v", "rping -c -a fd07::1 -C 3 -v", r"(?s)rdma-ping-2.*rdma-ping-2"),
    ("ucmatose migrates", "ucmatose -m", f"ucmatose -s {SERVER} -m", r"migrating"),
    ("rdma_server", "rdma_server", f"rdma_client -s {SERVER}", r"(?s)end 0.*end 0"),
    ("XRC", "rdma_xserver -c x", f"rdma_xclient -s {SERVER} -c x", r"(?s)end 0.*end 0"),
))
PERFTEST = ("ib_send_bw", "ib_send_lat", "ib_write_bw", "ib_write_lat", "ib_read_bw", "ib_read_lat",
            "ib_atomic_bw", "ib_atomic_lat")


class Rdmacm(pair.PairTest):
    def check(self, name, pair_of_two, wanted, server_stays=False):
        client, server, text = pair_of_two.end(server_stays)
        self.assertEqual((client, server), (0, 0), (name, text))
        self.assertRegex(text, wanted, name)

    def test_librdmacm(self):
        """librdmacm's own programs connect, move data and part"""
        for name, server, client, wanted in PROGRAMS:
            with self.subTest(name=name):
                self.check(name, CmPair(server, client), wanted, name == "cmtime")

    def test_namespaces(self):
        """the same in two namespaces over af_packet: ARP and frames are the kernel's; then
        perftest through rdma_cm"""
        namespaces = Namespaces()
        self.addCleanup(namespaces.end)
        for name, server, client, wanted in programs(*NAMESPACE_IPS):
            with self.subTest(name=name):
                self.check(name, NamespacePair(namespaces, server, client), wanted,
                           name == "cmtime")
        for name in PERFTEST if pair.LONG else PERFTEST[2:3]:
            with self.subTest(name=name):
                words = f"{name} -R -n 100"
                client = preloaded(SLOW_ARP, f"{words} {NAMESPACE_IPS[0]}")
                self.check(name, NamespacePair(namespaces, f"stdbuf -oL {words}", client,
                                               "Waiting for client"), r"(?m)^ *\d+ +100 ")

    def test_shared(self):
        """processes of one launcher share its adapter: they connect by its own address, a port has
        one listener, and one that has none is refused at once"""
        script = ("rping -c -a 198.18.7.1 -C 1; echo nobody $?; rping -s -a 198.18.7.1 -C 2 -v &"
                  "until rping -c -a 198.18.7.1 -C 2 -v; do sleep 0.1; done; wait; echo pinged $?;"
                  "udaddy -b 198.18.7.1 -c 2 & sleep 0.3; udaddy -b 198.18.7.1; echo second $?;"
                  "udaddy -s 198.18.7.1 -c 2; echo sent $?; wait")
        done = subprocess.run([pair.LAUNCHER, "--shared", "--ip", "198.18.7.1/24", "--", "sh", "-c",
                               script], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              timeout=pair.PATIENCE)
        text = done.stdout + done.stderr
        self.assertRegex(text, r"_REJECTED, error 8", text)
        self.assertRegex(text, r"(?s)nobody 255.*rdma-ping-1.*pinged 0.*second 255.*sent 0", text)
        self.assertIn("Address already in use", text)

    # After its first connection perftest's client asks for the next while the server is still on its
    # way to rdma_listen() (create_rdma_cm_connection()); refused with reason 8 it means to ask again,
    # and dies in librdmacm of an id that it has destroyed already. A network's ARP gives it the time.
    def test_perftest(self):
        """perftest -R connects its queues through rdma_cm"""
        for name in PERFTEST:
            with self.subTest(name=name):
                words = f"{name} -R -n 100"
                both = CmPair(f"stdbuf -oL {words}", preloaded(SLOW_ARP, f"{words} {SERVER}"),
                              "Waiting for client")
                self.check(name, both, r"(?m)^ *\d+ +100 ")

    def test_rsockets(self):
        """a TCP program talks RDMA by librspreload: its client comes from the other port's address"""
        port = pair.Port()
        port.socket.close()
        both = CmPair(preloaded(RSOCKETS, f"{ECHO} {port.number}"),
                      preloaded(RSOCKETS, f"{ECHO} {port.number} {SERVER}"))
        self.check("echo", both, rf"(?s)client {CLIENT}\n.*all 1048576 bytes came back")

    def test_life(self):
        """a fork has no ids of its parent's, options reach the queue pair, who exits is missed"""
        frames = os.path.join(self.folder, "frames.pcap")
        both = CmPair(f"{CM_LIFE} {SERVER}", f"{CM_LIFE} {SERVER} client", client_part=f"+tee:{frames}")
        self.check("cm_life", both, r"(?s)child 0\nnews 0\n.*_DISCONNECTED.*tos 0x68 ack timeout 9")
        with open(frames, "rb") as f:
            packets = [dpkt.ethernet.Ethernet(frame).data for _, frame in dpkt.pcap.Reader(f)]
        classes = {(socket.inet_ntoa(p.src), p.tos) for p in packets if isinstance(p, dpkt.ip.IP)}
        # The answers take the class of the REQ's path (cm.c, cm_format_paths_from_req()).
        self.assertEqual(classes, {(CLIENT, 0x68), (SERVER, 0x68)})

    def test_rpma(self):
        """librpma writes, flushes and reads remote memory"""
        both = CmPair(f"{RPMA} {SERVER}", f"{RPMA} {SERVER} client")
        self.check("rpma", both, r"(?s)the page is written.*the page reads right")

    def test_libfabric(self):
        """libfabric's endpoints with connections, and its reliable datagrams above them"""
        for provider, kind in (("verbs", "msg"), ("verbs;ofi_rxm", "rdm")):
            with self.subTest(kind=kind):
                port = pair.Port()
                words = f"fi_pingpong -p {provider} -e {kind} -c -I 10 -S 4096"
                both = CmPair(f"{words} -B {port.number}", f"{words} -P {port.number} {SERVER}",
                              port=port)
                self.check(kind, both, r"(?m)^4k +10 ")

    def test_killed_peer(self):
        """a client whose server was killed before it answered gives up by its own timeout"""
        both = CmPair(f"rping -s -a {SERVER} -C 1000000", f"rping -c -a {SERVER} -C 1000000")
        time.sleep(0.5)
        both.server.send_signal(signal.SIGKILL)
        time.sleep(0.1)
        both.client.send_signal(signal.SIGTERM)   # nobody hangs in the device
        self.assertEqual(both.client.wait(pair.PATIENCE), -signal.SIGTERM)
        both.server.wait()
        shutil.rmtree(both.folder, ignore_errors=True)

    def test_fio(self):
        """fio's engine rdma writes and reads"""
        for verb in ("write", "read", "send") if pair.LONG else ("write",):
            with self.subTest(verb=verb):
                port = pair.Port()
                port.socket.close()
                common = f"fio --ioengine=rdma --port={port.number} --bs=64k --size=4m --thread"
                server = f"{common} --name=server --rw=read --verb={verb}"
                client = f"{common} --name=client --rw=write --verb={verb} --hostname={SERVER}"
                self.check(verb, CmPair(server, client), r"err= 0")


if __name__ == "__main__":
    pair.need("rping", "rdmacm-utils")
    pair.need("ib_send_bw", "perftest")
    pair.need("fi_pingpong", "libfabric-bin")
    pair.main()
