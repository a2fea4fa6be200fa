"""Where an agent's processes may run: one protocol, several backends; and the one way out to the net.

The way in is :func:`open_sandbox`. Only what runs inside is confined: code in a kernel (a notebook's cells)
runs as the person who owns the lab.
"""

from typing import TYPE_CHECKING

from rightlab.lazy import lazy_exports
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

__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "egress_policy": ("MODEL_HOSTS", "EgressPolicy"),
        "egress": ("EgressProxy",),
        "opening": ("MODES", "open_sandbox"),
        "addresses": ("forbidden",),
    },
)
