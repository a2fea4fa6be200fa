"""The environment of every child we start: an explicit list, never a copy of ours (house rule).

What a notebook of the person needs to find their tools and files passes; what could be a credential, a model setting
or another program's switch does not.
"""

import os
import sys
from collections.abc import Iterable, Mapping

from rightlab.cron.launcher import run_environment
from rightlab.errors import RightlabError
from rightlab.home import AgentHome
from rightlab.runtime.hub import HUB_VARIABLES

__all__ = ["child_environment", "named_variables"]

# Beyond what a run gets: where a browser is shown, and that this is a hub (its names, never its token).
_MORE = ("DISPLAY", "WAYLAND_DISPLAY", "XAUTHORITY", "BROWSER", "DBUS_SESSION_BUS_ADDRESS", *HUB_VARIABLES)


def child_environment(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """The environment for a kernel, a cron run or JupyterLab; ``extra`` wins."""
    env = run_environment(os.environ, {name: os.environ[name] for name in _MORE if name in os.environ})
    # Our own interpreter's folder first, so that `python` in a kernelspec is this one.
    path = os.environ.get("PATH", os.defpath)
    env["PATH"] = os.pathsep.join([os.path.dirname(sys.executable), path])
    env.setdefault("HOME", os.path.expanduser("~"))
    env.setdefault("LANG", "C.UTF-8")
    env["PYTHONUNBUFFERED"] = "1"
    env.update(extra or {})
    return env


def named_variables(agents: Iterable[AgentHome]) -> dict[str, str]:
    """The variables that agent.yaml of these agents asks for by name, as far as we have them.

    ``gateway.credential: {env: NAME}`` and ``telegram.token_env`` are read by the process that runs the agent.
    """
    found = {}
    for agent in agents:
        try:
            config = agent.config()
        except RightlabError:
            continue  # said where the agent is used
        for name in (config.gateway.credential.env, config.telegram.token_env):
            if name and name in os.environ:
                found[name] = os.environ[name]
    return found
