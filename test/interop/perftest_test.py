# SPDX-License-Identifier: BSD-3-Clause
"""perftest's programs between two processes: they end, and their tables make sense.
Usage: perftest_test.py KILIM_VHCA
"""

import os
import re
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import pair

DEVICE = ["-d", "vhca0", "-x", "0", "-F"]
NUMBER = r"\s+([0-9.]+)"


class Perftest(pair.PairTest):
    def bandwidth(self, program, size, rounds, *words, queues=1):
        """Tables have one row: bytes, iterations, peak and average bandwidth, rate."""
        text = self.good([program, *DEVICE, "-n", str(rounds), "-q", str(queues), *words])
        rows = re.findall(rf"^ {size}\s+{rounds * queues}" + 3 * NUMBER + r"\s*$", text, re.M)
        self.assertGreaterEqual(len(rows), 1, text)
        for peak, average, rate in ([float(n) for n in row] for row in rows):
            self.assertGreater(average, 0, text)
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


if __name__ == "__main__":
    pair.need("ib_write_bw", "perftest")
    pair.main()
