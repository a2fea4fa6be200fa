"""Where an agent's processes may run: one protocol, several backends; and the one way out to the net.

The way in is :func:`open_sandbox`. Only what runs inside is confined: code in a kernel (a notebook's cells)
runs as the person who owns the lab.
"""

from typing import TYPE_CHECKING, Any

from rightlab.sandbox.base import Check, Health, Sandbox

if TYPE_CHECKING:
    from rightlab.sandbox.addresses import forbidden
    from rightlab.sandbox.egress import EgressProxy
    from rightlab.sandbox.egress_policy import MODEL_HOSTS, EgressPolicy
    from rightlab.sandbox.opening import MODES, open_sandbox

__all__ = [
    "MODEL_HOSTS",
    "MODES",
    "Check",
    "EgressPolicy",
    "EgressProxy",
    "Health",
    "Sandbox",
    "forbidden",
    "open_sandbox",
]

_MODULES = {
    "MODEL_HOSTS": "egress_policy",
    "EgressPolicy": "egress_policy",
    "EgressProxy": "egress",
    "MODES": "opening",
    "open_sandbox": "opening",
    "forbidden": "addresses",
}


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        from importlib import import_module

        value = getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
