"""Which hosts a guest may ask for (contract, network_policy)."""

from dataclasses import dataclass

from rightlab.errors import ConfigError
from rightlab.sandbox.addresses import split_authority

__all__ = ["MODEL_HOSTS", "EgressPolicy"]

MODEL_HOSTS = ("*.anthropic.com", "*.claude.com", "*.claude.ai")
"""What ``restrictive`` lets through unless told otherwise (spec agent-runtime 9.4)."""


@dataclass(frozen=True)
class EgressPolicy:
    """Which hosts may be asked for. Addresses are judged by :func:`~rightlab.sandbox.addresses.forbidden`.

    ``name`` is ``permissive`` (any public address) or ``restrictive`` (only ``hosts``: ``name``,
    ``*.name`` for it and all below it, each optionally with ``:port``, else port 443).
    """

    name: str = "permissive"
    hosts: tuple[str, ...] = MODEL_HOSTS

    def __post_init__(self) -> None:
        if self.name not in ("permissive", "restrictive"):
            raise ConfigError(f"network_policy is {self.name!r}", fix="Use permissive or restrictive.")
        try:
            for entry in self.hosts:
                split_authority(entry.removeprefix("*."), 443)
        except ValueError as error:
            raise ConfigError(f"{entry!r} in the hosts of network_policy: {error}") from error

    def refusal(self, host: str, port: int) -> str | None:
        """Why ``host`` (normal form) may not be asked for, or None."""
        if host == "localhost" or host.endswith(".localhost"):
            return "loopback"
        if self.name == "permissive":
            return None
        for entry in self.hosts:
            name, allowed_port = split_authority(entry.removeprefix("*."), 443)
            below = entry.startswith("*.") and host.endswith("." + name)
            if port == allowed_port and (host == name or below):
                return None
        return "not one of the model's hosts (network_policy: restrictive)"
