# SPDX-License-Identifier: BSD-3-Clause
"""Carries out one scenario (scenario.py) between two ends: makes their objects, does the steps, and
compares completions, states and memory with what the scenario says."""

import re
import time
import zlib

import mix
from end import pattern

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
SETTLE_SECONDS = 8      # until an outcome that is not the expected one is taken for final
RANGE = re.compile(r"^(?:([rp])\.)?(\w+):(\d+)\+(\d+P?)$")


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
        self.expected.update(mix.post(self, int(count)))

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
