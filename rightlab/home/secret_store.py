"""``secrets.json`` (0600): the only place where an agent's credentials lie."""

import json
import os
from collections.abc import Callable
from pathlib import Path

from rightlab.errors import ConfigError
from rightlab.home.writers import write_merged

__all__ = ["CLAUDE_CREDENTIAL", "TELEGRAM_TOKEN", "Secrets"]

TELEGRAM_TOKEN = "telegram_token"
CLAUDE_CREDENTIAL = "claude_credential"


class Secrets:
    """Named secrets in one file, read afresh each time. Nothing here shows a value: not repr, not an error.

    Names in use: ``telegram_token``, ``claude_credential``, ``mcp.<server>...``.

    Raises (every method):
        ConfigError: the file is no JSON object of texts, or cannot be read.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def get(self, name: str) -> str | None:
        """The value, or None. A missing file holds none."""
        return self._load().get(name)

    def names(self) -> list[str]:
        """The names there are, sorted."""
        return sorted(self._load())

    def set(self, name: str, value: str) -> None:
        """Store a value durably."""
        if not name or not value:
            raise ConfigError("a secret needs a name and a value", where=self.path)
        self._change(lambda secrets: secrets.__setitem__(name, value))

    def delete(self, name: str) -> bool:
        """Forget a value; False when there was none."""
        had = name in self._load()
        if had:
            self._change(lambda secrets: secrets.pop(name, None))
        return had

    @property
    def exposed(self) -> bool:
        """Whether others than the owner may read or write the file."""
        try:
            return bool(os.stat(self.path).st_mode & 0o077)
        except FileNotFoundError:
            return False

    def __repr__(self) -> str:
        return f"Secrets({str(self.path)!r})"

    def _load(self) -> dict[str, str]:
        try:
            return self._parse(self.path.read_bytes())
        except FileNotFoundError:
            return {}
        except OSError as error:
            raise ConfigError(f"cannot be read: {(error.strerror or '').lower()}", where=self.path) from error

    def _change(self, change: Callable[[dict[str, str]], object]) -> None:
        def merge(before: bytes | None) -> str:
            secrets = {} if before is None else self._parse(before)
            change(secrets)
            return json.dumps(secrets, indent=2, sort_keys=True) + "\n"

        write_merged(self.path, merge, 0o600)

    def _parse(self, data: bytes) -> dict[str, str]:
        try:
            secrets = json.loads(data or b"{}")
        except ValueError:
            secrets = None
        if not isinstance(secrets, dict) or not all(isinstance(value, str) for value in secrets.values()):
            raise ConfigError(
                "not a JSON object of texts",
                where=self.path,
                fix="Restore it from a backup, or delete it and put the credentials in again.",
            )
        return secrets
