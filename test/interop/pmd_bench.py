# SPDX-License-Identifier: BSD-3-Clause
"""What the tests of DPDK's mlx5 driver have in common: its ways to a device, and a testpmd on one."""

import shutil
import tempfile
import unittest

import pair
import testpmd as pmd

# Ways of the driver to a device, by what they need of it: verbs, verbs with rules by match buffers,
# firmware commands beside verbs' queues, and for the queues too, which is what a card's user gets;
# and steering by software.
PATHS = {"A": ("no-devx", ",dv_flow_en=0"), "B": ("no-devx", ""), "C": ("cx6dx", ",dv_flow_en=0"),
         "D": ("cx6dx", ""), "S": ("sw-steering", "")}
RETRY = ("set fwd io retry", "set burst tx delay 10 retry 100000")
SEEDED = ["--mac", "02:4b:4c:00:00:01"]


class Bench(unittest.TestCase):
    def setUp(self):
        pair.need("dpdk-testpmd", "dpdk")
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder)

    def session(self, path, wires, words=(), more="", options=(), inside=()):
        profile, devargs = PATHS[path]
        session = pmd.Session(pair.LAUNCHER, wires, [*SEEDED, "--profile", profile, *options],
                              devargs + more, words, inside=inside)
        self.addCleanup(session.end)
        return session

    def dgram(self, path, words=(), more="", options=()):
        neighbour = pmd.Neighbour(tempfile.mkdtemp(dir=self.folder))
        self.addCleanup(neighbour.socket.close)
        return self.session(path, [neighbour.wire], words, more, options), neighbour
