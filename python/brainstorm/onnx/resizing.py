"""Resize of set 10 and Upsample, which the onnx package's converter brings to later sets without saying how they place
pixels: asymmetric, and the nearest as ONNX Runtime has it.
"""

import numpy as np
import onnx

from .interpolation import SIMPLE

FIRST = 11  # the set from which on a Resize says it itself


def graphs(graph):
    """A graph and those in its nodes."""
    yield graph
    for node in graph.node:
        for attribute in node.attribute:
            for inner in [attribute.g] if attribute.type == onnx.AttributeProto.GRAPH else attribute.graphs:
                yield from graphs(inner)


def shrinks(graph, node):
    """Whether it is known that an axis gets shorter."""
    scales = [onnx.helper.get_attribute_value(a) for a in node.attribute if a.name == "scales"]
    made = {t.name: t for t in graph.initializer}
    made.update({n.output[0]: a.t for n in graph.node if n.op_type == "Constant" for a in n.attribute
                 if a.name == "value"})
    if len(node.input) > 1 and node.input[1] in made:
        scales.append(onnx.numpy_helper.to_array(made[node.input[1]]))
    return any(np.any(np.asarray(s) < 1) for s in scales)


def found(model):
    """{output: attributes} of the nodes of a model of an old set."""
    return {node.output[0]: {"coordinate_transformation_mode": "asymmetric",
                             "nearest_mode": SIMPLE if shrinks(graph, node) else "floor"}
            for graph in graphs(model.graph) for node in graph.node
            if node.op_type in ("Resize", "Upsample") and node.domain in ("", "ai.onnx")}


def said(model, placed):
    """The converted model, with what `found` found."""
    for graph in graphs(model.graph):
        for node in graph.node:
            if node.op_type == "Resize" and node.output[0] in placed:
                wanted = placed[node.output[0]]
                kept = [a for a in node.attribute if a.name not in wanted]
                del node.attribute[:]
                node.attribute.extend([*kept, *(onnx.helper.make_attribute(k, v) for k, v in wanted.items())])
    return model
