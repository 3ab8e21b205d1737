#!/usr/bin/env python3
"""trace_check.py TRACE.json - is it a Chrome trace that Perfetto shows as it is meant?

Every slice of a track lies within another or beside it; every flow has one start and one end, each inside a slice of
its track; tracks have names; counters never fall. Prints what it found, one `key value` a line; fails with the reason.
"""
import json
import sys
from decimal import Decimal

with open(sys.argv[1], encoding="utf-8") as file:
    events = json.load(file, parse_float=Decimal)


def ns(us):
    value = Decimal(us) * 1000
    assert value == int(value) and value >= 0, "not whole nanoseconds: %s" % us
    return int(value)


def nest(slices):
    """Slices by start, the longest first: each must end within the one that is open, or begin after it."""
    depth, open_ends = 0, []
    for start, end in sorted(slices, key=lambda s: (s[0], -s[1])):
        while open_ends and open_ends[-1] <= start:
            open_ends.pop()
        assert not open_ends or end <= open_ends[-1], (
            "slice %d..%d leaves the one around it, to %d" % (start, end, open_ends[-1]))
        open_ends.append(end)
        depth = max(depth, len(open_ends))
    return depth


assert isinstance(events, list)
tracks, names, flows, counters, kinds = {}, {}, {}, {}, {}
for e in events:
    assert e["ph"] in "XiMCsf" and e["pid"] == 1, e
    if e["ph"] == "X":
        start = ns(e["ts"])
        tracks.setdefault(e["tid"], []).append((start, start + ns(e["dur"])))
        kinds[e["cat"]] = kinds.get(e["cat"], 0) + 1
    elif e["ph"] == "M" and e["name"] == "thread_name":
        assert e["tid"] not in names, "track %d is named twice" % e["tid"]
        names[e["tid"]] = e["args"]["name"]
    elif e["ph"] in "sf":
        flows.setdefault(e["id"], []).append(e)
    elif e["ph"] == "C":
        for key, value in e["args"].items():
            assert value >= counters.get((e["name"], key), 0), "counter %s falls" % key
            counters[e["name"], key] = value
    elif e["ph"] == "i":
        assert e["s"] == "t"
        ns(e["ts"])
        kinds["moment"] = kinds.get("moment", 0) + 1
for track, slices in tracks.items():
    assert track in names, "track %d has no name" % track
    kinds["depth of %s" % names[track]] = nest(slices)
for flow in flows.values():
    assert sorted(e["ph"] for e in flow) == ["f", "s"], "a flow without a start or an end"
    start, end = sorted(flow, key=lambda e: e["ph"], reverse=True)
    assert ns(start["ts"]) <= ns(end["ts"]), "a flow that goes back in time"
    for e in flow:
        assert any(a <= ns(e["ts"]) <= b for a, b in tracks[e["tid"]]), "a flow that ends outside every slice"
print("flows", len(flows))
for key in sorted(kinds):
    print(key, kinds[key])
for (name, key), value in sorted(counters.items()):
    print("%s %s" % (name, key), value)
