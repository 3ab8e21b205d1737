"""Blocks: which nodes have a group of weights of their own, as patterns of scopes say.

A scope is the path of a module in the program that exported the model: PyTorch writes it into the metadata of every
node (pkg.torch.onnx.name_scopes), older exporters into its name, /moe/paths.0/Gemm. Nodes beside each other whose scope
is that of one pattern, "moe.paths.*", are one block, called by the scope. Must never: change what is computed.
"""

import ast
import fnmatch

SCOPES = "pkg.torch.onnx.name_scopes"
ROOM = 57  # bytes of a block's name


def scopes_of(proto):
    """From the outermost one on."""
    for entry in proto.metadata_props:
        if entry.key == SCOPES:
            try:
                found = ast.literal_eval(entry.value)
            except (ValueError, SyntaxError, MemoryError, RecursionError):
                found = ()
            return [s for s in found if isinstance(s, str)] if isinstance(found, (list, tuple)) else []
    parts = [p for p in proto.name.split("/")[:-1] if p]
    return [".".join(parts[:i + 1]) for i in range(len(parts))]


class Blocks:
    """Opens and closes blocks of a graph as the walk comes by."""

    def __init__(self, graph, names, patterns):
        self.graph, self.names, self.patterns = graph, names, list(patterns or ())
        self.scope = self.context = self.block = None
        self.made = []

    def scope_of(self, proto):
        for pattern in self.patterns:
            for scope in scopes_of(proto):
                if scope.count(".") == pattern.count(".") and fnmatch.fnmatchcase(scope, pattern):
                    return scope
        return None

    def at(self, proto):
        """Before a node is visited."""
        scope = self.scope_of(proto) if self.patterns else None
        if scope == self.scope:
            return
        self.end()
        if scope is not None:
            self.context = self.graph.block(self.names.fresh(scope)[-ROOM:])
            self.block, self.scope = self.context.__enter__(), scope

    def end(self):
        """Closes what is open."""
        if self.context is None:
            return
        if self.block.first_node == len(self.graph.nodes):  # all of it was folded
            self.graph.open_blocks.pop()
            self.graph.blocks.pop()
        else:
            self.context.__exit__(None, None, None)
            self.made.append(self.block.name)
        self.scope = self.context = self.block = None
