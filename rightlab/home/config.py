"""``agent.yaml`` as a model: every key, its default and its rule (contract "agent.yaml", spec 6.11, 7.1,
11.1)."""

import os
import re
from collections.abc import Mapping
from ipaddress import ip_address
from pathlib import Path
from typing import Annotated, Any, Literal, Self
from urllib.parse import urlsplit
from zoneinfo import ZoneInfo

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    PrivateAttr,
    SecretStr,
    field_validator,
    model_validator,
)

from rightlab.errors import ConfigError
from rightlab.home.secret_store import CLAUDE_CREDENTIAL, TELEGRAM_TOKEN, Secrets

__all__ = [
    "AgentConfig",
    "AttachmentsConfig",
    "ClaudeConfig",
    "CredentialSource",
    "CronConfig",
    "GatewayConfig",
    "LearningConfig",
    "MemoryConfig",
    "SandboxConfig",
    "SttConfig",
    "TelegramConfig",
]

_ENV_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_MODEL_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/@\[\]-]*")
_OURS = re.compile(
    r"(?P<model>ANTHROPIC_.*|CLAUDE_CODE_.*)"
    r"|(?P<place>CLAUDE_CONFIG_DIR|HOME|IS_SANDBOX|LD_.*|(?:HTTPS?|ALL|NO)_PROXY)",
    re.IGNORECASE,
)
"""What would lead the CLI around the gateway or out of its folder, or run other code in it."""


class _Block(BaseModel):
    """A block of keys: unknown ones refused, types taken strictly, values frozen and kept out of messages."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, hide_input_in_errors=True)


def _model_name(value: str) -> str:
    if not _MODEL_NAME.fullmatch(value):
        raise ValueError("not a model name or alias")
    return value


def _env_name(value: str) -> str:
    if not _ENV_NAME.fullmatch(value):
        raise ValueError("not the name of an environment variable (letters, digits and _)")
    return value


def _encodes(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def _web_url(value: str) -> tuple[str, str]:
    """Scheme and host of a plain URL; ValueError without echoing it (it could carry a password)."""
    try:
        parts = urlsplit(value)
        host, _port = parts.hostname, parts.port
    except ValueError:
        raise ValueError("not a URL") from None
    if parts.username is not None or parts.password is not None:
        raise ValueError("a URL with a user or password in it; credentials do not belong here")
    if parts.query or parts.fragment or any(char.isspace() for char in value):
        raise ValueError("a URL with a query, a fragment or white space")
    if parts.scheme not in ("http", "https") or not host:
        raise ValueError("not an https:// or http:// URL")
    return parts.scheme, host


ModelName = Annotated[str, AfterValidator(_model_name)]
EnvName = Annotated[str, AfterValidator(_env_name)]
Text = Annotated[str, Field(min_length=1)]


class CredentialSource(_Block):
    """Where the model's credential comes from: exactly one of the three."""

    store: Literal[True] | None = None
    env: EnvName | None = None
    file: Text | None = None

    @model_validator(mode="after")
    def _one(self) -> Self:
        if sum(value is not None for value in (self.store, self.env, self.file)) != 1:
            raise ValueError("exactly one of {store: true}, {env: NAME}, {file: PATH} is needed")
        return self


class GatewayConfig(_Block):
    """The model gateway (design 6)."""

    upstream: Text = "https://api.anthropic.com"
    credential: CredentialSource = CredentialSource(store=True)

    @field_validator("upstream")
    @classmethod
    def _upstream(cls, value: str) -> str:
        if value == "direct" or (value.startswith(("scripted:", "replay:")) and value.partition(":")[2]):
            return value
        if "://" not in value:
            raise ValueError(
                'not an https:// URL, http://127.0.0.1:PORT, "scripted:builtin", "scripted:FILE", '
                '"replay:DIR" or "direct"'
            )
        scheme, host = _web_url(value)
        if scheme == "http" and not _loopback(host):
            raise ValueError(
                "plain http:// is for this machine only (127.0.0.1, localhost, [::1]); use https://"
            )
        return value.rstrip("/")


class ClaudeConfig(_Block):
    """The process pool of the CLI."""

    warm: Literal["auto"] | bool = "auto"
    max_processes: Literal["auto"] | Annotated[int, Field(ge=1)] = "auto"


class TelegramConfig(_Block):
    """The bot. At most one source of its token; without one it is looked up in ``secrets.json``."""

    token: SecretStr | None = None
    token_file: Text | None = None
    token_env: EnvName | None = None
    api_base: Text = "https://api.telegram.org"

    @field_validator("api_base")
    @classmethod
    def _root(cls, value: str) -> str:
        _web_url(value)
        root = value.rstrip("/")
        if root.endswith("/bot"):
            raise ValueError('the root of the Bot API is meant, without "/bot"')
        return root

    @model_validator(mode="after")
    def _one(self) -> Self:
        named = [name for name in ("token", "token_file", "token_env") if getattr(self, name) is not None]
        if len(named) > 1:
            raise ValueError(f"only one of {', '.join(named)} may be set")
        return self


class SandboxConfig(_Block):
    """Where the agent's processes run (design 8)."""

    mode: Literal["auto", "bwrap", "landlock", "openshell", "none"] = "auto"


class MemoryConfig(_Block):
    """Memory (spec 7.1)."""

    provider: Literal["file", "hindsight"] = "file"
    api_key: SecretStr | None = None
    bank_id: Text | None = None
    recall_budget: Literal["low", "mid", "high"] = "mid"
    recall_max_tokens: Annotated[int, Field(ge=1)] = 4096


class LearningConfig(_Block):
    """Learning after a turn (spec 6.11)."""

    prefilter_enabled: bool = True
    prefilter_model: ModelName = "claude-haiku-4-5-20251001"
    probe_writer_enabled: bool = True
    probe_writer_model: ModelName | None = None
    curator_enabled: bool = True
    curator_model: ModelName | None = None
    curator_interval_hours: Annotated[int, Field(ge=1)] = 168
    curator_mode: Literal["apply", "report_only"] = "apply"
    curator_paused: bool = False
    curator_circuit_failure_threshold: Annotated[int, Field(ge=1)] = 3
    curator_circuit_cooldown_hours: Annotated[int, Field(ge=0)] = 24
    min_idle_hours: Annotated[float, Field(ge=0)] = 2
    min_cooldown_hours: Annotated[float, Field(ge=0)] = 12
    stale_after_days: Annotated[int, Field(ge=1)] = 30
    archive_after_days: Annotated[int, Field(ge=1)] = 90
    cost_spike_k: Annotated[float, Field(gt=0)] = 3.0
    cost_spike_baseline_days: Annotated[int, Field(ge=1)] = 14
    cost_spike_floor_usd: Annotated[float, Field(ge=0)] = 0.05
    skill_change_threshold: Annotated[int, Field(ge=1)] = 3
    baseline_window_days: Annotated[int, Field(ge=1)] = 14
    baseline_min_sample: Annotated[int, Field(ge=1)] = 20
    max_daily_budget_usd: Annotated[float, Field(ge=0)] = 1.00


class CronConfig(_Block):
    """Where cron runs are executed."""

    executor: Literal["local", "dask"] = "local"


class AttachmentsConfig(_Block):
    """How long received files are kept."""

    retention_days: Annotated[int, Field(ge=0)] = 7


class SttConfig(_Block):
    """Speech to text of voice messages."""

    enabled: bool = False
    model: Text = "small"


class AgentConfig(_Block):
    """One agent's ``agent.yaml``. ``repr`` shows no secret; ``warnings`` tells of deprecated keys found."""

    model: ModelName | None = "sonnet"
    debug: bool = False
    gateway: GatewayConfig = GatewayConfig()
    claude: ClaudeConfig = ClaudeConfig()
    telegram: TelegramConfig = TelegramConfig()
    sandbox: SandboxConfig = SandboxConfig()
    network_policy: Literal["permissive", "restrictive"] = "permissive"
    memory: MemoryConfig = MemoryConfig()
    learning: LearningConfig = LearningConfig()
    cron: CronConfig = CronConfig()
    show_thinking: bool = True
    timezone: Text = "UTC"
    restart: Literal["never", "on_failure", "always"] = "always"
    max_restarts: Annotated[int, Field(ge=0)] = 3
    backoff_seconds: Annotated[float, Field(ge=0)] = 3
    env: dict[EnvName, str] = Field(default_factory=dict, repr=False)
    attachments: AttachmentsConfig = AttachmentsConfig()
    stt: SttConfig = SttConfig()

    _warnings: tuple[str, ...] = PrivateAttr(default=())

    @field_validator("timezone")
    @classmethod
    def _zone(cls, value: str) -> str:
        try:
            ZoneInfo(value)
        except (KeyError, ValueError, OSError):
            raise ValueError("not a known time zone (IANA name, like Europe/Berlin)") from None
        return value

    @field_validator("env")
    @classmethod
    def _guest_env(cls, value: dict[str, str]) -> dict[str, str]:
        for name, text in value.items():
            if "\0" in text or not _encodes(text):
                # Without the text: it may be a credential.
                raise ValueError(f"{name} holds a character that no environment variable can hold")
            found = _OURS.fullmatch(name)
            if found is not None:
                raise ValueError(
                    f"{name} is not for agent.yaml: "
                    + (
                        "the model is reached by gateway.upstream and gateway.credential alone"
                        if found["model"]
                        else "rightlab decides how the agent's processes are started"
                    )
                )
        return value

    @property
    def warnings(self) -> tuple[str, ...]:
        """What was accepted but has no effect any more, one line each."""
        return self._warnings

    def telegram_token(
        self, secrets: Secrets, folder: Path, environ: Mapping[str, str] | None = None
    ) -> str | None:
        """The bot's token from its one source, else from ``secrets``; None when there is none at all.

        ``folder`` is the agent's, for a relative ``token_file``.

        Raises:
            ConfigError: the file or variable that agent.yaml names is missing or empty.
        """
        telegram = self.telegram
        if telegram.token is not None:
            return telegram.token.get_secret_value()
        if telegram.token_file is not None:
            return _from_file("telegram.token_file", telegram.token_file, folder)
        if telegram.token_env is not None:
            return _from_env("telegram.token_env", telegram.token_env, folder, environ)
        return secrets.get(TELEGRAM_TOKEN)

    def model_credential(
        self, secrets: Secrets, folder: Path, environ: Mapping[str, str] | None = None
    ) -> str | None:
        """The model API's credential; None when it is to come from ``secrets`` and none is there.

        Raises:
            ConfigError: the file or variable that agent.yaml names is missing or empty.
        """
        source = self.gateway.credential
        if source.file is not None:
            return _from_file("gateway.credential.file", source.file, folder)
        if source.env is not None:
            return _from_env("gateway.credential.env", source.env, folder, environ)
        return secrets.get(CLAUDE_CREDENTIAL)


def _from_env(key: str, name: str, folder: Path, environ: Mapping[str, str] | None) -> str:
    value = (os.environ if environ is None else environ).get(name, "").strip()
    if not value:
        raise ConfigError(
            f"{key} names the variable {name}, which is not set",
            where=folder / "agent.yaml",
            fix="Set it where the runtime is started, or change the key.",
        )
    return value


def _from_file(key: str, name: str, folder: Path) -> str:
    path = folder / Path(name).expanduser()
    guest = Path(os.path.realpath(folder / "sandbox"))
    if Path(os.path.realpath(path)).is_relative_to(guest):
        raise ConfigError(
            f"{key} names a file that the agent itself can read",
            where=folder / "agent.yaml",
            fix="Keep it outside the sandbox folder.",
        )
    try:
        value = path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = os.strerror(error.errno or 0).lower() if isinstance(error, OSError) else "not text"
        raise ConfigError(
            f"{key} names {path}, which cannot be read ({reason})", where=folder / "agent.yaml"
        ) from None
    if not value:
        raise ConfigError(f"{key} names {path}, which is empty", where=folder / "agent.yaml")
    return value


def block_of(path: tuple[Any, ...]) -> type[BaseModel] | None:
    """The model behind a key path (``("gateway", "credential")``); None where no block of keys is."""
    block: type[BaseModel] = AgentConfig
    for key in path:
        field = block.model_fields.get(str(key))
        if field is None or not (
            isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel)
        ):
            return None
        block = field.annotation
    return block
