# SPDX-License-Identifier: BSD-3-Clause
"""What a test must have made the device do, and whether its journal shows it: a test may pass
without the work that it is about. The manifest's fourth column names a kind of work."""

import collections
import json

REMOTE_ACCESS = 0x13              # syndrome of a completion, as the manual numbers them


def summary(lines):
    """Counts of a journal's lines: a Counter of its events, "list" for copies in more pieces
    than one at each end, "refused" for accesses that a peer was refused, "set_psv" for
    requests that say where signatures begin."""
    seen = collections.Counter()
    for line in lines:
        try:
            entry = json.loads(line)
        except ValueError:
            continue              # the line under way
        event = entry.get("event")
        seen[event] += 1
        seen["list"] += event == "translated" and entry["pieces"] > 2
        seen["set_psv"] += event == "wqe" and entry["name"] == "SET_PSV"
        seen["refused"] += event == "error" and entry["syndrome"] == REMOTE_ACCESS
    return seen


# Kind of work: what must have been seen, at least once or so often.
DONE = {"wqe": 1, "cqe": 1}
TRAFFIC = dict(DONE, translated=1)
KINDS = {
    "done": DONE,                                        # requests were completed
    "failed": dict(DONE, error=1),                       # a request ended with an error
    "traffic": TRAFFIC,                                  # data was moved
    "denied": dict(TRAFFIC, refused=1),                  # and then refused
    "bind": dict(TRAFFIC, umr=1),                        # through a window
    "window": dict(DONE, umr=1, refused=1),              # which then was shut
    "list": dict(TRAFFIC, umr=1, list=1),                # through a key of several pieces
    "bad-list": dict(DONE, umr=1, error=1),              # beyond such a key
    "tags": dict(DONE, translated=1, tag=1),             # through a matching list
    "signed": dict(TRAFFIC, umr=2, set_psv=1),           # through a key whose blocks are signed
    "bad-block": dict(TRAFFIC, umr=2, set_psv=1, sign_error=1),  # wrongly
    "frames": dict(DONE, frame_in=1, frame_out=1),       # as whole frames
    "filtered": dict(DONE, frame_out=1, frame_drop=1),   # of which rules dropped some
}


def missing(kind, seen):
    """What of this kind of work was not seen, as a list of words; empty: all was."""
    return [f"{event} {seen.get(event, 0)} of {least}" for event, least in KINDS[kind].items()
            if seen.get(event, 0) < least]
