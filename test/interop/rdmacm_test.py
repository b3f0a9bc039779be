# SPDX-License-Identifier: BSD-3-Clause
"""Programs of others that connect through librdmacm, in two processes each: librdmacm's own,
perftest -R, libfabric, fio; and our own: a TCP program over rsockets, what others do not try, librpma.
Usage: rdmacm_test.py KILIM_VHCA SLOW_ARP GLOBAL_AH DESTROY_QP SLOW_LEAVE ECHO CM_LIFE RPMA ISER
"""

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import dpkt

import pair
import processes
from rdmacm_pair import (CLIENT, NAMESPACE_IPS, SERVER, CmPair, NamespacePair, Namespaces,
                         preloaded)

SLOW_ARP, GLOBAL_AH, DESTROY_QP, SLOW_LEAVE, ECHO, CM_LIFE, RPMA, ISER = (
    os.path.abspath(p) for p in sys.argv[2:10])
RSOCKETS = "/usr/lib/x86_64-linux-gnu/rsocket/librspreload.so"


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
FABRIC = tuple((kind, f"fi_pingpong -p {provider} -e {kind} -c -I 10 -S 4096")
               for provider, kind in (("verbs", "msg"), ("verbs;ofi_rxm", "rdm")))
FABRIC_PORT, QPERF_PORT = 47592, 19765


def fio(port, verb, address):
    """Server and client."""
    common = f"fio --ioengine=rdma --port={port} --bs=64k --size=4m --thread --verb={verb}"
    return (f"{common} --name=server --rw=read",
            f"{common} --name=client --rw=write --hostname={address}")


def run_shared(address, script):
    """What a shell says, all of whose programs are one adapter."""
    done = subprocess.run([pair.LAUNCHER, "--shared", "--ip", address, "--", "bash", "-c", script],
                          stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          timeout=pair.PATIENCE)
    return done.stdout + done.stderr


def rdma_datagrams(capture):
    """Frames of UD SEND (IBTA 9.2, opcode 0x64) that are no MADs."""
    with open(capture, "rb") as f:
        udp = [p.data.data for p in (dpkt.ethernet.Ethernet(frame) for _, frame in dpkt.pcap.Reader(f))
               if isinstance(p.data, dpkt.ip.IP) and isinstance(p.data.data, dpkt.udp.UDP)]
    return sum(u.dport == 4791 and u.data[0] == 0x64 and u.data[5:8] != b"\0\0\1" for u in udp)


# tgt's disk, until its client has gone. A client of iSER is let in by address and by name. tgt takes no
# port but its default: it judges the number by an errno that is another call's (iser_param_parser()).
TARGET = '''
export TGT_IPC_SOCKET=$PWD/tgt; a="tgtadm -C 7 --lld iser --mode"; name=iqn.2026-01.kilim
truncate -s 1M disk; tgtd -f -C 7 --iser pool_sz_mb=128 & until $a sys --op show; do sleep 0.1; done
$a target --op new --tid 1 -T $name:disk && $a logicalunit --op new --tid 1 --lun 1 -b $PWD/disk &&
$a target --op bind --tid 1 -I ALL &&
$a target --op bind --tid 1 -Q $name:initiator && echo portal ready
until [ -e done ]; do sleep 0.05; done; cmp disk sent && echo same on disk
$a target --op delete --force --tid 1; tgtadm -C 7 --op delete --mode system; wait'''
ISER_SAYS = r"(?s)same on disk.*1048576 bytes written and read back"


def iser(address):
    """Target and initiator."""
    # libiscsi 1.19 reads a list's end that it never wrote (iser.c), which Meson's MALLOC_PERTURB_ shows.
    client = f"unset MALLOC_PERTURB_; {ISER} iser://{address}/iqn.2026-01.kilim:disk/1 sent; r=$?; touch done; exit $r"
    return ["sh", "-c", TARGET], ["sh", "-c", client]


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

    def test_more_in_namespaces(self):
        """the programs above librdmacm in two namespaces: what libfabric's server binds, 127.0.0.1, is
        no device's, so it hears every one (cma.c, cma_any_addr()); udpong's data go by RDMA"""
        namespaces = Namespaces()
        self.addCleanup(namespaces.end)
        server = NAMESPACE_IPS[0]
        for kind, words in FABRIC:
            with self.subTest(kind=kind):
                both = NamespacePair(namespaces, preloaded(SLOW_LEAVE, words),
                                     preloaded(SLOW_LEAVE, f"{words} {server}"), port=FABRIC_PORT)
                self.check(kind, both, r"(?m)^4k +10 ")
        for verb in ("write", "read") if pair.LONG else ("write",):
            with self.subTest(verb=verb):
                both = NamespacePair(namespaces, *fio(7471, verb, server), "waiting for conn")
                self.check(verb, both, r"(?s)err= 0.*err= 0")
        both = NamespacePair(namespaces, f"{RPMA} {server}", f"{RPMA} {server} client")
        self.check("rpma", both, r"(?s)the page is written.*the page reads right")
        words = f"qperf -lp {QPERF_PORT}"
        both = NamespacePair(namespaces, preloaded(DESTROY_QP, words),
                             preloaded(DESTROY_QP, f"{words} -cm1 {server} -t 1 rc_bw"), port=QPERF_PORT)
        self.check("qperf", both, r"(?s)rc_bw:.*bw +=", server_stays=True)
        self.check("iser", NamespacePair(namespaces, *iser(server), "portal ready"), ISER_SAYS)
        frames = os.path.join(self.folder, "frames.pcap")
        words = "udpong -S 1000 -C 100"
        both = NamespacePair(namespaces, preloaded(GLOBAL_AH, f"{words} -b {server}"),
                             preloaded(GLOBAL_AH, f"{words} -T e -s {server}"),
                             client_part=f"+tee:{frames}")
        self.check("udpong", both, r"(?m)^custom +1000 +200 ", server_stays=True)
        self.assertGreaterEqual(rdma_datagrams(frames), 180)   # the first go by UDP

    def test_udpong(self):
        """rsockets' datagrams of two processes: on one host their UDP sockets have one address, so
        they share an adapter; without a GRH libmlx5 refuses their address handle"""
        words = "udpong -S 1000 -C 100"
        script = (f"{words} -s 127.0.0.1; echo refused $?; LD_PRELOAD=\"$LD_PRELOAD:{GLOBAL_AH}\";"
                  f"{words} -b 127.0.0.1 & until ss -Hlnu sport 7174 | grep -q 7174; do sleep 0.05; done;"
                  f"{words} -s 127.0.0.1; echo sent $?; kill %1; wait")
        text = run_shared("127.0.0.1/8", script)
        self.assertRegex(text, r"(?s)refused 255.*custom +1000 +100 .*sent 0", text)

    def test_shared(self):
        """processes of one launcher share its adapter: they connect by its own address, a port has
        one listener, and one that has none is refused at once"""
        script = ("rping -c -a 198.18.7.1 -C 1; echo nobody $?; rping -s -a 198.18.7.1 -C 2 -v &"
                  "until rping -c -a 198.18.7.1 -C 2 -v; do sleep 0.1; done; wait; echo pinged $?;"
                  "udaddy -b 198.18.7.1 -c 2 & sleep 0.3; udaddy -b 198.18.7.1; echo second $?;"
                  "udaddy -s 198.18.7.1 -c 2; echo sent $?; wait")
        text = run_shared("198.18.7.1/24", script)
        self.assertRegex(text, r"_REJECTED, error 8", text)
        self.assertRegex(text, r"(?s)nobody 255.*rdma-ping-1.*pinged 0.*second 255.*sent 0", text)
        self.assertIn("bind address failed: Address already in use", text)

    def test_shared_ports(self):
        """such processes have one table of ports: one that is bound is nobody else's, until its owner
        ends, or is killed"""
        bind = "rdma_server -p 7200 & a=$!; sleep 0.4; rdma_server -p 7200; echo second $?;"
        script = (f"{bind} {bind.replace('7200', '7201')} kill -9 $a; wait $a; "
                  "timeout 0.5 rdma_server -p 7201; echo after $?; timeout 0.5 rdma_server -p 7202;"
                  "timeout 0.5 rdma_server -p 7202; echo again $?; kill %1")
        text = run_shared("198.18.7.1/24", script)
        self.assertRegex(text, r"(?s)second [^0].*second [^0].*after 124.*again 124", text)
        self.assertEqual(text.count("rdma_create_ep: "), 2, text)

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

    def was_built(self, program):
        """Meson hands the library's name over where it did not find it."""
        if not os.path.exists(program):
            library = os.path.basename(program)
            self.fail(f"{library} was not there when the build folder was configured: install {library}-dev and "
                      "run meson setup --reconfigure")

    def test_rpma(self):
        """librpma writes, flushes and reads remote memory"""
        self.was_built(RPMA)
        both = CmPair(f"{RPMA} {SERVER}", f"{RPMA} {SERVER} client")
        self.check("rpma", both, r"(?s)the page is written.*the page reads right")

    def test_qperf(self):
        """qperf -cm1 measures, and says so where its server outlives the end of the measurement"""
        port = pair.Port()
        words = f"qperf -lp {port.number}"
        both = CmPair(preloaded(DESTROY_QP, words),
                      preloaded(DESTROY_QP, f"{words} -cm1 {SERVER} -t 1 rc_lat"), port=port)
        self.check("qperf", both, r"(?s)rc_lat:.*latency +=", server_stays=True)

    def test_iser(self):
        """an iSCSI disk by RDMA: tgt and libiscsi, all of it written, read and compared"""
        self.was_built(ISER)
        self.check("iser", CmPair(*iser(SERVER), "portal ready"), ISER_SAYS)

    def test_libfabric(self):
        """libfabric's endpoints with connections, and its reliable datagrams above them"""
        for kind, words in FABRIC:
            with self.subTest(kind=kind):
                port = pair.Port()
                both = CmPair(preloaded(SLOW_LEAVE, f"{words} -B {port.number}"),
                              preloaded(SLOW_LEAVE, f"{words} -P {port.number} {SERVER}"), port=port)
                self.check(kind, both, r"(?m)^4k +10 ")

    def test_libfabrics_own_address(self):
        """libfabric finds the port's address where an interface of the machine has it: on loopback 127.0.0.1 alone,
        behind --pci what --ip says"""
        folder = tempfile.mkdtemp(prefix="kilim-cm")
        self.addCleanup(shutil.rmtree, folder)
        for address, options in (("127.0.0.1", []), ("127.0.0.2", []), ("10.7.0.1", []), ("10.7.0.1", ["--pci"])):
            with self.subTest(address=address, options=options):
                words = [pair.LAUNCHER, *options, "--wire", f"unix:{folder}/w", "--ip", address + "/24", "--",
                         "fi_info", "-p", "verbs", "-v"]
                said = subprocess.run(words, check=True, capture_output=True, text=True, timeout=60).stdout
                on_an_interface = address == "127.0.0.1" or bool(options)
                self.assertEqual(f"fi_sockaddr_in://{address}:" in said, on_an_interface, said)
                self.assertEqual("fi_sockaddr_in:" in said, on_an_interface, said)

    def test_killed_peer(self):
        """a client whose server was killed before it answered gives up by its own timeout"""
        both = CmPair(f"rping -s -a {SERVER} -C 1000000", f"rping -c -a {SERVER} -C 1000000")
        time.sleep(0.5)
        processes.kill_family(both.server.pid)
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
                self.check(verb, CmPair(*fio(port.number, verb, SERVER)), r"err= 0")


if __name__ == "__main__":
    pair.need("rping", "rdmacm-utils")
    pair.need("ib_send_bw", "perftest")
    pair.need("fi_pingpong", "libfabric-bin")
    pair.need("tgtd", "tgt")
    pair.need("qperf", "qperf")
    pair.main()
