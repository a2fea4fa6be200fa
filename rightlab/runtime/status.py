"""What an agent is doing, as one plain object: from its owner when it is up, from disk in any case."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from rightlab.clock import SystemClock, parse_iso
from rightlab.errors import RightlabError
from rightlab.home import TELEGRAM_TOKEN, AgentHome
from rightlab.html import Block, Footer, Note, Page, Pairs, ago, duration, mimebundle, money, plural
from rightlab.runtime import host
from rightlab.runtime.hub import hub_warnings
from rightlab.runtime.not_yet import not_yet
from rightlab.store import Store

__all__ = ["Status", "read_status"]

SCRIPTED = "scripted model"


@dataclass(frozen=True, slots=True)
class Status:
    """Facts about one agent now. ``problem`` is the one line that keeps it from working, if there is one."""

    agent: str
    home: str
    up: bool
    model: str | None
    sandbox: str
    gateway: str
    since: str | None = None
    pid: int | None = None
    host: str | None = None
    channels: Mapping[str, Any] = field(default_factory=dict)
    crons: Mapping[str, Any] = field(default_factory=dict)
    last_turn: Mapping[str, Any] | None = None
    undelivered: int = 0
    onboarding: bool = False
    problem: str | None = None
    warnings: tuple[str, ...] = ()

    @property
    def state_word(self) -> str:
        return "up" if self.up else "down"

    @property
    def telegram_word(self) -> str:
        telegram = self.channels.get("telegram")
        if not telegram:
            return "-"
        return f"@{telegram['username']}" if telegram.get("username") else str(telegram.get("state") or "set")

    @property
    def source(self) -> str:
        """Who answers: said on every screen when it is not a model."""
        return SCRIPTED if self.gateway.startswith("scripted") else self.gateway

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "source": self.source}

    def page(self) -> Page:
        now = SystemClock().now()
        facts: dict[str, Any] = {"model": self.model or "the CLI's default", "sandbox": self.sandbox}
        facts["channels"] = ", ".join(["notebook chat", *self._telegram()])
        if self.crons:
            facts["crons"] = _crons_line(self.crons)
        facts["undelivered"] = plural(self.undelivered, "message") if self.undelivered else "nothing"
        facts["runs in"] = f"{self.host}, process {self.pid}" if self.up else "nothing: it is down"
        blocks: list[Block] = [Note(text, kind="warning") for text in self.warnings]
        if self.problem:
            blocks.insert(0, Note(self.problem, kind="error"))
        if self.onboarding:
            blocks.append(Note("It has not been introduced to you yet (BOOTSTRAP.md is there)."))
        return Page(
            " · ".join([self.agent, self._since(now), self.source]),
            self._sentence(now),
            *blocks,
            Pairs(facts),
            footer=Footer(source=self.source, more=(f"home {self.home}",)),
        )

    def _since(self, now: Any) -> str:
        if not self.up:
            return "down"
        if self.since is None:
            return "up"
        return f"up {duration(max(0.0, (now - parse_iso(self.since)).total_seconds()) * 1000)}"

    def _telegram(self) -> list[str]:
        telegram = self.channels.get("telegram")
        if not telegram:
            return []
        error = telegram.get("last_error")
        return [f"Telegram {self.telegram_word}" + (f" ({error})" if error else "")]

    def _sentence(self, now: Any) -> str:
        if self.last_turn is None:
            said = "No turn yet."
        else:
            when = ago(parse_iso(str(self.last_turn["started_at"])), now)
            said = f"Last turn {when}: {self.last_turn['status']}, cost {money(self.last_turn['cost_usd'])}."
        waiting = f" {plural(self.undelivered, 'message')} undelivered." if self.undelivered else ""
        return said + waiting

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, Any]:
        return mimebundle(self, self.page(), include, exclude)

    def text(self) -> str:
        return self.page().text()


def read_status(agent: AgentHome) -> Status:
    """The status of ``agent``. A broken agent.yaml or database is a ``problem``, not an exception."""
    facts: dict[str, Any] = {
        "agent": agent.name,
        "home": str(agent.home.path),
        "up": False,
        "model": None,
        "sandbox": "unknown",
        "gateway": "unknown",
        "warnings": (),
        "onboarding": agent.is_bootstrapping,
    }
    # Each source on its own: a typing error in a file must not hide that the agent is running.
    for source in (_from_config, _from_disk, _from_owner):
        try:
            facts.update(source(agent))
        except (RightlabError, TimeoutError) as error:
            facts.setdefault("problem", str(error))
    facts["warnings"] = tuple(dict.fromkeys((*facts["warnings"], *hub_warnings())))
    return Status(**facts)


_LIVE = {"up", "since", "pid", "host", "channels", "crons", "sandbox", "gateway", "warnings"}


def _from_config(agent: AgentHome) -> dict[str, Any]:
    config = agent.config()
    named = config.telegram
    token = named.token or named.token_file or named.token_env or agent.secrets().get(TELEGRAM_TOKEN)
    return {
        "model": config.model,
        "sandbox": config.sandbox.mode,
        "gateway": config.gateway.upstream,
        "warnings": (*config.warnings, *(f"{setting}: not available yet" for setting in not_yet(config))),
        "channels": {"telegram": {"state": "token set"}} if token else {},
    }


def _from_owner(agent: AgentHome) -> dict[str, Any]:
    live = host.owner_status(agent)
    return {} if live is None else {key: live[key] for key in live if key in _LIVE}


def _from_disk(agent: AgentHome) -> dict[str, Any]:
    if not agent.db_path.exists():
        return {}
    with Store.open(agent.db_path, role="reader") as store:
        last = store.row("SELECT turn_id, status, started_at, cost_usd FROM turns ORDER BY id DESC LIMIT 1")
        undelivered = store.value("SELECT count(*) FROM outbox WHERE state <> 'delivered'")
        return {"last_turn": dict(last) if last is not None else None, "undelivered": int(undelivered or 0)}


def _crons_line(crons: Mapping[str, Any]) -> str:
    jobs = plural(int(crons.get("jobs") or 0), "job")
    next_fire = crons.get("next")
    return f"{jobs}, next {next_fire}" if next_fire else jobs
