# SPDX-License-Identifier: BSD-3-Clause
"""DPDK's crypto_mlx5, unmodified, on the adapter: dpdk-test-crypto-perf encrypts and decrypts by
UMRs that neither we nor libmlx5 wrote, and compares what comes out with libcrypto's answer.
(dpdk-test's own suite for this driver has vectors for wrapped keys alone.)
Usage: dpdk_crypto_test.py KILIM_VHCA"""

import os
import random
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "pyverbs"))

import crypto_info
import pair

PROGRAM = "dpdk-test-crypto-perf"
OPERATIONS = 20000 if pair.LONG else 1000


def vectors(path, size, keys, spoil=False):
    """A file of test vectors: one data unit of this size."""
    source = random.Random(size + keys)
    key, number = source.randbytes(keys), source.getrandbits(128)
    plain = source.randbytes(size)
    cipher = bytearray(crypto_info.xts(key, number, plain))
    if spoil:
        cipher[size // 2] ^= 1
    rows = {"plaintext": plain, "ciphertext": cipher, "cipher_key": key,
            "cipher_iv": number.to_bytes(16, "little")}
    with open(path, "w", encoding="utf-8") as f:
        for name, data in rows.items():
            f.write(name + " =\n" + ", ".join(f"0x{b:02x}" for b in data) + "\n")


class Crypto(pair.PairTest):
    def run_verify(self, operation, size, keys, words=(), spoil=False):
        """How many operations were done, and of how many the result was another one."""
        with tempfile.NamedTemporaryFile() as file:
            vectors(file.name, size, keys, spoil)
            cores = "0,1" if len(os.sched_getaffinity(0)) > 1 else "0@0,1@0"
            done = subprocess.run(
                [pair.LAUNCHER, "--pci", "--", PROGRAM, "--no-huge", "-m", "256", "--no-shconf",
                 f"--file-prefix=kilim{os.getpid()}", "--no-telemetry", "--lcores", cores,
                 "-a", "0000:81:00.0,class=crypto", "--", "--devtype", "mlx5_pci",
                 "--ptest", "verify", "--optype", "cipher-only", "--cipher-algo", "aes-xts",
                 "--cipher-op", operation, "--cipher-key-sz", str(keys), "--cipher-iv-sz", "16",
                 "--buffer-sz", str(size), "--total-ops", str(OPERATIONS), "--silent",
                 "--test-file", file.name, *words],
                capture_output=True, text=True, timeout=pair.PATIENCE)
        text = done.stdout + done.stderr
        row = re.search(r"(?m)^ +\d+ +%d +\d+ +(\d+) +(\d+) +\d+ +\d+ +(\d+)\s*$" % size, text)
        self.assertTrue(row, text[-3000:])
        self.assertEqual(row.group(1), row.group(2), text[-3000:])
        return int(row.group(2)), int(row.group(3))

    def test_content(self):
        """data units of 512 bytes and 4 KiB, keys of 128 and 256 bits, both directions"""
        for operation in ("encrypt", "decrypt"):
            for size, keys in ((512, 32), (4096, 64)):
                with self.subTest(operation=operation, size=size):
                    self.assertEqual(self.run_verify(operation, size, keys), (OPERATIONS, 0))

    def test_pieces(self):
        """four pieces of memory, and a result elsewhere"""
        for words in (("--segment-sz", "1024"), ("--out-of-place", "--segment-sz", "8192")):
            with self.subTest(words=words):
                self.assertEqual(self.run_verify("encrypt", 4096, 32, words), (OPERATIONS, 0))

    def test_comparison(self):
        """a wrong vector is seen"""
        self.assertEqual(self.run_verify("encrypt", 512, 32, spoil=True),
                         (OPERATIONS, OPERATIONS))


if __name__ == "__main__":
    pair.need(PROGRAM, "dpdk-dev")
    pair.main()
