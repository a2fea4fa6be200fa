"""Servers that stop what is idle: JupyterHub and Binder, told by the variables they set (spec jupyter 1.7).

A bot that only waits for messages looks idle to a hub. What is stopped there stops the agent, so it is said.
"""

import os
from collections.abc import Mapping

__all__ = ["HUB_VARIABLES", "hub_fix", "hub_warnings"]

HUB_VARIABLES = ("JUPYTERHUB_SERVICE_PREFIX", "JUPYTERHUB_USER", "BINDER_LAUNCH_HOST", "BINDER_SERVICE_HOST")
"""The variables that tell of a hub without opening one: names and addresses, no token."""


def hub_warnings(environ: Mapping[str, str] | None = None) -> tuple[str, ...]:
    """One line when this process stands on a server that may stop it for being idle, else nothing."""
    env = os.environ if environ is None else environ
    if any(env.get(name) for name in ("BINDER_LAUNCH_HOST", "BINDER_SERVICE_HOST")):
        return (
            "Binder runs this server: it is stopped after about ten minutes without a person, and nothing is kept.",
        )
    if any(value for name, value in env.items() if name.startswith("JUPYTERHUB_")):
        return (
            "A JupyterHub runs this server: most hubs stop a server nobody works on, and the agent stops with it.",
        )
    return ()


def hub_fix(agent: str) -> str:
    """What to do about it, for ``agent``."""
    return f"Ask who runs the hub about culling, or run it where nothing stops it: rightlab run {agent}"
