# SPDX-License-Identifier: BSD-3-Clause
"""What processes on one switch see of each other. Usage: wire_test.py KILIM_VHCA"""

import glob
import os
import re
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import pair


class Wire(pair.PairTest):
    def opcodes(self, words, server_wire, client_wire, capture):
        """Of all RoCE packets that tshark finds in the capture; each is whole."""
        self.good(words, server_wire=server_wire, client_wire=client_wire)
        fields = ("infiniband.bth.opcode", "infiniband.bth.psn", "infiniband.bth.destqp",
                  "infiniband.invariant.crc", "_ws.malformed")
        out = subprocess.run(["tshark", "-r", capture, "-T", "fields", "-E", "separator=,",
                              *(w for f in fields for w in ("-e", f))],
                             capture_output=True, text=True, check=True).stdout.splitlines()
        self.assertEqual(sum(line.endswith(",") for line in out), len(out), "malformed packets")
        return [int(line.split(",")[0]) for line in out]

    def test_capture(self):
        """tshark reads every packet that a tee wrote"""
        pair.need("tshark", "tshark")
        wire = "unix:" + self.folder
        # First, middle and last of each message, and an acknowledgement at least for the last one.
        for program, first in (("rc", 0x00), ("uc", 0x20)):
            capture = f"{self.folder}/{program}.pcap"
            found = self.opcodes([f"ibv_{program}_pingpong", "-g", "0", "-n", "10", "-s", "3000",
                                  "-m", "1024"], wire + "+tee:" + capture, wire, capture)
            for opcode in (first, first + 1, first + 2):
                self.assertEqual(found.count(opcode), 20, program)
            if program == "rc":
                self.assertGreaterEqual(found.count(0x11), 2)
            else:
                self.assertEqual(len(found), 60)
        capture = self.folder + "/ud.pcap"
        found = self.opcodes(["ibv_ud_pingpong", "-g", "0", "-n", "10"], wire + "+tee:" + capture,
                             wire, capture)
        self.assertEqual(found, [0x64] * 20)

    def test_addresses(self):
        """two processes do not look alike, and --mac names another address"""
        text = self.good(["ibv_rc_pingpong", "-g", "0", "-n", "5"])
        self.assertEqual(sorted(set(re.findall(r"GID (\S+)", text))),
                         ["fe80::4b:4cff:fe00:1", "fe80::4b:4cff:fe00:101"])
        done = subprocess.run([pair.LAUNCHER, "--mac", "02:11:22:33:44:55", "--", "ibv_devinfo",
                               "-v"], capture_output=True, text=True, check=True)
        self.assertIn("fe80::11:22ff:fe33:4455", done.stdout)
        for bad in ("02:11:22:33:44", "01:11:22:33:44:55", "02-11-22-33-44-55", "x", ""):
            done = subprocess.run([pair.LAUNCHER, "--mac", bad, "--", "true"], capture_output=True,
                                  text=True, check=False)
            self.assertEqual(done.returncode, 2)
            self.assertRegex(done.stderr, "^kilim-vhca: --mac=.+\n$")

    def test_second_gid(self):
        """GID 1 is the one that --gid names, and peers find each other by it"""
        wire = "unix:" + self.folder
        for program in ("rc", "uc", "ud"):
            with self.subTest(program=program):
                text = self.good([f"ibv_{program}_pingpong", "-g", "1", "-n", "20"],
                                 server_wire=wire, client_wire=wire,
                                 options=["--gid", "fd00::a"],
                                 client_options=["--gid", "fd00::b"])
                self.assertEqual(sorted(set(re.findall(r"GID (\S+)", text))),
                                 ["fd00::a", "fd00::b"])
        out = subprocess.run([pair.LAUNCHER, "--devices", "2", "--gid", "fd00::5", "--",
                              "ibv_devinfo", "-v"], capture_output=True, text=True,
                             check=True).stdout
        self.assertIn("GID[  1]:\t\tfd00::5, RoCE v2", out)
        self.assertIn("GID[  1]:\t\tfd00::6, RoCE v2", out)
        for bad in ("fe80::1", "ff02::1", "::1", "::", "10.0.0.1", "::ffff:10.0.0.1", "x", "",
                    "f" * 60):
            done = subprocess.run([pair.LAUNCHER, "--gid", bad, "--", "true"], capture_output=True,
                                  text=True, check=False)
            self.assertEqual(done.returncode, 2, bad)
            self.assertRegex(done.stderr, "^kilim-vhca: --gid=.+\n$")

    def test_relative_paths(self):
        """relative paths in a wire are the launcher's: children elsewhere meet there"""
        for name in ("here", "elsewhere"):
            os.mkdir(f"{self.folder}/{name}")
        subprocess.run([pair.LAUNCHER, "--wire", "unix:switch+tee:frames.pcap", "--", "env", "-C",
                        self.folder + "/elsewhere", "ibv_devinfo"], cwd=self.folder + "/here",
                       stdout=subprocess.DEVNULL, check=True)
        self.assertEqual(sorted(os.listdir(self.folder + "/here")), ["frames.pcap", "switch"])
        self.assertEqual(os.listdir(self.folder + "/elsewhere"), [])

    def test_folder_of_somebody_else(self):
        """a folder that others write to is refused as the wire"""
        os.mkdir(self.folder + "/kilim")
        os.chmod(self.folder + "/kilim", 0o777)
        done = subprocess.run([pair.LAUNCHER, "--", "true"], capture_output=True, text=True,
                              check=False)
        self.assertEqual(done.returncode, 2)
        self.assertIn("others may enter the folder", done.stderr)

    def test_left_sockets(self):
        """what ended processes left behind is used again"""
        for _ in range(3):
            self.good(["ibv_rc_pingpong", "-g", "0", "-n", "5"])
        self.assertLessEqual(len(glob.glob(self.folder + "/kilim/*")), 4)


if __name__ == "__main__":
    pair.main()
