"""Home: paths, the files people edit, ownership and the only sanctioned writers.

What needs pydantic or ruamel is loaded on first use.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from rightlab.home.agent_home import AgentHome
from rightlab.home.home import AGENT_NAME, Home
from rightlab.home.ownership import Category, category_of
from rightlab.home.sockets import bind_unix, connect_unix, open_unix
from rightlab.home.writers import (
    append_line,
    atomic_write,
    create_file,
    file_lock,
    make_dir,
    open_append,
    remove,
    rename_folder,
    write_agent_owned,
    write_merged,
    write_regenerated,
)

if TYPE_CHECKING:
    from rightlab.home.allowlist import NOTEBOOK_CHAT_ID, AllowedGroup, AllowedTopic, AllowedUser, Allowlist
    from rightlab.home.config import AgentConfig
    from rightlab.home.loading import load_config, parse_config, update_config
    from rightlab.home.secret_store import CLAUDE_CREDENTIAL, TELEGRAM_TOKEN, Secrets

__all__ = [
    "AGENT_NAME",
    "CLAUDE_CREDENTIAL",
    "NOTEBOOK_CHAT_ID",
    "TELEGRAM_TOKEN",
    "AgentConfig",
    "AgentHome",
    "AllowedGroup",
    "AllowedTopic",
    "AllowedUser",
    "Allowlist",
    "Category",
    "Home",
    "Secrets",
    "append_line",
    "atomic_write",
    "bind_unix",
    "category_of",
    "connect_unix",
    "create_file",
    "file_lock",
    "load_config",
    "make_dir",
    "open_append",
    "open_unix",
    "parse_config",
    "remove",
    "rename_folder",
    "update_config",
    "write_agent_owned",
    "write_merged",
    "write_regenerated",
]

_LATER = {
    "NOTEBOOK_CHAT_ID": "allowlist",
    "AllowedGroup": "allowlist",
    "AllowedTopic": "allowlist",
    "AllowedUser": "allowlist",
    "Allowlist": "allowlist",
    "AgentConfig": "config",
    "load_config": "loading",
    "parse_config": "loading",
    "update_config": "loading",
    "CLAUDE_CREDENTIAL": "secret_store",
    "TELEGRAM_TOKEN": "secret_store",
    "Secrets": "secret_store",
}


def __getattr__(name: str) -> Any:
    if name in _LATER:
        value = getattr(import_module(f"{__name__}.{_LATER[name]}"), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(set(globals()) | set(__all__))
