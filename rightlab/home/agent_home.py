"""``AgentHome``: the places of one agent (contract "Files")."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rightlab.home.allowlist import Allowlist
    from rightlab.home.config import AgentConfig
    from rightlab.home.home import Home
    from rightlab.home.secret_store import Secrets

__all__ = ["AgentHome"]


@dataclass(frozen=True)
class AgentHome:
    """The places of one agent. Making the object touches no disk."""

    home: "Home"
    name: str

    @property
    def root(self) -> Path:
        return self.home.agents_dir / self.name

    @property
    def config_path(self) -> Path:
        return self.root / "agent.yaml"

    @property
    def allowlist_path(self) -> Path:
        return self.root / "allowlist.yaml"

    @property
    def secrets_path(self) -> Path:
        return self.root / "secrets.json"

    @property
    def db_path(self) -> Path:
        return self.root / "data.db"

    @property
    def bootstrap_path(self) -> Path:
        return self.root / "BOOTSTRAP.md"

    @property
    def guest_dir(self) -> Path:
        """What the guest sees as ``/sandbox``."""
        return self.root / "sandbox"

    @property
    def recordings_dir(self) -> Path:
        return self.root / "recordings"

    @property
    def runs_dir(self) -> Path:
        return self.root / "runs"

    @property
    def logs_dir(self) -> Path:
        return self.root / "logs"

    @property
    def run_dir(self) -> Path:
        """What exists while the agent runs: state, sockets, the lease."""
        return self.home.path / "run" / self.name

    @property
    def state_path(self) -> Path:
        return self.run_dir / "state.json"

    @property
    def control_socket(self) -> Path:
        return self.run_dir / "control.sock"

    @property
    def lease_path(self) -> Path:
        """The file the owner holds an flock on."""
        return self.run_dir / "lease"

    @property
    def is_bootstrapping(self) -> bool:
        """Whether onboarding is still to be done."""
        return self.bootstrap_path.is_file()

    def config(self) -> "AgentConfig":
        """Read ``agent.yaml`` (ConfigError)."""
        from rightlab.home.loading import load_config

        return load_config(self.config_path)

    def allowlist(self) -> "Allowlist":
        """Read ``allowlist.yaml`` (ConfigError)."""
        from rightlab.home.allowlist import Allowlist

        return Allowlist(self.allowlist_path)

    def secrets(self) -> "Secrets":
        """The agent's ``secrets.json``."""
        from rightlab.home.secret_store import Secrets

        return Secrets(self.secrets_path)

    def telegram_token(self, environ: Mapping[str, str] | None = None) -> str | None:
        """The bot's token from where agent.yaml says, else from the secrets; None when there is none
        (ConfigError)."""
        return self.config().telegram_token(self.secrets(), self.root, environ)

    def model_credential(self, environ: Mapping[str, str] | None = None) -> str | None:
        """The model API's credential from where agent.yaml says; None when there is none (ConfigError)."""
        return self.config().model_credential(self.secrets(), self.root, environ)
