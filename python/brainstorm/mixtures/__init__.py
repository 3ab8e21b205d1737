"""Mixtures of experts of other people's models, as model files whose experts stream.

    from brainstorm.mixtures import mixture_graph, read_gguf

    mixture_graph(read_gguf("moe.gguf", layers=[3])).write("layer3.gguf")

compares nothing; `python3 -m brainstorm.mixtures moe.gguf out.gguf --layers 0-3` does. docs/mixtures.md.
"""

from .build import add_mixture, mixture_graph  # noqa: F401
from .from_arrays import read_arrays, read_safetensors  # noqa: F401
from .from_gguf import read_gguf  # noqa: F401
from .layer import Mixture, Refused  # noqa: F401
