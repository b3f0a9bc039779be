# SPDX-License-Identifier: BSD-3-Clause
"""Writes what rdma-core's crypto tests read (MLX5_CRYPTO_TEST_INFO): keys in plain text, and what
AES-XTS makes of the tests' data with them, computed by OpenSSL's libcrypto. The adapter takes no
wrapped keys, so that there are no credentials. Usage: crypto_info.py FILE."""

import ctypes
import ctypes.util
import json
import struct
import sys

UNIT = 512


def xts(keys, number, data):
    """One data unit, encrypted."""
    lib = ctypes.CDLL(ctypes.util.find_library("crypto"))
    for name in ("EVP_CIPHER_CTX_new", "EVP_aes_128_xts", "EVP_aes_256_xts"):
        getattr(lib, name).restype = ctypes.c_void_p
    cipher = lib.EVP_aes_128_xts() if len(keys) == 32 else lib.EVP_aes_256_xts()
    context = ctypes.c_void_p(lib.EVP_CIPHER_CTX_new())
    out, length = ctypes.create_string_buffer(len(data)), ctypes.c_int(0)
    tweak = number.to_bytes(16, "little")
    fine = (lib.EVP_EncryptInit_ex(context, ctypes.c_void_p(cipher), None, keys, tweak) == 1 and
            lib.EVP_EncryptUpdate(context, out, ctypes.byref(length), data, len(data)) == 1)
    lib.EVP_CIPHER_CTX_free(context)
    if not fine or length.value != len(data):
        raise RuntimeError("libcrypto does not encrypt")
    return out.raw


def info():
    # The tests pack keys in the machine's byte order, data in the network's.
    short, long = list(range(1, 9)), list(range(101, 117))
    keys = struct.pack("8I", *short)
    one = xts(keys, 0, b"c" * UNIT)
    two = one + xts(keys, 1, b"c" * UNIT)
    return [{"plaintext_key": short, "plaintext_256_bits_key": long,
             "encrypted_data_for_512_c": list(struct.unpack("!64Q", one)),
             "encrypted_data_for_1024_c": list(struct.unpack("!128Q", two))}]


def main(path):
    with open(path, "w", encoding="utf-8") as f:
        json.dump(info(), f)


if __name__ == "__main__":
    main(sys.argv[1])
