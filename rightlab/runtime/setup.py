"""Making an agent: the folder from ``home/``, then the database and the notice token on top."""

import secrets
from collections.abc import Iterable, Mapping
from typing import Any

from rightlab.errors import RightlabError
from rightlab.home import AgentHome, Home
from rightlab.runtime.platform_files import deploy_skills
from rightlab.store import Store, Tx

__all__ = ["make_agent", "notice_token"]


def make_agent(
    home: Home,
    name: str,
    *,
    telegram_token: str | None = None,
    allow: Iterable[int] = (),
    sandbox: str = "auto",
    model: str | None = None,
    bootstrap: bool = True,
    overrides: Mapping[str, Any] | None = None,
) -> AgentHome:
    """Make ``name`` in ``home``: no question, no network. Raises UsageError, ConfigError, HomeError, StoreError."""
    agent = home.create_agent(
        name,
        telegram_token=telegram_token,
        allow=allow,
        sandbox=sandbox,
        model=model,
        bootstrap=bootstrap,
        overrides=overrides,
    )
    try:
        with Store.open(agent.db_path, role="owner") as store:
            notice_token(store)
        deploy_skills(agent, agent.config().memory.provider)
    except RightlabError:
        home.destroy_agent(name)
        raise
    return agent


def notice_token(store: Store) -> str:
    """The agent's notice token (spec agent-runtime 1.11), made on first demand."""
    found = store.value("SELECT token FROM notice_token WHERE id = 1")
    if found is not None:
        return str(found)

    def create(tx: Tx) -> str:
        tx.run("INSERT OR IGNORE INTO notice_token (id, token) VALUES (1, ?)", secrets.token_hex(16))
        return str(tx.value("SELECT token FROM notice_token WHERE id = 1"))

    return store.transact(create)
