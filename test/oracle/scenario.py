# SPDX-License-Identifier: BSD-3-Clause
"""Reads scenarios and exceptions, which are data, and carries out one scenario between two ends.

A scenario file has sections. Its first line is `[name] what the specification says`; then come
  let KEY VALUE             before the queues are made: type, r.access, p.region, r.retry, ...
  SIDE VERB ...             r is the requester's end, p its peer
  lose END PLAN             packets to `r`, `p` or `both`: numbers, `all`, or a rate
  wait SIDE COUNT           until that end has so many completions
  see SIDE rnr|nak          until such an answer has come to that end
  mix COUNT                 a random sequence of requests, from the run's seed
  = r|p TOKEN ...           the completions of an end, sends then receives: ID:WHAT[:BYTES[:IMM]]
  = states R P              of the two queues at the end; RTS RTS where it is not said
  = copy FROM TO, = add RANGE N, = put RANGE VALUE, = any RANGE
                            what the data does; every other byte is as it was
A range is SIDE.REGION:OFFSET+BYTES; a number of bytes may be so many packets: 3P.
"""

import random
import re
import time
import zlib

ACCESS = {"l": 1, "w": 2, "r": 4, "a": 8, "b": 16}
FLAGS = {"fence": 1, "solicited": 4, "inline": 8}
SIGNALED = 2
STATUS = ("ok LOC_LEN LOC_QP_OP LOC_EEC_OP LOC_PROT FLUSH MW_BIND BAD_RESP LOC_ACCESS REM_INV_REQ "
          "REM_ACCESS REM_OP RETRY_EXC RNR_EXC").split()
OPCODE = {0: "send", 1: "write", 2: "read", 3: "cas", 4: "add", 5: "bind", 6: "inv", 128: "recv",
          129: "recv_imm"}
STATES = "RESET INIT RTR RTS SQD SQE ERR".split()
REGION_BYTES = 16384
SIDES = ("r", "p")
MIX_PLACE = 2560        # bytes: more than a message of a mix
SETTLE_SECONDS = 8      # until an outcome that is not the expected one is taken for final
RANGE = re.compile(r"^(?:([rp])\.)?(\w+):(\d+)\+(\d+P?)$")


class Scenario:
    def __init__(self, name, about):
        self.name, self.about = name, about
        self.lets, self.steps, self.effects = {}, [], []
        self.expected = {"r": [], "p": [], "states": ["RTS", "RTS"]}


def read_scenarios(path):
    found = []
    with open(path, encoding="ascii") as f:
        for line in f:
            words = line.split("#")[0].split()
            if not words:
                continue
            if words[0].startswith("["):
                found.append(Scenario(words[0].strip("[]"), " ".join(words[1:])))
            elif words[0] == "let":
                found[-1].lets[words[1]] = words[2]
            elif words[0] == "=" and words[1] in found[-1].expected:
                found[-1].expected[words[1]] = words[2:]
            elif words[0] == "=":
                found[-1].effects.append(words[1:])
            else:
                found[-1].steps.append(words)
    return found


def read_exceptions(path):
    """{(scenario, who deviates, field): (what it does, why)}; who: "kernel as r", ..."""
    found = {}
    with open(path, encoding="ascii") as f:
        for line in f:
            if line.strip() and not line.startswith("#"):
                name, who, field, value, why = line.rstrip("\n").split("\t")
                found[name, who, field] = ([] if value == "-" else value.split(), why)
    return found


def pattern(size, seed):
    """What a peer fills a region with."""
    return bytearray(((i * 7) ^ (i >> 8) ^ (seed * 37)) & 255 for i in range(size))


class End:
    """A peer program: lines to it, answers from it."""

    def __init__(self, name, stream_in, stream_out, gid):
        self.name, self.input, self.output, self.gid = name, stream_in, stream_out, gid

    def ask(self, line):
        """(error number, {key: value} or the words of the answer)"""
        self.input.write(line + "\n")
        self.input.flush()
        answer = self.output.readline().split()
        if not answer or answer[0] == "error:" or answer[0] not in ("ok", "error"):
            raise RuntimeError(f"{self.name}: '{line}' was answered by {answer}")
        if answer[0] == "error":
            return int(answer[1]), []
        return 0, answer[1:]

    def get(self, line):
        code, words = self.ask(line)
        if code:
            raise RuntimeError(f"{self.name}: '{line}' ended with error {code}")
        return {k: int(v, 0) for k, v in (w.split("=", 1) for w in words if "=" in w)}


class Run:
    """One scenario, one direction. Fields of the outcome: r, p, states, memory."""

    def __init__(self, scenario, ends, relay, options):
        self.scenario, self.ends, self.relay = scenario, ends, relay
        self.plan, self.mtu, self.seed = options["plan"], options["mtu"], options["seed"]
        self.exceptions = options["exceptions"]    # {field: (what it is instead, why)}
        self.refused = {"r": [], "p": []}
        self.keys, self.memory, self.unknown = {}, {}, []
        self.expected = {k: [self.sized_token(t) for t in v]
                         for k, v in scenario.expected.items()}
        self.effects = list(scenario.effects)
        self.lost = 0

    def let(self, side, key, other):
        lets = self.scenario.lets
        return lets.get(f"{side}.{key}", lets.get(key, other))

    # -- objects

    def make_region(self, side, name, size, rights, domain="main"):
        access = sum(ACCESS[c] for c in rights if c != "-")
        seed = {"r": 1, "p": 2}[side] + 10 * len(self.keys)
        self.keys[side, name] = self.ends[side].get(
            f"region {name} pd={domain} bytes={size} access={access} seed={seed}")
        self.memory[side, name] = pattern(size, seed)

    def make_queue(self, side, name):
        kind = self.let(side, "type", "rc")
        access = sum(ACCESS[c] for c in self.let(side, "access", "lwra") if c != "-")
        self.keys[side, name] = self.ends[side].get(
            f"queue {name} pd=main type={kind} access={access} inline=64 "
            f"qkey={self.let(side, 'qkey', '0x111')}")

    def connect(self, name):
        psn = {"r": 0xfffffa, "p": 0x4711}    # the first one wraps
        for side, other in (("r", "p"), ("p", "r")):
            skew = int(self.let(side, "psn_skew", 0))
            words = " ".join(f"{key}={self.let(side, key, default)}" for key, default in (
                ("timeout", 14), ("retry", 7), ("rnr_retry", 7), ("rnr_timer", 12), ("reads", 4)))
            self.ends[side].get(
                f"connect {name} gid={self.ends[other].gid} peer={self.keys[other, name]['qpn']} "
                f"psn={psn[side]} peer_psn={(psn[other] + skew) % (1 << 24)} mtu={self.mtu} {words}")

    def set_up(self):
        self.relay.clean()
        for side in SIDES:
            self.ends[side].get("clear")
            self.ends[side].get("domain main")
            self.ends[side].get("domain other")
            self.make_region(side, "m", REGION_BYTES, self.let(side, "region", "lwrab"))
            self.make_queue(side, "q")
        self.connect("q")

    # -- steps

    def pieces(self, side, words, lkey=None):
        out = []
        for word in words.split(","):
            if word == "-":
                continue
            _, name, offset, size = RANGE.match(word).groups()
            key = self.keys[side, name]
            chosen = key["lkey"] if lkey is None else lkey
            out.append(f"{chosen}:{key['addr'] + int(offset)}:{self.sized(size)}")
        return "sge=" + ",".join(out) if out else ""

    def remote(self, side, options):
        """Address and key of the other end's region or window, with the twist of a violation."""
        if "to" not in options:
            return ""
        name, offset = options["to"].split(":")
        other = "p" if side == "r" else "r"
        key = self.keys[other, name]
        rkey = self.twisted(key["rkey"], options.get("rkey", ""))
        return f"addr={key['addr'] + int(offset)} rkey={rkey}"

    def sized(self, text):
        """Bytes, or packets of the path's MTU."""
        return int(text[:-1]) * (128 << self.mtu) if text[-1] == "P" else int(text)

    def sized_token(self, token):
        return ":".join(str(self.sized(w)) if re.fullmatch(r"\d+P", w) else w
                        for w in token.split(":"))

    @staticmethod
    def twisted(key, twist):
        if twist == "tag+1":
            return key & ~255 | (key + 1) & 255
        if twist == "tag-1":
            return key & ~255 | (key - 1) & 255
        return key + (0x4000 << 8) if twist == "index" else key

    def note(self, side, number, code):
        if code:
            self.refused[side].append(f"{number}:post-{code}")

    def do_receive(self, side, number, ranges, *options):
        options = dict(o.split("=", 1) for o in options)
        lkey = None
        if "lkey" in options:
            lkey = self.twisted(self.keys[side, "m"]["lkey"], options["lkey"])
        code, _ = self.ends[side].ask(f"receive {options.get('queue', 'q')} id={number} "
                                      + self.pieces(side, ranges, lkey))
        self.note(side, number, code)

    def do_post(self, side, op, number, ranges, *words):
        options = dict(w.split("=", 1) for w in words if "=" in w)
        flags = sum(FLAGS.get(w, 0) for w in words) | (0 if "quiet" in words else SIGNALED)
        lkey = None
        if "lkey" in options:
            lkey = self.twisted(self.keys[side, "m"]["lkey"], options["lkey"])
        more = "".join(f" {k}={options[k]}" for k in ("imm", "add", "compare", "swap")
                       if k in options)
        if "invalidate" in options:
            owner, name = options["invalidate"].split(".")
            more += f" rkey={self.keys[owner, name]['rkey']}"
        code, _ = self.ends[side].ask(
            f"post {options.get('queue', 'q')} op={op} id={number} flags={flags} "
            f"qkey={options.get('qkey', '0x111')} {self.pieces(side, ranges, lkey)} "
            f"{self.remote(side, options)}{more}")
        self.note(side, number, code)

    def do_bind(self, side, number, name, area, rights, queue="q"):
        _, region, offset, size = RANGE.match(area).groups()
        key = self.keys[side, name]
        new = key["rkey"] & ~255 | (key["rkey"] + 1) & 255
        address = self.keys[side, region]["addr"] + int(offset)
        access = sum(ACCESS[c] for c in rights if c != "-")
        code, _ = self.ends[side].ask(
            f"post {queue} op=bind id={number} flags={SIGNALED} window={name} region={region} "
            f"rkey={new} addr={address} bytes={size} access={access}")
        self.note(side, number, code)
        self.keys[side, name] = {"rkey": new, "addr": address}

    def do_side(self, side, verb, *words):
        if verb == "receive":
            self.do_receive(side, *words)
        elif verb == "region":
            self.make_region(side, words[0], int(words[1]), words[2], *words[3:])
        elif verb == "window":
            self.keys[side, words[0]] = self.ends[side].get(f"window {words[0]} pd=main") | {
                "addr": self.keys[side, "m"]["addr"]}
        elif verb == "queue":
            self.make_queue(side, words[0])
        elif verb == "bind":
            self.do_bind(side, *words)
        elif verb == "deregister":
            self.ends[side].get(f"deregister {words[0]}")
        elif verb == "set":
            _, name, offset, _ = RANGE.match(words[0]).groups()
            value = int(words[1], 0)
            self.ends[side].get(f"set {name} at={offset} value={value}")
            self.memory[side, name][int(offset):int(offset) + 8] = value.to_bytes(8, "little")
        else:
            self.do_post(side, verb, *words)

    def do_connect(self, name):
        self.connect(name)

    def do_lose(self, end, plan):
        for side in SIDES if end == "both" else (end,):
            self.relay.plans[self.ends[side].name] = self.plan(plan, self.seed)

    def do_wait(self, side, count):
        self.completions(side, int(count), 4000)

    def do_see(self, side, answer):
        plan = self.relay.plans[self.ends[side].name]
        end = time.monotonic() + SETTLE_SECONDS
        while answer not in plan.answers:
            if time.monotonic() > end:
                raise RuntimeError(f"no {answer} came to {side}")
            time.sleep(0.001)

    def do_mix(self, count):
        """Requests of all kinds, each with a place of its own in region `x` for what it brings: a
        repeat does not show in the data, nor does it when a short message comes in a completion."""
        dice = random.Random(self.seed)
        for side in SIDES:
            self.make_region(side, "x", int(count) * MIX_PLACE, "lwra")
        expected = {"r": [], "p": []}
        for n in range(1, int(count) + 1):
            op = dice.choice(("send", "send_imm", "write", "write_imm", "read", "add"))
            size = dice.choice((0, 1, 8, 1023, 1024, 1025, 2500))
            at, slot = dice.randrange(0, 1000), (n - 1) * MIX_PLACE + dice.randrange(0, 60)
            if "send" in op or op == "write_imm":
                self.do_side("p", "receive", str(100 + n), f"x:{slot}+{size}" if size else "-")
                kind = "recv_imm" if op == "write_imm" else "recv"
                expected["p"].append(f"{100 + n}:{kind}:{size}" + (
                    f":imm{n}" if "imm" in op else ""))
            self.mixed_post(n, op, size, at, slot)
            expected["r"].append(f"{n}:{op.removesuffix('_imm')}" + (
                f":{size}" if op == "read" else ""))
            if n % 8 == 0:
                self.completions("r", n, 20000)
        self.expected["r"], self.expected["p"] = expected["r"], expected["p"]

    def mixed_post(self, n, op, size, at, slot):
        source = f"m:{at}+{size}" if size else "-"
        if op == "read":
            self.do_side("r", op, str(n), f"x:{slot}+{size}" if size else "-", f"to=m:{at}")
            self.effects.append(["copy", f"p.m:{at}+{size}", f"r.x:{slot}+{size}"])
        elif op == "add":
            self.do_side("r", op, str(n), f"x:{slot}+8", "to=m:16000", f"add={n}")
            self.effects.append(["copy", "p.m:16000+8", f"r.x:{slot}+8"])
            self.effects.append(["add", "p.m:16000+8", str(n)])
        else:
            place = [f"to=x:{slot}"] if "write" in op else []
            self.do_side("r", op, str(n), source, *place, *([f"imm={n}"] if "imm" in op else []))
            self.effects.append(["copy", f"r.m:{at}+{size}", f"p.x:{slot}+{size}"])

    # -- the outcome

    def completions(self, side, count, milliseconds):
        _, words = self.ends[side].ask(f"wait count={count} ms={milliseconds}")
        out = {"s": [], "r": []}
        for word in words:
            number, status, *rest = word[1:].split(":")
            text = STATUS[int(status)] if int(status) < len(STATUS) else "status" + status
            if rest:
                kind, size = OPCODE[int(rest[0])], rest[1]
                text = kind + (f":{size}" if kind in ("read", "recv", "recv_imm") else "")
                text = ":".join([text, *rest[2:]])
            out[word[0]].append(f"{number}:{text}")
        return self.refused[side] + out["s"] + out["r"]

    def states(self):
        return [STATES[self.ends[s].get("state q")["state"]] for s in SIDES]

    def piece(self, word):
        side, name, offset, size = RANGE.match(word).groups()
        return (side, name), int(offset), self.sized(size)

    def apply(self):
        for effect, *words in self.effects:
            where, at, size = self.piece(words[0])
            if effect == "copy":
                target, to, _ = self.piece(words[1])
                self.memory[target][to:to + size] = bytes(self.memory[where][at:at + size])
            elif effect == "any":
                self.unknown.append((where, at, size))
            else:
                old = int.from_bytes(self.memory[where][at:at + size], "little")
                value = int(words[1], 0) + (old if effect == "add" else 0)
                self.memory[where][at:at + size] = (value % (1 << 64)).to_bytes(size, "little")

    def differing(self):
        """Regions whose bytes are not as the effects say."""
        out = []
        for (side, name), model in self.memory.items():
            holes = sorted((a, a + n) for where, a, n in self.unknown if where == (side, name))
            at = 0
            for start, end in [*holes, (len(model), 0)]:
                got = self.ends[side].get(f"checksum {name} at={at} bytes={start - at}")["crc"]
                if got != zlib.crc32(model[at:start]):
                    out.append(f"{side}.{name}")
                at = end
        return out

    def outcome(self):
        self.apply()
        end = time.monotonic() + SETTLE_SECONDS
        while True:
            wanted = self.wanted()
            found = {s: self.completions(s, len(wanted[s]) - len(self.refused[s]), 50)
                     for s in SIDES}
            found["states"] = self.states()
            found["memory"] = self.differing()
            if self.agrees(found) or time.monotonic() > end:
                return found

    def agrees(self, found):
        return all(found[k] == v for k, v in self.wanted().items())

    def wanted(self):
        """By the specification, but where an exception says what is there instead."""
        return {**self.expected, "memory": [],
                **{field: value for field, (value, _) in self.exceptions.items()}}

    def run(self):
        self.set_up()
        for step in self.scenario.steps:
            if step[0] in SIDES:
                self.do_side(*step)
            else:
                getattr(self, "do_" + step[0])(*step[1:])
        found = self.outcome()
        self.lost = sum(p.lost for p in self.relay.plans.values())
        if not self.lost and any(p.numbers or p.all for p in self.relay.plans.values()):
            raise RuntimeError("nothing was lost")
        return found
