# SPDX-License-Identifier: BSD-3-Clause
"""kilim-perf between two processes: data arrives, tables make sense, what is wrong is refused by a
sentence on both sides. Usage: kilim_perf_test.py KILIM_VHCA KILIM_PERF
"""

import json
import os
import re
import socket
import struct
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import pair

PERF = os.path.abspath(sys.argv[2])
CORES = ",".join(str(c) for c in sorted(os.sched_getaffinity(0)))
EAL = ["--no-huge", "--no-shconf", "--no-pci", "--log-level", "4", f"--lcores=0@({CORES})"]
TESTS = ("write", "read", "send", "atomic")

HEADER = struct.Struct("!IHHI")
MAGIC = 0x4b4c5046
HELLO, REFUSAL, BEGIN, READY, END, GOOD, BYE = range(1, 8)


def run(*words):
    return subprocess.run([PERF, *EAL, "--", *words], capture_output=True, text=True,
                          timeout=pair.PATIENCE, check=False)


class Both(pair.Pair):
    """Server and client with an adapter in each process; under the launcher where that is wanted."""

    def start(self, wire, options, *more):
        own = [] if "launcher" in options else ["-d", "vhca0,wire=" + wire]
        words = [PERF, *EAL, "--", *self.words[1:], *own, *more]
        if not own:
            words = [pair.LAUNCHER, "--wire", wire, "--", *words]
        self.outputs.append(tempfile.TemporaryFile("w+"))
        return subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=self.outputs[-1],
                                stderr=subprocess.STDOUT)


def hello(work=1, check=1, queues=1, depth=16, low=64, high=64, length=1 << 26, qpn=77,
          mtu=1024, address=0x10000):
    """A client's first message, of no queue pair that there is."""
    ends = struct.pack("!II16sHBI", qpn, 5, b"\xfe\x80" + bytes(6) + b"\x00\x4b\x4c\xff\xfe\x09\x09"
                       + b"\x01", 0, 1, mtu) * queues
    return struct.pack("!BBHIII", work, check, queues, depth, low, high) + \
        struct.pack("!QQI", address, length, 0x1234) + ends


class KilimPerf(pair.PairTest):
    def both(self, words, options=()):
        wire = "unix:" + self.folder
        ips = ("+ip:127.0.0.1/8", "+ip:127.0.0.2/8") if "-R" in words else ("", "")
        return Both([PERF, *words], server_wire=wire + ips[0], client_wire=wire + ips[1],
                    options=options)

    def succeeds(self, words, options=()):
        two = self.both(words, options)
        codes, text = two.end()
        self.assertEqual(codes, [0, 0], text)
        said = [two.output_of(p) for p in (two.server, two.clients[0])]
        for output in two.outputs:
            output.close()
        return said

    def test_checked(self):
        """write, read, send and atomic: every byte is looked at, over several queues"""
        for test in TESTS:
            for words in (["-q", "3", "-n", "500", "-s", "1500", "-t", "48", "-l", "5"],
                          ["-n", "40", "-s", "70000", "-t", "7", "-l", "1"]):
                with self.subTest(test=test, words=words):
                    said = self.succeeds([test, "--check", "--json", *words])
                    queues = 3 if "-q" in words else 1
                    for output in said:
                        line = json.loads(output.splitlines()[-1])
                        self.assertEqual(line["test"], test)
                        self.assertEqual(line["iterations"], queues * int(words[words.index("-n") + 1]))
                        self.assertEqual(line["bytes"], 8 if test == "atomic" else
                                         int(words[words.index("-s") + 1]))
                        self.assertGreaterEqual(line["peak_mib_s"], line["average_mib_s"])
                        self.assertGreater(line["mpps"], 0)

    def test_table(self):
        """perftest's table, by number and by time, all sizes"""
        row = re.compile(r"^ (\d+) +(\d+) +([0-9.]+) +([0-9.]+) +([0-9.]+)$", re.M)
        for output in self.succeeds(["write", "-a", "-n", "20", "--check"]):
            self.assertEqual([int(r[0]) for r in row.findall(output)],
                             [1 << n for n in range(1, 24)], output)
        for output in self.succeeds(["send", "-D", "1", "-c", "RC", "-x", "0", "-s", "64"]):
            rows = row.findall(output)
            self.assertEqual(len(rows), 1, output)
            count, peak, average, rate = (float(word) for word in rows[0][1:])
            self.assertGreater(count, 0)
            self.assertGreaterEqual(peak, average)
            self.assertAlmostEqual(rate * 64, average * (1 << 20) / 1e6,
                                   delta=0.02 * rate * 64 + 0.011)

    def test_launcher(self):
        """the same under kilim-vhca"""
        for test in TESTS:
            with self.subTest(test=test):
                self.succeeds([test, "--check", "-n", "300", "-q", "2"], options=["launcher"])

    def test_rdma_cm(self):
        """-R: librdmacm connects the queues, in process and under kilim-vhca"""
        for options in ([], ["launcher"]):
            for test in ("write", "send"):
                with self.subTest(test=test, options=options):
                    self.succeeds([test, "-R", "--check", "-n", "300", "-q", "3"], options=options)

    def test_rdma_cm_refused(self):
        """-R on one side alone: after ten seconds it says what the other may lack"""
        wire = "unix:" + self.folder
        for asks in (True, False) if pair.LONG else (True,):
            with self.subTest(asks=asks):
                two = Both([PERF, "write"], server_wire=wire + "+ip:127.0.0.1/8", clients=0,
                           server_words=() if asks else ("-R",))
                two.clients.append(two.start(wire + "+ip:127.0.0.2/8", (),
                                             *(("-R",) if asks else ()), "127.0.0.1"))
                one = two.clients[0] if asks else two.server
                self.assertEqual(one.wait(pair.PATIENCE), 1)
                two.stop_all()
                self.assertIn(f"the {'other side' if asks else 'client'} does not "
                              f"{'answer' if asks else 'connect'} by rdma_cm in time (has it -R?)",
                              two.output_of(one))

    def test_alone(self):
        """queues connected to themselves"""
        for test in TESTS:
            done = run(test, "--alone", "--check", "-n", "1000", "-q", "2", "--json")
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(json.loads(done.stdout)["iterations"], 2000)

    # ---- refusals

    def test_words(self):
        """words that make no sense"""
        for words, said in (
                (["write", "-c", "UD"], r"^kilim-perf: -c UD: .*RC"),
                (["write", "-b"], r"^kilim-perf: the option -b is unknown"),
                (["send", "-p", "0"], r"-?-port=0 is out of range"),
                (["read", "-x", "256"], r"out of range"),
                (["write", "-q", "65"], r"out of range"),
                (["write", "-d", "vhca0"], r"wire=unix:FOLDER"),
                (["write", "-d", "vhca0,lint=perhaps"], r"lint=perhaps is not understood"),
                (["write", "-d", "mlx5_9"], r"no adapter|no RDMA adapter"),
                (["write", "--alone", "host"], r"exclude each other"),
                (["pool", "host"], r"the word host is too many"),
                (["write", "-x", "9", "-d", "vhca0,wire=unix:" + self.folder, "localhost", "-p",
                  "1"], r"GID|address to connect by"),
                (["write", "-R", "--alone"], r"-R connects two processes"),
                (["compare", "-R"], r"-R connects two processes"),
                (["write", "-R", "-x", "1", "host"], r"-R and -x exclude"),
                (["write", "--alone", "--check", "-q", "64", "-s", "8388608"], r"256 MiB")):
            with self.subTest(words=words):
                done = run(*words)
                self.assertEqual(done.returncode, 1, done.stderr)
                self.assertRegex(done.stderr, said)

    def refusal(self, words, messages):
        """Talks to a server in a client's stead, from `messages` of (kind, payload) or raw bytes;
        the server's refusal, which it also prints."""
        port = pair.Port()
        server = subprocess.Popen([PERF, *EAL, "--", *words, "-p", str(port.number), "-d",
                                   "vhca0,wire=unix:" + self.folder], stdin=subprocess.DEVNULL,
                                  stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        end = time.monotonic() + pair.PATIENCE
        while not port.listened() and server.poll() is None and time.monotonic() < end:
            time.sleep(0.01)
        said = b""
        with socket.create_connection(("127.0.0.1", port.number), pair.PATIENCE) as s:
            for m in messages:
                raw = m if isinstance(m, bytes) else HEADER.pack(MAGIC, 1, m[0], len(m[1])) + m[1]
                s.sendall(raw)
            s.shutdown(socket.SHUT_WR)
            while part := s.recv(4096):
                said += part
        _, text = server.communicate(timeout=pair.PATIENCE)
        port.socket.close()
        self.assertEqual(server.returncode, 1, text)
        while said:
            magic, version, kind, length = HEADER.unpack(said[:HEADER.size])
            self.assertEqual((magic, version), (MAGIC, 1))
            payload, said = said[HEADER.size:][:length], said[HEADER.size + length:]
            if kind == REFUSAL:
                self.assertIn(payload.decode(), text)
                return payload.decode()
        return text

    def test_other_test(self):
        """each test refuses the client of another, and the client is told"""
        for i, test in enumerate(TESTS):
            other = (i + 1) % len(TESTS)
            size = 8 if TESTS[other] == "atomic" else 64
            with self.subTest(test=test):
                text = self.refusal([test], [(HELLO, hello(work=1 + other, low=size, high=size))])
                self.assertIn(f"this server runs the test {test}", text)

    def test_hostile_client(self):
        """bytes of any kind from the other side are refused, none crashes the server"""
        whole = hello()
        for message, said in (
                (b"GET / HTTP/1.1\r\n\r\n", "no kilim-perf"),
                (HEADER.pack(MAGIC, 2, HELLO, 0), "another version"),
                (HEADER.pack(MAGIC, 1, 99, 0), "unknown kind"),
                (HEADER.pack(MAGIC, 1, HELLO, 0xffffffff), "too short or too long"),
                (HEADER.pack(MAGIC, 1, HELLO, len(whole)) + whole[:20], "closed"),
                (b"", "closed"),
                ((HELLO, whole[:-1]), "too short or too long"),
                ((HELLO, whole + b"x"), "too short or too long"),
                ((HELLO, hello(work=9)), "no such test"),
                ((HELLO, hello(check=2)), "impossible"),
                ((HELLO, hello(queues=0)), "1 to 64 queues"),
                ((HELLO, hello(queues=65)), "1 to 64 queues"),
                ((HELLO, hello(depth=0)), "may be under way"),
                ((HELLO, hello(high=1 << 30)), "8388608"),
                ((HELLO, hello(low=65)), "8388608"),
                ((HELLO, hello(length=63)), "too small"),
                ((HELLO, hello(address=(1 << 64) - 8)), "too small"),
                ((HELLO, hello(qpn=0)), "impossible"),
                ((HELLO, hello(qpn=1 << 24)), "impossible"),
                ((HELLO, hello(mtu=0)), "impossible"),
                ((BEGIN, b""), "hello first")):
            with self.subTest(said=said, message=message):
                self.assertIn(said, self.refusal(["write"], [message]))

    def test_lies(self):
        """a client that sent nothing and says it did is found out by the check"""
        begin = (BEGIN, struct.pack("!I", 64))
        end = (END, struct.pack("!QQQ", 1000, 1000, 3))
        for test, said in (("write", "slot 0 of queue 0 does not hold what was written last"),
                           ("atomic", "the sum of queue 0 is not the number of its atomics")):
            size = 8 if test == "atomic" else 64
            first = (HELLO, hello(work=1 + TESTS.index(test), low=size, high=size))
            with self.subTest(test=test):
                begin = (BEGIN, struct.pack("!I", size))
                self.assertIn(said, self.refusal([test], [first, begin, end]))
                self.assertIn("nobody expects", self.refusal([test], [first, end]))
                self.assertIn("nobody expects", self.refusal([test], [first, begin, begin]))
                wrong = (BEGIN, struct.pack("!I", size + 1))
                self.assertIn("not agreed on", self.refusal([test], [first, wrong]))


if __name__ == "__main__":
    pair.main()
