# SPDX-License-Identifier: BSD-3-Clause
"""Reads scenarios and exceptions, which are data; run.py carries them out.

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
