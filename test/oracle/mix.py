# SPDX-License-Identifier: BSD-3-Clause
"""A random sequence of requests of all kinds in a run of the oracle."""

import random

PLACE = 2560        # bytes: more than a message of a mix


def post(run, count):
    """What either end is to complete. Each request has a place of its own in region `x` for what it
    brings: a repeat does not show in the data, nor does it when a short message comes in a completion."""
    dice = random.Random(run.seed)
    for side in ("r", "p"):
        run.make_region(side, "x", count * PLACE, "lwra")
    expected = {"r": [], "p": []}
    for n in range(1, count + 1):
        op = dice.choice(("send", "send_imm", "write", "write_imm", "read", "add"))
        size = dice.choice((0, 1, 8, 1023, 1024, 1025, 2500))
        at, slot = dice.randrange(0, 1000), (n - 1) * PLACE + dice.randrange(0, 60)
        if "send" in op or op == "write_imm":
            expected["p"].append(_receive(run, n, op, size, slot))
        _post(run, n, op, size, at, slot)
        expected["r"].append(f"{n}:{op.removesuffix('_imm')}" + (
            f":{size}" if op == "read" else ""))
        if n % 8 == 0:
            run.completions("r", n, 20000)
    return expected


def _receive(run, n, op, size, slot):
    run.do_side("p", "receive", str(100 + n), f"x:{slot}+{size}" if size else "-")
    kind = "recv_imm" if op == "write_imm" else "recv"
    return f"{100 + n}:{kind}:{size}" + (f":imm{n}" if "imm" in op else "")


def _post(run, n, op, size, at, slot):
    source = f"m:{at}+{size}" if size else "-"
    if op == "read":
        run.do_side("r", op, str(n), f"x:{slot}+{size}" if size else "-", f"to=m:{at}")
        run.effects.append(["copy", f"p.m:{at}+{size}", f"r.x:{slot}+{size}"])
    elif op == "add":
        run.do_side("r", op, str(n), f"x:{slot}+8", "to=m:16000", f"add={n}")
        run.effects.append(["copy", "p.m:16000+8", f"r.x:{slot}+8"])
        run.effects.append(["add", "p.m:16000+8", str(n)])
    else:
        place = [f"to=x:{slot}"] if "write" in op else []
        run.do_side("r", op, str(n), source, *place, *([f"imm={n}"] if "imm" in op else []))
        run.effects.append(["copy", f"r.m:{at}+{size}", f"p.x:{slot}+{size}"])
