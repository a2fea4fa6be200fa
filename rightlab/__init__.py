"""rightlab: a Jupyter-native agent lab.

``import rightlab`` stays cheap (design 12): everything below is loaded on first use.
"""

from typing import TYPE_CHECKING

from rightlab.lazy import lazy_exports

if TYPE_CHECKING:
    from rightlab.extension import load_ipython_extension, unload_ipython_extension
    from rightlab.lab import Lab, deliver, demo, open, result, silent

__version__ = "0.1.0"

__all__ = [
    "Lab",
    "__version__",
    "deliver",
    "demo",
    "load_ipython_extension",
    "open",
    "result",
    "silent",
    "unload_ipython_extension",
]

__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "lab": ("Lab", "demo", "open", "deliver", "result", "silent"),
        "extension": ("load_ipython_extension", "unload_ipython_extension"),
    },
)
