# SPDX-License-Identifier: BSD-3-Clause
"""libfabric on the adapter: reliable datagrams of its own over UD queues, the data compared by the
program. Usage: libfabric_test.py KILIM_VHCA
"""

import os
import re
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import pair

PROVIDER = "verbs;ofi_rxd"
SIZES = ("64", "256", "1k", "4k", "64k", "1m")


class FabricPair(pair.Pair):
    """fi_pingpong says its port in another way at each end."""

    def __init__(self, words):
        self.port = pair.Port()
        self.words, self.outputs = words, []
        self.server = self.start(None, (), "-B", str(self.port.number))
        self.wait_for_server()
        self.clients = [self.start(None, (), "-P", str(self.port.number), "127.0.0.1")]


class Libfabric(pair.PairTest):
    def test_info(self):
        """fi_info finds the adapter"""
        out = subprocess.run([pair.LAUNCHER, "--", "fi_info", "-p", PROVIDER], capture_output=True,
                             text=True, timeout=pair.PATIENCE, check=True).stdout
        self.assertRegex(out, r"domain: vhca0-dgram")

    def test_pingpong(self):
        """fi_pingpong sends right data of all its sizes"""
        rounds = 200 if pair.LONG else 10
        for mode in ("msg", "tagged") if pair.LONG else ("tagged",):
            with self.subTest(mode=mode):
                codes, text = FabricPair(["fi_pingpong", "-p", PROVIDER, "-d", "vhca0-dgram", "-e",
                                          "rdm", "-m", mode, "-c", "-I", str(rounds)]).end()
                self.assertEqual(set(codes), {0}, text)
                for size in SIZES:
                    rows = re.findall(rf"(?m)^{size} +{rounds} +={rounds} ", text)
                    self.assertEqual(len(rows), 2, (size, text))


if __name__ == "__main__":
    pair.need("fi_pingpong", "libfabric-bin")
    pair.main()
