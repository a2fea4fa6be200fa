"""agent.yaml and allowlist.yaml as they are now: re-read when the file changed.

A broken edit keeps what was good and is logged: an agent must not die of a typing error in a file.
"""

import logging
from pathlib import Path

from rightlab.errors import RightlabError
from rightlab.home import AgentConfig, AgentHome, Allowlist

__all__ = ["AllowlistWatch", "ConfigWatch", "CredentialWatch"]

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


class CredentialWatch:
    """Call it for the model's credential, None when there is none. It is looked up again when agent.yaml, secrets.json
    or the file that agent.yaml names has changed; the gateway asks for every request.

    Raises ConfigError when the place that agent.yaml names has none.
    """

    def __init__(self, agent: AgentHome) -> None:
        self._agent = agent
        self._stamp: list[object] | None = None
        self._file: Path | None = None
        self._value: str | None = None

    def __call__(self) -> str | None:
        if self._stamp is None or self._stamp != self._look():
            config = self._agent.config()
            named = config.gateway.credential.file
            self._file = None if named is None else self._agent.root / Path(named).expanduser()
            # Taken before the value: a change in between is seen at the next call.
            stamp = self._look()
            scripted = config.gateway.upstream.startswith("scripted:")
            self._value = None if scripted else self._agent.model_credential()
            self._stamp = stamp
        return self._value

    def _look(self) -> list[object]:
        paths = [self._agent.config_path, self._agent.secrets_path, self._file]
        return [None if path is None else _look(path) for path in paths]


def _look(path: Path) -> tuple[int, int, int] | None:
    try:
        stat = path.stat()
    except OSError:
        return None
    return stat.st_mtime_ns, stat.st_size, stat.st_ino
