"""agent.yaml and allowlist.yaml as they are now: re-read when the file changed.

A broken edit keeps what was good and is logged: an agent must not die of a typing error in a file.
"""

import logging
from pathlib import Path

from rightlab.errors import RightlabError
from rightlab.home import AgentConfig, AgentHome, Allowlist

__all__ = ["AllowlistWatch", "ConfigWatch"]

log = logging.getLogger(__name__)


class ConfigWatch:
    """Call it for the current configuration. Costs one ``stat`` while nothing changed."""

    def __init__(self, agent: AgentHome, config: AgentConfig) -> None:
        self._agent = agent
        self._config = config
        self._stamp = _look(agent.config_path)

    def __call__(self) -> AgentConfig:
        stamp = _look(self._agent.config_path)
        if stamp != self._stamp:
            self._stamp = stamp
            try:
                self._config = self._agent.config()
            except RightlabError as error:
                log.warning("agent.yaml was edited and cannot be used; the last good one stays: %s", error)
        return self._config


class AllowlistWatch:
    """Call it for the current allowlist. Costs one ``stat`` while nothing changed."""

    def __init__(self, agent: AgentHome) -> None:
        self._agent = agent
        self._allowlist = agent.allowlist()
        self._stamp = _look(agent.allowlist_path)

    def __call__(self) -> Allowlist:
        stamp = _look(self._agent.allowlist_path)
        if stamp != self._stamp:
            self._stamp = stamp
            try:
                self._allowlist = self._agent.allowlist()
            except RightlabError as error:
                log.warning(
                    "allowlist.yaml was edited and cannot be used; the last good one stays: %s", error
                )
        return self._allowlist


def _look(path: Path) -> tuple[int, int, int] | None:
    try:
        stat = path.stat()
    except OSError:
        return None
    return stat.st_mtime_ns, stat.st_size, stat.st_ino
