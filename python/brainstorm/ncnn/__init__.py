"""Networks of ncnn (`.param` and `.bin`) as model files of brainstorm.

    from brainstorm.ncnn import import_ncnn

    import_ncnn("net.param", "net.bin", patches=64).graph.write("net.gguf")

or `python3 -m brainstorm.ncnn net.param net.bin net.gguf --patches 64`; docs/ncnn.md. Files are hostile until they are
read: what does not fit is a Refused, with the layer's name.
"""

from .convert import Imported, import_ncnn  # noqa: F401
from .param import Refused  # noqa: F401
