"""derive.py - one export serves the variants of a network: what differs is written into it.

An export takes minutes, most variants differ by weights, thresholds, capacities or the number of paths only. Owns: the
changes of an ONNX model. Relies on: onnx; initializers that are called as the parameters they are. Must never: leave a
weight of the variant that was exported where the wanted one has another: `kept` names those that are the same.
"""

import os

import common


def base(folder, stem, net, inputs, rows):
    """The model that was exported, once for a stem."""
    import onnx
    path = os.path.join(folder, f"{stem}.any.onnx")
    if not os.path.exists(path):
        common.exported(net(), inputs, f"{path}.part", rows=rows)
        os.replace(f"{path}.part", path)
    return onnx.load(path)


def with_weights(model, net, kept=()):
    """Every initializer that is a parameter of net gets its values and shape. kept: prefixes of names of those that are
    as they are."""
    from onnx import numpy_helper
    state, wrong = net.state_dict(), []
    for tensor in model.graph.initializer:
        if tensor.name.startswith(kept) or tensor.name not in state:
            wrong += [tensor.name] if "." in tensor.name and not tensor.name.startswith(kept) else []
            continue
        tensor.CopyFrom(numpy_helper.from_array(state[tensor.name].numpy(), tensor.name))
    if wrong:
        raise ValueError(f"the export has weights that the network does not: {wrong[:4]}")
    del model.graph.value_info[:]
    return model


def with_paths(model, paths):
    """Of each Routed the first paths only, and nothing that only the others read."""
    for node in model.graph.node:
        if node.op_type == "Routed":
            del node.input[2 + paths:]
    return pruned(model)


def pruned(model):
    read = {value.name for value in model.graph.output}
    kept = []
    for node in reversed(model.graph.node):
        if read.intersection(node.output):
            read.update(node.input)
            kept.append(node)
    del model.graph.node[:]
    model.graph.node.extend(kept[::-1])
    tensors = [tensor for tensor in model.graph.initializer if tensor.name in read]
    del model.graph.initializer[:]
    model.graph.initializer.extend(tensors)
    return model


def told(model, op, name, values):
    """Sets an attribute of the nodes of an op, one after the other."""
    nodes = [node for node in model.graph.node if node.op_type == op]
    for node, value in zip(nodes, values, strict=True):
        attribute = next(a for a in node.attribute if a.name == name)
        attribute.f = value
    return model


def bypassed(model, op):
    """Without the nodes of an op that have one input and one output: readers get the input."""
    by = {node.output[0]: node.input[0] for node in model.graph.node if node.op_type == op}
    left = [node for node in model.graph.node if node.op_type != op]
    for node in left:
        for number, name in enumerate(node.input):
            node.input[number] = by.get(name, name)
    del model.graph.node[:]
    model.graph.node.extend(left)
    del model.graph.value_info[:]
    return model
