"""Home: paths, the files people edit, ownership and the only sanctioned writers.

What needs pydantic or ruamel is loaded on first use.
"""

from typing import TYPE_CHECKING

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
from rightlab.lazy import lazy_exports

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

__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "allowlist": ("NOTEBOOK_CHAT_ID", "AllowedGroup", "AllowedTopic", "AllowedUser", "Allowlist"),
        "config": ("AgentConfig",),
        "loading": ("load_config", "parse_config", "update_config"),
        "secret_store": ("CLAUDE_CREDENTIAL", "TELEGRAM_TOKEN", "Secrets"),
    },
)
