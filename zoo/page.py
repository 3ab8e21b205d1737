"""page.py - what bench.py measured, as one HTML file with bars, which needs nothing else."""

import html

STYLE = """body { font: 15px/1.4 sans-serif; max-width: 70em; margin: 2em auto; padding: 0 1em; }
table { border-collapse: collapse; width: 100%; } td { padding: 2px 8px; white-space: nowrap; }
td.bar { width: 60%; } .b { display: inline-block; height: 1em; background: #4a7ab5; vertical-align: middle; }
.t .b { background: #b5894a; } .n { text-align: right; }"""


def bar(name, share, text, theirs=False):
    kind, width = "bar t" if theirs else "bar", max(60 * share, 0.3)
    return (f'<tr><td>{html.escape(name)}</td><td class="{kind}"><span class="b" style="width:{width:.1f}%"></span> '
            f"{html.escape(text)}</td></tr>")


def bars(title, lines):
    return "\n".join([f"<h3>{html.escape(title)}</h3><table>", *lines, "</table>"])


def size(number):
    return f"{number / 1e6:.2f} MB"


def section(row):
    ways = row["ways"]
    slowest = max(of["ms"] for of in ways.values())
    times = [bar(way, of["ms"] / slowest, f"{of['ms']:.1f} ms, {of['times']:.2f} times as fast as {row['faster']}",
                 way.startswith("PyTorch")) for way, of in ways.items()]
    times += [bar(way, 0, "not in this build") for way in row["missing"]]
    ours = {way: of for way, of in ways.items() if "arenas" in of}
    most = max([row["torch_peak"], *(of["arenas"]["transient"] for of in ours.values())])
    active = [bar("PyTorch, tensors alive", row["torch_peak"] / most, size(row["torch_peak"]), True)]
    active += [bar(way, of["arenas"]["transient"] / most, size(of["arenas"]["transient"])) for way, of in ours.items()]
    weights = [bar("PyTorch", 1, size(row["torch_weights"]), True)]
    for way, of in ours.items():
        held = of["arenas"]["persistent"] + of["arenas"]["slots"] + of["arenas"]["staging"]
        more = f"; read a run {size(of['read'])}, {of['hits']} hits, {of['misses']} misses" if "read" in of else ""
        weights.append(bar(way, held / max(row["torch_weights"], held), size(held) + more))
    return "\n".join([f"<h2>{html.escape(row['network'])} {html.escape(row['variant'])}</h2>",
                      bars("Time of a run", times), bars("Activations at most, without weights", active),
                      bars("Weights, slots and what is read into", weights)])


def of_micro(small):
    lines = ["<h2>What a decision costs</h2>"]
    if isinstance(small["branches"], str):
        lines.append(f"<p>Branches: {html.escape(small['branches'])}.</p>")
    else:
        most = max(small["branches"].values())
        lines.append(bars("A branch, a convolution of 8 to 8 channels on [4, 8, 32, 32], beside one alone", [
            bar(f"of {number}", ratio / most, f"{ratio:.2f}") for number, ratio in small["branches"].items()]))
    times = small["experts"]["ms"]
    lines.append(bars(f"A layer of 64 experts, 64 tokens on {small['experts']['used']} of them", [
        bar(name, ms / max(times.values()), f"{ms:.1f} ms", name.startswith("PyTorch")) for name, ms in times.items()]))
    return "\n".join(lines)


def written(rows, small, path):
    with open(path, "w") as file:
        file.write('<!doctype html><html lang="en"><meta charset="utf-8"><title>The zoo</title>\n'
                   f"<style>{STYLE}</style>\n"
                   "<h1>Networks that decide, beside PyTorch's eager mode</h1>\n"
                   "<p>One thread, contenders in turns, medians. Blue: ours, each with one thing more than the one "
                   "above it; brown: PyTorch.</p>\n"
                   + "\n".join(map(section, rows)) + (of_micro(small) if small else "") + "\n</html>\n")
