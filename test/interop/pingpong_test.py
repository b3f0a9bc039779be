# SPDX-License-Identifier: BSD-3-Clause
"""rdma-core's ping-pong programs between two processes. Usage: pingpong_test.py KILIM_VHCA

With KILIM_CHECK=long in the environment: all sizes, ways to wait and MTUs.
"""

import itertools
import os
import sys
from unittest import mock

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import pair

FAULTS = "+fault:drop:0.01:dup:0.01:reorder:0.01:corrupt:0:seed:"
POLL, EVENTS = (), ("-e",)
MIB = 1 << 20
# MTU, bytes of a message, how completions are waited for.
SHAPES = [(1024, 1, POLL), (1024, 65536, EVENTS), (1024, MIB, POLL),
          (4096, 1, EVENTS), (4096, 4095, POLL), (4096, MIB, EVENTS)]
BAD_WIRE_SHAPES = [(1024, 4096, POLL), (1024, 65536, EVENTS), (4096, 65536, POLL)]
UD_SHAPES = [(1, POLL), (2048, EVENTS), (4096, POLL), (4096, EVENTS)]
if pair.LONG:
    sizes = [1, 2, 64, 1023, 1024, 1025, 4095, 4096, 4097, 65536, MIB]
    SHAPES = list(itertools.product((1024, 4096), sizes, (POLL, EVENTS)))
    BAD_WIRE_SHAPES = SHAPES
    UD_SHAPES = list(itertools.product([s for s in sizes if s <= 4096], (POLL, EVENTS)))


def rounds(size):
    return 20 if size > 100_000 else 100


class PingPong(pair.PairTest):
    def each(self, program, shapes, *words, count=rounds, **more):
        for mtu, size, wait in shapes:
            with self.subTest(program=program, mtu=mtu, size=size, wait=wait):
                self.good([program, "-g", "0", "-m", str(mtu), "-s", str(size), "-n",
                           str(count(size)), *wait, *words], **more)

    def bad_wires(self):
        wire = "unix:" + self.folder + FAULTS
        return {"server_wire": wire + "1", "client_wire": wire + "2"}

    def test_rc(self):
        """ibv_rc_pingpong sends right data"""
        self.each("ibv_rc_pingpong", SHAPES, "-c")

    def test_uc(self):
        """ibv_uc_pingpong sends right data"""
        self.each("ibv_uc_pingpong", SHAPES, "-c")

    def test_srq(self):
        """ibv_srq_pingpong sends right data"""
        self.each("ibv_srq_pingpong", SHAPES, "-c")

    def test_ud(self):
        """ibv_ud_pingpong sends right data"""
        for size, wait in UD_SHAPES:
            with self.subTest(size=size, wait=wait):
                self.good(["ibv_ud_pingpong", "-g", "0", "-c", "-n", "100", "-s", str(size), *wait])

    def test_xsrq(self):
        """ibv_xsrq_pingpong ends well"""
        self.each("ibv_xsrq_pingpong", SHAPES)

    def test_xsrq_clients(self):
        """ibv_xsrq_pingpong serves three clients"""
        text = self.good(["ibv_xsrq_pingpong", "-g", "0", "-n", "50"], clients=3,
                         server_words=["-c", "3"])
        self.assertEqual(text.count("success"), 4, text)

    def test_memory(self):
        """a process with a device and a queue pair takes at most 6.8 MiB"""
        # Without the optimizer 1.1 MiB more of the device's own code are read.
        most = 6.8 + (1.2 if os.environ.get("KILIM_OPTIMIZATION") == "0" else 0)
        with mock.patch.dict(os.environ):
            os.environ.pop("MALLOC_PERTURB_", None)    # Meson's: the allocator writes to all that it gives out
            waits = pair.Pair(["ibv_rc_pingpong", "-g", "0"], clients=0)
        try:
            self.assertTrue(waits.port.listened(), waits.text())    # its queue pair is there
            self.assertLess(waits.resident_bytes(waits.server), most * MIB)
        finally:
            waits.stop_all()
            waits.port.socket.close()

    def test_rc_on_a_bad_wire(self):
        """ibv_rc_pingpong sends right data over a wire that loses, doubles and swaps frames"""
        self.each("ibv_rc_pingpong", BAD_WIRE_SHAPES, "-c", **self.bad_wires())

    def test_rc_in_shared_memory(self):
        """ibv_rc_pingpong sends right data through memory that two processes share"""
        wire = "shm:" + self.folder + "/shm"
        self.each("ibv_rc_pingpong", SHAPES, "-c", server_wire=wire, client_wire=wire)
        self.each("ibv_rc_pingpong", BAD_WIRE_SHAPES[:1], "-c", server_wire=wire + FAULTS + "1",
                  client_wire=wire + FAULTS + "2")

    def test_srq_on_a_bad_wire(self):
        """ibv_srq_pingpong sends right data over a wire that loses, doubles and swaps frames"""
        self.each("ibv_srq_pingpong", BAD_WIRE_SHAPES, "-c", **self.bad_wires())

    def test_xsrq_on_a_bad_wire(self):
        """ibv_xsrq_pingpong ends well over a wire that loses, doubles and swaps frames"""
        self.each("ibv_xsrq_pingpong", BAD_WIRE_SHAPES, **self.bad_wires())


if __name__ == "__main__":
    pair.need("ibv_rc_pingpong", "ibverbs-utils")
    pair.main()
