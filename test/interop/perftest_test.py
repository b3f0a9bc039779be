# SPDX-License-Identifier: BSD-3-Clause
"""perftest's programs between two processes: they end, and their tables make sense.
Usage: perftest_test.py KILIM_VHCA
"""

import os
import re
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import pair

DEVICE = ["-d", "vhca0", "-x", "0", "-F"]
NUMBER = r"\s+([0-9.]+)"
MACS = ("02:4b:4c:00:00:01", "02:4b:4c:00:01:01")


class Perftest(pair.PairTest):
    def bandwidth(self, program, size, rounds, *words, queues=1):
        """Tables have one row: bytes, iterations, peak and average bandwidth, rate."""
        text = self.good([program, *DEVICE, "-n", str(rounds), "-q", str(queues), *words])
        rows = re.findall(rf"^ {size}\s+{rounds * queues}" + 3 * NUMBER + r"\s*$", text, re.M)
        self.assertGreaterEqual(len(rows), 1, text)
        for peak, average, rate in ([float(n) for n in row] for row in rows):
            self.assertGreater(rate, 0, text)    # a slow average of short messages is 0.00
            # In 2^20 bytes, two decimals; the rate in millions of messages.
            self.assertAlmostEqual(rate * size, average * (1 << 20) / 1e6,
                                   delta=0.02 * rate * size + 0.011, msg=text)
            if peak != 0:    # a server does not measure it
                self.assertGreaterEqual(peak, average * 0.99, text)

    def test_write_bw(self):
        """ib_write_bw"""
        for size in (2, 65536):
            with self.subTest(size=size):
                self.bandwidth("ib_write_bw", size, 1000, "-s", str(size))

    def test_write_bw_many(self):
        """ib_write_bw over four queue pairs, lists of requests and rare completions"""
        self.bandwidth("ib_write_bw", 4096, 4000, "-s", "4096", "-l", "8", queues=4)

    def test_send_bw(self):
        """ib_send_bw of each transport, polling and waiting for events"""
        for transport, size in (("RC", 65536), ("UC", 8192), ("UD", 2048)):
            for wait in ([], ["-e"]):
                with self.subTest(transport=transport, wait=wait):
                    self.bandwidth("ib_send_bw", size, 1000, "-s", str(size), "-c", transport,
                                   *wait)

    def test_atomic_bw(self):
        """ib_atomic_bw of both kinds"""
        for kind in ("FETCH_AND_ADD", "CMP_AND_SWAP"):
            with self.subTest(kind=kind):
                self.bandwidth("ib_atomic_bw", 8, 1000, "-A", kind)

    def test_read_lat(self):
        """ib_read_lat: least, most, typical and mean time of a READ"""
        for size in (2, 4096):
            with self.subTest(size=size):
                text = self.good(["ib_read_lat", *DEVICE, "-n", "1000", "-s", str(size)])
                rows = re.findall(rf"^ {size}\s+1000" + 4 * NUMBER, text, re.M)
                self.assertEqual(len(rows), 1, text)
                least, most, typical, mean = (float(n) for n in rows[0])
                self.assertTrue(0 < least <= typical <= most and least <= mean <= most, text)

    def raw(self, program, *words):
        """A server that is ready, then a client; what the client says. They have no TCP to meet."""
        def start(side, mine, other, output):
            return subprocess.Popen([pair.LAUNCHER, "--mac", mine, "--", "stdbuf", "-oL", program,
                                     side, "-d", "vhca0", "-F", "-B", mine, "-E", other, *words],
                                    stdin=subprocess.DEVNULL, stdout=output,
                                    stderr=subprocess.STDOUT)

        with tempfile.TemporaryFile("w+") as said, tempfile.TemporaryFile("w+") as asked:
            server = start("--server", *MACS, said)
            client = None
            end = time.monotonic() + pair.PATIENCE
            try:
                # It steers the frames to its queue, then prints the head of its table.
                while "#bytes" not in os.pread(said.fileno(), 1 << 16, 0).decode():
                    self.assertIsNone(server.poll(), "the server has ended")
                    self.assertLess(time.monotonic(), end, "the server is not ready")
                    time.sleep(0.02)
                client = start("--client", *reversed(MACS), asked)
                codes = [p.wait(timeout=pair.PATIENCE) for p in (client, server)]
            finally:
                for process in (p for p in (client, server) if p is not None and p.poll() is None):
                    process.terminate()
                    process.wait(timeout=pair.PATIENCE)
            text = os.pread(asked.fileno(), 1 << 16, 0).decode()
            self.assertEqual(codes, [0, 0], text)
        return text

    def test_raw_ethernet(self):
        """raw_ethernet_bw and raw_ethernet_lat exchange frames"""
        self.assertRegex(self.raw("raw_ethernet_bw", "-n", "500", "-s", "1024"),
                         r"(?m)^ 1024\s+500" + 3 * NUMBER)
        self.assertRegex(self.raw("raw_ethernet_lat", "-n", "50"), r"(?m)^ 64\s+50" + 4 * NUMBER)

    def test_raw_flows(self):
        """raw_ethernet_bw sends many UDP flows to one queue"""
        flows = ["--dest_ip", "10.0.0.1", "--dest_port", "5000", "--source_ip", "10.0.0.2",
                 "--source_port", "6000", "--flows", "4"]
        self.assertRegex(self.raw("raw_ethernet_bw", "-n", "500", "-s", "1024", *flows),
                         r"(?m)^ 1024\s+500" + 3 * NUMBER)

    def test_raw_hash(self):
        """raw_ethernet_bw was built without --use_rss, and says so before it opens a device"""
        done = subprocess.run([pair.LAUNCHER, "--", "raw_ethernet_bw", "--server", "-d", "vhca0",
                               "-F", "-B", MACS[0], "-E", MACS[1], "--use_rss", "-q", "2"],
                              capture_output=True, text=True, timeout=pair.PATIENCE, check=False)
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertIn("RSS feature is not available in libibverbs", done.stderr)

    def test_steering_rate(self):
        """raw_ethernet_fs_rate makes and destroys rules"""
        done = subprocess.run([pair.LAUNCHER, "--", "raw_ethernet_fs_rate", "-d", "vhca0", "-F",
                               "--server", "-B", MACS[0], "-E", MACS[1], "--dest_ip", "1.1.1.1",
                               "--source_ip", "2.2.2.2", "--dest_port", "5", "--source_port", "6"],
                              capture_output=True, text=True, timeout=pair.PATIENCE, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout, r"(?m)^1000" + 5 * NUMBER)


if __name__ == "__main__":
    pair.need("ib_write_bw", "perftest")
    pair.main()
