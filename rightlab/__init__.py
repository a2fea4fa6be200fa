"""rightlab: a Jupyter-native agent lab.

``import rightlab`` stays cheap (design 12): everything below is loaded on first use.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rightlab.kernel import load_ipython_extension, unload_ipython_extension
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

_HOMES = {
    "Lab": "rightlab.lab",
    "demo": "rightlab.lab",
    "open": "rightlab.lab",
    "deliver": "rightlab.lab",
    "result": "rightlab.lab",
    "silent": "rightlab.lab",
    "load_ipython_extension": "rightlab.kernel",
    "unload_ipython_extension": "rightlab.kernel",
}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        value = getattr(import_module(_HOMES[name]), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module 'rightlab' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(set(globals()) | set(__all__))
