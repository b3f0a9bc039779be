# SPDX-License-Identifier: BSD-3-Clause
"""Debian's dpdk-testpmd with its mlx5 driver, unmodified, on virtual devices: its forms and offloads.
Usage: pmd_test.py KILIM_VHCA. By default 10^5 packets; KILIM_CHECK=long: 10^7."""

import re
import struct

import packets
import pair
import processes
import testpmd as pmd
from pmd_bench import PATHS, RETRY, Bench

MPRQ = ",mprq_en=1,rxqs_min_mprq=1"


class Pmd(Bench):
    def forward(self, path, frames, words=(), more="", rounds=1):
        """Frames of a recording come back in another, the same bytes in the same order."""
        sent, got = self.folder + "/in.pcap", self.folder + "/out.pcap"
        pmd.write(sent, frames * rounds)
        session = self.session(path, ["pcap:%s:%s" % (sent, got)], words, more)
        session.commands(*RETRY, "start")
        session.until("TX-packets", len(frames) * rounds, patience=60 * rounds)
        session.command("stop")
        self.assertEqual(session.end(), 0)
        back = pmd.read(got)
        self.assertEqual(len(back), len(frames) * rounds)
        for i in range(rounds):
            self.assertEqual(back[i * len(frames):(i + 1) * len(frames)], frames)

    def test_paths(self):
        """on each way every frame of 60 to 1,518 bytes is forwarded, byte for byte"""
        frames = [pmd.udp(i, 60 + i * 11 % 1459) for i in range(20000)]
        # A recording of 25 rounds is 400 MB: five of them a way, one after the other.
        sessions, rounds = (5, 25) if pair.LONG else (1, 1)
        for path in "ABCD":
            for session in range(sessions):
                with self.subTest(path=path, session=session):
                    self.forward(path, frames, rounds=rounds)

    def test_queue_forms(self):
        """so they are by each form of receive and transmit queues"""
        frames = [pmd.udp(i, 60 + i * 11 % 1459) for i in range(2500)]
        forms = [("D", ",rx_vec_en=0"), ("D", ",rxq_cqe_comp_en=0"), ("D", MPRQ),
                 ("D", MPRQ + ",mprq_max_memcpy_len=0"), ("B", MPRQ), ("D", ",txq_mpw_en=0"),
                 ("D", ",txqs_min_inline=0,txq_inline_max=1024"), ("C", ",rx_vec_en=0")]
        if not pair.LONG:
            forms = forms[:7]
        for path, more in forms:
            with self.subTest(path=path, devargs=more):
                self.forward(path, frames, more=more)

    def test_jumbo(self):
        """frames of up to 9,000 bytes come in several buffers and leave by as many"""
        frames = [pmd.udp(i, 60 + i * 37 % 8955) for i in range(1000)]
        words = ["--max-pkt-len=9018", "--rx-offloads=0x2000", "--tx-offloads=0x8000"]
        for path in ("A", "D"):
            with self.subTest(path=path):
                self.forward(path, frames, words)

    def test_cable(self):
        """a cable between two devices of the process carries them"""
        frames = [pmd.udp(i, 60 + i * 11 % 1459) for i in range(2000)]
        sent, got = self.folder + "/in.pcap", self.folder + "/out.pcap"
        pmd.write(sent, frames)
        # A neighbour does not wait for receive requests: there are as many as frames.
        session = self.session("D", ["pcap:" + sent, "cable:pmd", "cable:pmd", "pcap::" + got],
                               ["--rxd=2048", "--total-num-mbufs=32768"])
        session.commands(*RETRY, "start")
        session.until("TX-packets", len(frames), port=3)
        session.command("stop")
        # What goes from ring to ring is counted by its kind of address, too.
        for port, way in ((1, "tx"), (2, "rx")):
            told = session.command("show port xstats %d" % port)
            self.assertIn("%s_unicast_packets: %d\n" % (way, len(frames)), told)
            self.assertIn("%s_unicast_bytes: %d\n" % (way, sum(map(len, frames))), told)
        self.assertEqual(session.end(), 0)
        self.assertEqual(pmd.read(got), frames)

    def test_hash(self):
        """four queues get what an own Toeplitz says, and packets carry the hash"""
        for path in ("A", "D"):
            with self.subTest(path=path):
                session, neighbour = self.dgram(path, ["--rxq=4", "--txq=4", "--rss-udp"])
                said = session.command("show port 0 rss-hash key")
                key = bytes.fromhex(re.search(r"RSS key:\s*([0-9A-Fa-f]{80})", said)[1])
                session.commands("set fwd rxonly", "set verbose 1", "start")
                frames = [pmd.udp(i, 64, ports=(1024 + i * i % 60000, 7)) for i in range(200)]
                neighbour.exchange(frames, 0)
                session.until("RX-packets", len(frames))
                found = re.findall(r"RSS hash=0x([0-9a-f]+) - RSS queue=0x([0-9a-f]+)",
                                   session.text())
                wanted = []
                for frame in frames:
                    value = pmd.toeplitz(key, frame[26:38])
                    wanted.append((value, value % 4))
                self.assertEqual(sorted((int(h, 16), int(q, 16)) for h, q in found),
                                 sorted(wanted))
                self.assertEqual(len({queue for _, queue in wanted}), 4)
                session.end()

    def test_filters(self):
        """promiscuous or not, and addresses that are added, decide what is received"""
        session, neighbour = self.dgram("D")
        session.commands(*RETRY, "set promisc 0 off", "start")
        other = b"\x02\x4b\x4c\0\0\x77"
        ours = [pmd.udp(i, 100) for i in range(20)]
        theirs = [pmd.udp(100 + i, 100, dst=other) for i in range(20)]
        self.assertEqual(neighbour.exchange(ours + theirs, len(ours)), ours)
        session.command("mac_addr add 0 02:4b:4c:00:00:77")
        self.assertEqual(neighbour.exchange(ours + theirs), ours + theirs)
        session.command("mac_addr remove 0 02:4b:4c:00:00:77")
        self.assertEqual(neighbour.exchange(theirs + ours, len(ours)), ours)
        session.command("set promisc 0 on")
        self.assertEqual(neighbour.exchange(ours + theirs), ours + theirs)

    def test_mtu(self):
        """the port takes no longer frames than the MTU that the driver sets by its interface"""
        for path in ("A", "D"):
            with self.subTest(path=path):
                session, neighbour = self.dgram(path)
                session.commands(*RETRY, "start")
                odd = [pmd.udp(0, 1523)]
                self.assertEqual(neighbour.exchange(odd), odd)  # nobody has set one
                for mtu in (1400, 1000, 1500):
                    session.command("port config mtu 0 %d" % mtu)
                    frames = [pmd.udp(i, mtu + 14 + i) for i in range(20)]
                    self.assertEqual(neighbour.exchange(frames, 9), frames[:9])
                said = session.command("show port info 0")
                self.assertIn("MTU: 1500", said)
                session.end()

    def test_xstats(self):
        """the port's interface tells the driver what it has carried and lost, by the names that the driver looks for"""
        kinds = (("unicast", pmd.MAC, 20), ("multicast", b"\x01\0\x5e\0\0\7", 5), ("broadcast", b"\xff" * 6, 3))
        frames = [pmd.udp(i, 100 + i, dst=to) for _, to, count in kinds for i in range(count)]
        for path in ("A", "D"):
            with self.subTest(path=path):
                session, neighbour = self.dgram(path)
                session.commands(*RETRY, "start", "clear port xstats 0")
                for rounds in (1, 2):
                    self.assertEqual(len(neighbour.exchange(frames)), len(frames))
                    said = session.command("show port xstats 0")
                    told = {name: int(n) for name, n in re.findall(r"^(\w+): (\d+)$", said, re.M)}
                    for way in ("rx", "tx"):
                        for kind, _, count in kinds:
                            sizes = sum(range(100, 100 + count))
                            self.assertEqual((told[f"{way}_{kind}_packets"], told[f"{way}_{kind}_bytes"]),
                                             (rounds * count, rounds * sizes), said)
                        # A port counts check sequences too.
                        self.assertEqual(told[f"{way}_phy_packets"], rounds * len(frames))
                        self.assertEqual(told[f"{way}_phy_bytes"], rounds * sum(len(f) + 4 for f in frames))
                    self.assertEqual((told["rx_wqe_errors"], told["rx_phy_crc_errors"], told["rx_good_packets"]),
                                     (0, 0, rounds * len(frames)))
                session.command("clear port xstats 0")
                said = session.command("show port xstats 0")
                # The driver's own counts stay.
                told = re.findall(r"^([rt]x_(?:phy|unicast|multicast|broadcast)_\w+): (\d+)$", said, re.M)
                self.assertGreater(len(told), 16)
                self.assertEqual({n for _, n in told}, {"0"}, said)
                self.assertNotIn("unable", session.text())
                session.end()

    def test_flows(self):
        """rules of rte_flow choose a queue, drop, mark, count and spread"""
        for path in ("A", "B", "D"):
            with self.subTest(path=path):
                session, neighbour = self.dgram(path, ["--rxq=4", "--txq=4"])
                match = "flow create 0 ingress pattern eth / ipv4 / udp dst is %d / end actions %s / end"
                # Without firmware commands rules by match buffers do not count.
                counted = "" if path == "B" else "count / "
                said = session.commands(
                    match % (1000, counted + "queue index 2"), match % (1001, "drop"),
                    match % (1002, "mark id 42 / queue index 3"),
                    match % (1003, "rss types ipv4-udp end queues 0 1 end"))
                for line in said:
                    self.assertIn("created", line)
                session.commands("set fwd rxonly", "set verbose 1", "start")
                frames = [pmd.udp(i, 80, ports=(5000 + i, 1000 + i % 4)) for i in range(80)]
                neighbour.exchange(frames, 0)
                session.until("RX-packets", 60)
                queues = {0: set(), 1: set(), 2: set(), 3: set()}
                text = session.text()
                marks = re.findall(r"FDIR matched ID=0x([0-9a-f]+)", text)
                self.assertEqual([int(mark, 16) for mark in marks], [42] * 20)
                for queue in re.findall(r"Receive queue=0x([0-9a-f]+)", text):
                    queues[int(queue, 16)].add(len(queues[int(queue, 16)]))
                self.assertEqual(len(queues[2]), 20)
                self.assertEqual(len(queues[3]), 20)
                self.assertEqual(len(queues[0]) + len(queues[1]), 20)
                if counted:
                    self.assertIn("hits: 20", session.command("flow query 0 0 count"))
                session.commands("stop", "flow flush 0")
                session.end()

    def test_groups(self):
        """rules of a group above 0, whose entries the driver writes itself, do the same; and rewrite"""
        session, neighbour = self.dgram("S", ["--rxq=4", "--txq=4"])
        match = ("flow create 0 ingress group 1 pattern eth / ipv4 / udp dst is %d / end "
                 "actions %s / end")
        rewritten = "set_mac_src mac_addr 02:00:00:00:00:55 / dec_ttl / set_tp_dst port 77"
        said = session.commands(
            "flow create 0 ingress group 0 pattern eth / end actions jump group 1 / end",
            match % (1000, "count / queue index 2"), match % (1001, "drop"),
            match % (1002, "mark id 42 / queue index 3"),
            match % (1003, "rss types ipv4-udp end queues 0 1 end"),
            match % (1004, rewritten + " / queue index 1"))
        for line in said:
            self.assertIn("created", line)
        session.commands("set fwd rxonly", "set verbose 1", "start")
        frames = [pmd.udp(i, 80, ports=(5000 + i, 1000 + i % 6)) for i in range(120)]
        neighbour.exchange(frames, 0)
        session.until("RX-packets", 80)     # no rule takes those of port 1005
        text = session.text()
        marks = re.findall(r"FDIR matched ID=0x([0-9a-f]+)", text)
        self.assertEqual([int(mark, 16) for mark in marks], [42] * 20)
        queues = [int(queue, 16) for queue in re.findall(r"Receive queue=0x([0-9a-f]+)", text)]
        self.assertEqual((queues.count(2), queues.count(3)), (20, 20))
        self.assertEqual(queues.count(0) + queues.count(1), 40)
        self.assertGreaterEqual(queues.count(1), 20)
        self.assertEqual(len(re.findall("src=02:00:00:00:00:55", text)), 20)
        self.assertIn("hits: 20", session.command("flow query 0 1 count"))
        session.commands("stop", "flow flush 0")
        self.assertEqual(session.end(), 0)

    def test_groups_sent(self):
        """so do those of what is sent: drop, a tag in front, a rewritten address"""
        session, neighbour = self.dgram("S")
        match = "flow create 0 egress group 1 pattern eth / ipv4 / udp dst is %d / end actions %s / end"
        said = session.commands(
            "flow create 0 egress group 0 pattern eth / end actions jump group 1 / end",
            match % (1001, "drop"),
            match % (1002, "of_push_vlan ethertype 0x8100 / of_set_vlan_vid vlan_vid 9 / "
                           "of_set_vlan_pcp vlan_pcp 0"),
            match % (1003, "set_mac_src mac_addr 02:00:00:00:00:55"))
        for line in said:
            self.assertIn("created", line)
        session.command("start")
        frames = [pmd.udp(i, 80, ports=(5000 + i, 1000 + i % 4)) for i in range(40)]
        changed = {0: lambda f: f, 2: lambda f: f[:12] + bytes.fromhex("81000009") + f[12:],
                   3: lambda f: f[:6] + bytes.fromhex("020000000055") + f[12:]}
        want = [changed[i % 4](frame) for i, frame in enumerate(frames) if i % 4 != 1]
        self.assertEqual(neighbour.exchange(frames, len(want)), want)
        session.commands("stop", "flow flush 0")
        self.assertEqual(session.end(), 0)

    def test_tags(self):
        """tags are stripped on the way in, and put in on the way out"""
        session, neighbour = self.dgram("D", ["--tx-offloads=0x1"])
        session.commands(*RETRY, "vlan set strip on 0", "start")
        tagged = [pmd.udp(i, 100, vlan=7) for i in range(20)]
        plain = [frame[:12] + frame[16:] for frame in tagged]
        self.assertEqual(neighbour.exchange(tagged), plain)
        session.commands("stop", "port stop 0", "vlan set strip off 0", "tx_vlan set 0 9",
                         "port start 0", "set fwd mac retry", "start")
        # This mode of testpmd, which asks for tags, changes the Ethernet addresses.
        with_tag = [struct.pack("!HH", 0x8100, 9) + f[12:] for f in plain]
        self.assertEqual([f[12:] for f in neighbour.exchange(plain)], with_tag)

    def test_checksums(self):
        """sums are judged on the way in and computed on the way out"""
        for path in ("A", "D"):
            with self.subTest(path=path):
                session, neighbour = self.dgram(path, ["--tx-offloads=0x6", "--rx-offloads=0xe"])
                session.commands("port stop 0", "csum set ip hw 0", "csum set udp hw 0",
                                 "port start 0", "set fwd csum", "start")
                good = [pmd.udp(i, 90 + i) for i in range(20)]
                got = neighbour.exchange(good)
                # This mode of testpmd changes the Ethernet addresses.
                self.assertEqual([frame[12:] for frame in got], [frame[12:] for frame in good])
                bad = [f[:24] + bytes([f[24] ^ 1]) + f[25:] for f in good]
                session.commands("stop", "set fwd rxonly", "set verbose 1", "start")
                neighbour.exchange(good + bad, 0)
                session.until("RX-packets", 60)
                # This driver tells good sums, and of others that they are unknown.
                said = session.text()
                self.assertEqual(said.count("RX_IP_CKSUM_GOOD"), 20)
                self.assertEqual(said.count("RX_IP_CKSUM_UNKNOWN"), 20)
                self.assertEqual(said.count("RX_L4_CKSUM_GOOD"), 40)
                session.end()

    def test_tunnels(self):
        """sums in VXLAN and GRE are written outside and inside, and long segments cut in them"""
        # Sums of IP, UDP, TCP and outer IP; TSO, also in VXLAN and GRE; several segments.
        session, neighbour = self.dgram("D", ["--tx-offloads=0x86ae"])
        said = session.command("show port 0 tx_offload capabilities")
        for word in ("OUTER_IPV4_CKSUM", "VXLAN_TNL_TSO", "GRE_TNL_TSO", "UDP_TNL_TSO",
                     "IP_TNL_TSO"):
            self.assertIn(word, said)
        session.commands("port stop 0", "csum parse-tunnel on 0", "csum set outer-ip hw 0",
                         "csum set ip hw 0", "csum set tcp hw 0", "csum set udp hw 0",
                         "port start 0", "set fwd csum", "start")
        inner = [packets.tcp(packets.bytes_of(i, 60 + 9 * i), number=i) for i in range(20)]
        good = [wrap(f, i) for i, f in enumerate(inner) for wrap in (packets.vxlan, packets.gre)]
        # The sums of IP outside, of IP inside and of TCP.
        begin = [len(g) - len(f) for f, g in zip([f for f in inner for _ in "12"], good)]
        bad = [packets.spoiled(g, 24, at + 24, at + 50) for g, at in zip(good, begin)]
        got = neighbour.exchange(bad)
        # This mode of testpmd changes the outer Ethernet addresses.
        self.assertEqual([f[12:] for f in got], [f[12:] for f in good])
        session.commands("stop", "port stop 0", "tunnel_tso set 500 0", "port start 0", "start")
        data = packets.bytes_of(3, 1300)
        for wrap in (packets.vxlan, packets.gre):
            whole = wrap(packets.tcp(data, flags=0x18, number=7), 9)
            cut = [wrap(packets.tcp(data[at:at + 500], seq=1000 + at, number=7 + at // 500,
                                    flags=0x18 if at == 1000 else 0x10), 9 + at // 500)
                   for at in range(0, 1300, 500)]
            got = neighbour.exchange([whole], len(cut))
            self.assertEqual([f[12:] for f in got], [f[12:] for f in cut])
        session.end()

    def test_tunnel_rules(self):
        """a rule looks into VXLAN, hashes by the inner headers, and packets tell of these"""
        session, neighbour = self.dgram("D", ["--rxq=4", "--txq=4", "--rx-offloads=0xe"])
        key = "".join("%02x" % (i * 37 + 1 & 0xff) for i in range(40))
        said = session.command(
            "flow create 0 ingress pattern eth / ipv4 / udp / vxlan vni is 42 / eth / ipv4 / tcp / "
            "end actions rss level 2 types ipv4-tcp end key %s key_len 40 queues 1 2 3 0 end "
            "/ end" % key)
        self.assertIn("created", said)
        session.commands("set fwd rxonly", "set verbose 1", "start")
        frames = [packets.vxlan(packets.tcp(packets.bytes_of(i, 70), ports=(1000 + i * i, 80)), i)
                  for i in range(40)]
        others = [packets.vxlan(packets.tcp(packets.bytes_of(i, 70)), i, vni=43) for i in range(5)]
        neighbour.exchange(frames + others, 0)
        session.until("RX-packets", 45)
        text = session.text()
        found = re.findall(r"INNER_L3_IPV4\S* INNER_L4_TCP.*?RSS hash=0x([0-9a-f]+) - "
                           r"RSS queue=0x([0-9a-f]+)|RSS hash=0x([0-9a-f]+) - "
                           r"RSS queue=0x([0-9a-f]+)[^\n]*INNER_L4_TCP", text)
        wanted = []
        for frame in frames:
            value = pmd.toeplitz(bytes.fromhex(key), frame[50 + 26:50 + 38])
            wanted.append((value, (1, 2, 3, 0)[value % 4]))
        seen = sorted((int(a or c, 16), int(b or d, 16)) for a, b, c, d in found)
        self.assertEqual(seen, sorted(wanted))
        session.end()

    def test_large_receive(self):
        """segments of a stream are received as one packet; without the capability the driver says
        no"""
        words = ["--enable-lro", "--max-lro-pkt-size=9000", "--rx-offloads=0x2010"]
        session, neighbour = self.dgram("D", words)
        session.commands("set fwd rxonly", "set verbose 1", "start")
        data = packets.bytes_of(5, 6000)
        frames = [packets.tcp(data[at:at + 1000], seq=1000 + at, number=at,
                              flags=0x18 if at == 5000 else 0x10) for at in range(0, 6000, 1000)]
        # The adapter waits some microseconds for the next segment: they come together.
        with processes.halted(session.process.pid):
            neighbour.exchange(frames, 0)
        session.until("RX-bytes", 6054)
        text = session.text()
        lengths = [int(n) for n in re.findall(r" length=(\d+)", text)]
        self.assertEqual(sum(n - 54 for n in lengths), 6000)
        self.assertLess(len(lengths), 6)
        self.assertIn("RX_LRO", text)
        session.end()
        session, _ = self.dgram("D", words, options=["--profile", "no-lro"])
        self.assertIn("doesn't match Rx offloads capabilities", session.text())
        self.assertEqual(session.end(), 0)


if __name__ == "__main__":
    pair.main()
