"""page.py - what bench.py measured, as one HTML file with bars, which needs nothing else."""

import html

STYLE = """body { font: 15px/1.4 sans-serif; max-width: 60em; margin: 2em auto; padding: 0 1em; }
table { border-collapse: collapse; width: 100%; } td { padding: 2px 8px; white-space: nowrap; }
td.bar { width: 60%; } .b { display: inline-block; height: 1em; background: #4a7ab5; vertical-align: middle; }
.t .b { background: #b5894a; } .n { text-align: right; }"""


def bar(share, text, theirs):
    kind, width = "bar t" if theirs else "bar", max(80 * share, 0.3)
    return f'<td class="{kind}"><span class="b" style="width:{width:.1f}%"></span> {html.escape(text)}</td>'


def table(row):
    ways = row["ways"]
    slowest = max(of["ms"] for of in ways.values())
    most = max([row["torch_peak"], *(of["arenas"]["transient"] for of in ways.values() if "arenas" in of)])
    lines = [f"<h2>{html.escape(row['network'])} {html.escape(row['variant'])}</h2><h3>Time of a run</h3><table>"]
    for way, of in ways.items():
        text = f"{of['ms']:.1f} ms, {of['times']:.2f} times as fast as {row['faster']}"
        lines.append(f"<tr><td>{html.escape(way)}</td>{bar(of['ms'] / slowest, text, way.startswith('PyTorch'))}</tr>")
    lines.append("</table><h3>Activations at most, without weights</h3><table>")
    alive = bar(row["torch_peak"] / most, size(row["torch_peak"]), True)
    lines.append(f"<tr><td>PyTorch, tensors alive</td>{alive}</tr>")
    for way, of in ways.items():
        if "arenas" in of:
            arenas = of["arenas"]
            text = f"{size(arenas['transient'])}; weights {size(arenas['weights'])}, slots {size(arenas['slots'])}"
            if "read" in of:
                text += f"; read a run {size(of['read'])}, {of['hits']} hits, {of['misses']} misses"
            lines.append(f"<tr><td>{html.escape(way)}</td>{bar(arenas['transient'] / most, text, False)}</tr>")
    return "\n".join([*lines, "</table>"])


def size(number):
    return f"{number / 1e6:.2f} MB"


def written(rows, path):
    with open(path, "w") as file:
        file.write('<!doctype html><html lang="en"><meta charset="utf-8"><title>The zoo</title>\n'
                   f"<style>{STYLE}</style>\n"
                   "<h1>Networks that decide, beside PyTorch's eager mode</h1>\n"
                   "<p>One thread, contenders in turns, medians. Blue: ours; brown: PyTorch.</p>\n"
                   + "\n".join(map(table, rows)) + "\n</html>\n")
