# SPDX-License-Identifier: BSD-3-Clause
"""Compiles the barriers of lib/kilim/detail/base for arm64 and looks at the instructions: those that
rdma-core's util/udma_barrier.h has there, each where its purpose asks for it. The virtual device is
refused there.
Usage: arm64_barriers.py SOURCE_FOLDER CLANG
"""

import re
import subprocess
import sys

# Purpose: what it is on arm64. A device is in the outer shareable domain; between cores of one
# machine the inner one does.
WANTED = {
    "before_doorbell_record": ["dmb oshst"],
    "before_doorbell": ["dsb st"],
    "flush_write_combining": ["dsb st"],
    "after_owner_bit": ["dmb oshld"],
    "before_consumer_index": ["dmb oshld"],
    "after_grace_period": ["dmb ishld"],
    "store_before_load": ["dmb ish"],
    "forget_registers": [],
}


# Each purpose as a function of its own.
UNIT = '#include "kilim/detail/base/barrier.hh"\n' + "".join(
    f'extern "C" void do_{name}() {{ kilim::{name}(); }}\n' for name in WANTED)


def compiled(root, clang, target, unit=UNIT):
    """(exit status, the assembler text or what the compiler says)"""
    done = subprocess.run([clang, "--target=" + target, "-std=c++20", "-O2", "-S", "-xc++", "-",
                           "-o", "-", "-ffreestanding", "-nostdinc", "-I", root + "/lib", "-I",
                           root + "/drivers"],
                          input=unit, capture_output=True, text=True)
    return done.returncode, done.stdout if done.returncode == 0 else done.stderr


def main(root, clang):
    status, text = compiled(root, clang, "aarch64-linux-gnu")
    if status != 0:
        print(text)
        return 1
    faults = 0
    for name, wanted in WANTED.items():
        body = re.search(rf"^do_{name}:(.*?)^\s*ret", text, re.M | re.S)
        got = [" ".join(words) for words in re.findall(r"^\s+(d[ms]b)\s+(\w+)", body[1], re.M)]
        if got != wanted:
            print(f"{name}: {got}, wanted {wanted}")
            faults += 1
    # An architecture that nobody has thought of is refused, not guessed.
    status, text = compiled(root, clang, "riscv64-linux-gnu")
    if status == 0 or "barriers" not in text:
        print("an unknown architecture is not refused")
        faults += 1
    status, text = compiled(root, clang, "aarch64-linux-gnu", '#include "vhca/core/spec.hh"\n')
    if status == 0 or "x86-64 only" not in text:
        print("the virtual device is not refused")
        faults += 1
    print(f"{len(WANTED)} barriers, {faults} faults")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
