# SPDX-License-Identifier: BSD-3-Clause
"""Asks the kernel's connection manager what it answers to messages written by hand, and writes down
both, for test/vhca/cm, which asks the adapter's the same. Usage: cm_record.py --build FOLDER
--kernel FOLDER --folder FOLDER --write FILE"""

import argparse
import os
import sys

import cm_asker
import guest


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    for name in ("--build", "--kernel", "--folder", "--write"):
        p.add_argument(name, required=True)
    o = p.parse_args()
    asker = cm_asker.Asker(o.folder, "guest")
    program = os.path.abspath(o.build) + "/test/oracle/cm_listener"
    machine = guest.Guest(o.folder, o.kernel, {"/peer": program},
                          (cm_asker.GIDS[0], cm_asker.MACS[0]))
    try:
        line = machine.stream.readline().strip()
        if line != "ok ready":
            raise RuntimeError(f"the guest says '{line}'")
        for part in cm_asker.OF_THE_AGENT:
            part(asker)
    except BaseException as e:
        machine.tell(type(e))
        raise
    finally:
        machine.stop()
    version = os.path.basename(os.listdir(o.kernel + "/lib/modules")[0])
    with open(o.write, "w", encoding="ascii") as f:
        f.write(f"# SPDX-License-Identifier: BSD-3-Clause\n# Written by usertools/oracle.sh --cm, of "
                f"Linux {version}: what was sent, what came back.\n")
        f.write("\n".join(asker.lines) + "\n")
    print(f"{sum(line[0] == '<' for line in asker.lines)} answers")


sys.exit(main())
