# SPDX-License-Identifier: BSD-3-Clause
"""UCX on the adapter, through libibverbs, as it comes. Usage: ucx_test.py KILIM_VHCA"""

import os
import re
import subprocess

import pair

TRANSPORTS = ("rc_verbs,ud_verbs:aux", "ud_verbs")
TESTS = ("tag_lat", "ucp_put_bw", "ucp_get", "ucp_fadd")


class Ucx(pair.PairTest):
    def setUp(self):
        super().setUp()
        os.environ["UCX_NET_DEVICES"] = "vhca0:1"

    def test_info(self):
        """ucx_info finds the device and its transports"""
        out = subprocess.run([pair.LAUNCHER, "--", "ucx_info", "-d"], capture_output=True,
                             text=True, timeout=pair.PATIENCE, check=True).stdout
        of_device = out.partition("# Memory domain: vhca0")[2].partition("# Memory domain")[0]
        self.assertLessEqual({"rc_verbs", "rc_mlx5", "ud_verbs", "ud_mlx5"},
                             set(re.findall(r"Transport: (\w+)", of_device)), out)

    def test_perftest(self):
        """ucx_perftest moves messages, writes, reads and adds"""
        for transport in TRANSPORTS:
            os.environ["UCX_TLS"] = transport
            for test in TESTS:
                with self.subTest(transport=transport, test=test):
                    text = self.good(["ucx_perftest", "-t", test, "-n", "40", "-w", "4", "-s", "8"])
                    self.assertRegex(text, r"(?m)^Final: +40 ")

    def test_long_messages(self):
        """a message of a MiB goes by rendezvous"""
        os.environ["UCX_TLS"] = TRANSPORTS[0]
        text = self.good(["ucx_perftest", "-t", "tag_bw", "-n", "10", "-w", "2", "-s", "1048576"])
        self.assertRegex(text, r"(?m)^Final: +10 ")


if __name__ == "__main__":
    pair.need("ucx_perftest", "ucx-utils")
    pair.main()
