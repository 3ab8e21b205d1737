"""What an import tells: names and types that changed, what is not taken, what the file holds."""

import collections


def ports(walk):
    """Lines about the file's inputs and outputs, where they are not what the model says."""
    lines = []
    for what, port in [*(("input", p) for p in walk.inputs), *(("output", p) for p in walk.outputs)]:
        if port.name != port.onnx_name:
            lines.append(f"{what} {port.onnx_name!r} is called {port.name!r}")
        if port.held != port.shape and not any(port.open):
            lines.append(f"{what} {port.onnx_name!r} of shape {list(port.shape)} is held as {list(port.held)}")
    lines += [f"dimension {i} of output {port.onnx_name!r} is as long as a run finds"
              for port in walk.outputs for i, of_run in enumerate(port.open) if of_run]
    lines += [f"input {name!r} has no elements, and is left out" for name in walk.empty]
    return lines


def narrowed(walk):
    """Lines about types."""
    return [f"{theirs} is {ours}: {', '.join(what) or 'inside'}" for (theirs, ours), what in sorted(walk.told.items())]


def not_taken(refused):
    """All nodes that are not taken, and how many of each op."""
    troubles = getattr(refused, "troubles", None)
    if not troubles:
        return [str(refused)]
    counts = collections.Counter(t.op for t in troubles)
    lines = [f"{len(troubles)} nodes are not taken: " + ", ".join(f"{c} {o}" for o, c in counts.most_common())]
    return lines + [f"  {trouble}" for trouble in troubles]


def held(walk):
    graph = walk.graph
    weights = sum(array.nbytes for block in graph.blocks for _, array, _ in block.weights)
    return (f"{len(walk.model.graph.node)} nodes of ONNX became {len(graph.nodes)}; "
            f"{weights} bytes of weights in {len(graph.blocks)} blocks")
