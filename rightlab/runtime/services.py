"""The services of one agent, opened in order and closed in reverse (design 3: ``runtime/`` hands out the ports)."""

import asyncio
import contextlib
import logging
import os
from collections.abc import Coroutine, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from rightlab.claude import Cli, CliTransport, Gateway, claude_env, find_cli
from rightlab.clock import Clock
from rightlab.conversation import Archive, Inbound, Inbox, Outbox, Sessions
from rightlab.cron import Scheduler
from rightlab.errors import NotAvailable
from rightlab.home import AgentConfig, AgentHome
from rightlab.mcp import Aggregator, InvocationRegistry, builtin_tools
from rightlab.runtime import logs
from rightlab.runtime.config_watch import AllowlistWatch, ConfigWatch, CredentialWatch
from rightlab.runtime.cron_ports import open_scheduler, scheduler_status
from rightlab.runtime.housekeeping import keep_house, sweep_files
from rightlab.runtime.hub import hub_warnings
from rightlab.runtime.not_yet import not_yet
from rightlab.runtime.notebook import NOTEBOOK_CHAT, NotebookChannel
from rightlab.runtime.platform_files import deploy_skills
from rightlab.runtime.prompts import agent_registry, prompt_context
from rightlab.runtime.setup import notice_token
from rightlab.runtime.tools import OutboxMessages, TurnTools
from rightlab.sandbox import Sandbox, open_sandbox
from rightlab.store import Store
from rightlab.telegram import TelegramChannel
from rightlab.turn import (
    Batcher,
    Channel,
    CronTurns,
    Deliverer,
    Invoker,
    ScopeLocks,
    TurnRecords,
    TurnRunner,
    TurnSettings,
)
from rightlab.usage import Ledger

__all__ = ["Services", "open_services"]

log = logging.getLogger(__name__)

T = TypeVar("T")
STREAMS = "streams"
"""The folder below the agent's logs for the raw output of the CLI."""


@dataclass(slots=True)
class Services:
    """What runs for one agent between start and stop."""

    agent: AgentHome
    config: AgentConfig
    clock: Clock
    fence: int
    store: Store
    gateway: Gateway
    aggregator: Aggregator
    sandbox: Sandbox
    inbox: Inbox
    archive: Archive
    notebook: NotebookChannel
    telegram: TelegramChannel | None
    outbox: Outbox
    allowlist: AllowlistWatch
    deliverer: Deliverer
    turns: TurnRunner
    invoker: Invoker
    cron_turns: CronTurns
    batcher: Batcher
    scheduler: Scheduler | None
    cli: Cli
    closing: contextlib.AsyncExitStack
    tasks: set[asyncio.Task[Any]] = field(default_factory=set)
    open: asyncio.Event = field(default_factory=asyncio.Event)

    def spawn(self, work: Coroutine[Any, Any, T], *, name: str) -> "asyncio.Task[T]":
        """Run ``work`` as a task of this agent: kept, logged when it fails, cancelled at close."""
        task = asyncio.create_task(work, name=name)
        self._keep(task)
        return task

    def _keep(self, task: "asyncio.Task[Any]") -> None:
        self.tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: "asyncio.Task[Any]") -> None:
        self.tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("%s of %s ended: %s", task.get_name(), self.agent.name, error)

    def channel_of(self, chat_id: int) -> Channel | None:
        """The channel a chat is on, if it is open."""
        if chat_id == NOTEBOOK_CHAT:
            return self.notebook
        return self.telegram

    async def connect(self) -> None:
        """Open the channels; what they bring waits until :meth:`begin`.

        Raises ChannelError when Telegram refuses the token; an unreachable server is retried in the background.
        """
        self.outbox.recover()
        if self.telegram is not None:
            await self.telegram.start()

    async def begin(self) -> None:
        """Settle what a crash left, let messages in, start the scheduler."""
        asked = [row.id for row in self.inbox.pending("notebook")]
        self.inbox.settle(asked, "ignored", "the cell that asked is gone")
        self.spawn(self.deliverer.deliver_waiting(), name="delivery")
        for settling in await self.turns.recover(self.channel_of):
            self._keep(settling)
        self.open.set()
        if self.scheduler is not None:
            self.spawn(self.scheduler.run(), name="scheduler")
        self.spawn(keep_house(self.inbox, self.agent.logs_dir / STREAMS, self.clock), name="housekeeping")

    async def receive(self, message: Inbound) -> None:
        """A routed message goes into its batch, once what a crash left stands before it."""
        await self.open.wait()
        await self.batcher.put(message)

    async def reconnected(self) -> None:
        """The server answers again: what waited for it goes out."""
        self.spawn(self.deliverer.deliver_waiting(), name="delivery")

    async def handle(self, channel: str, batch: list[Inbound]) -> None:
        """A closed batch becomes a turn."""
        where: Channel | None = self.telegram if channel == "telegram" else self.notebook
        if where is not None:
            await self.turns.run(batch, where)

    def addresses(self) -> dict[str, Any]:
        """What ``state.json`` tells about how to reach the services (0600)."""
        return {
            "gateway": self.gateway.url,
            "mcp": self.aggregator.url,
            "control": str(self.agent.control_socket),
        }

    def status(self) -> dict[str, Any]:
        """Plain facts for the status view."""
        channels: dict[str, Any] = {"notebook": {"state": "open"}}
        if self.telegram is not None:
            channels["telegram"] = self.telegram.status()
        notes = [self.sandbox.note] if self.sandbox.note else []
        return {
            "gateway": self.config.gateway.upstream,
            "gateway_says": self.gateway.describe(),
            "sandbox": self.sandbox.mode,
            "channels": channels,
            "crons": scheduler_status(self.scheduler) if self.scheduler is not None else {},
            "claude": self.cli.version,
            "warnings": (*self.config.warnings, *notes, *hub_warnings()),
        }

    async def close(self, seconds: float = 1.5) -> None:
        """Stop everything in reverse order. Nothing here is needed for a later start to be right."""
        for task in list(self.tasks):
            task.cancel()
        if self.tasks:
            await asyncio.wait(list(self.tasks), timeout=seconds / 3)
        await self.closing.aclose()


async def open_services(agent: AgentHome, config: AgentConfig, clock: Clock, *, brief: bool) -> Services:
    """Open every service of ``agent``; on failure what was opened is closed and the error passes."""
    if missing := not_yet(config):
        raise NotAvailable(missing[0])
    async with contextlib.AsyncExitStack() as stack:
        handler = logs.attach(agent)
        stack.callback(logs.detach, handler)
        store = Store.open(agent.db_path, role="owner", clock=clock)
        fence = store.take_fence()
        store.close()
        store = Store.open(agent.db_path, role="writer", clock=clock, fence=fence)
        # Closing waits for the writer thread; the loop must not.
        stack.push_async_callback(asyncio.to_thread, store.close)
        cli = find_cli()
        gateway = await _open_gateway(agent, config, clock, stack)
        aggregator = Aggregator(InvocationRegistry(), builtin_tools())
        bare = config.sandbox.mode == "none"
        sockets = agent.run_dir
        await aggregator.start(unix=sockets / "mcp.sock", tcp=bare)
        stack.push_async_callback(aggregator.stop)
        sandbox = await open_sandbox(
            mode=config.sandbox.mode,
            root=agent.guest_dir,
            run_dir=agent.run_dir,
            services={"gateway": sockets / "gateway.sock", "mcp": sockets / "mcp.sock"},
            service_urls={"gateway": gateway.url or "", "mcp": aggregator.url or ""} if bare else {},
            network_policy=config.network_policy,
            tools={"claude": cli.path},
            log=agent.logs_dir / "egress.ndjson",
            agent=agent.name,
        )
        stack.push_async_callback(sandbox.close)
        sweep_files(sandbox.files_dir)
        services = _wire(agent, config, clock, fence, store, cli, gateway, aggregator, sandbox)
        if not brief:
            _open_channels(services, stack)
        # Before the sandbox ends what still runs in it: a transcript cut short would cost the conversation.
        stack.push_async_callback(services.invoker.drain)
        stack.push_async_callback(services.batcher.close)
        services.closing = stack.pop_all()
        return services


async def _open_gateway(
    agent: AgentHome, config: AgentConfig, clock: Clock, stack: contextlib.AsyncExitStack
) -> Gateway:
    upstream = config.gateway.upstream
    if upstream.startswith("scripted:") and upstream != "scripted:builtin":
        script = Path(upstream.removeprefix("scripted:")).expanduser()
        upstream = f"scripted:{script if script.is_absolute() else agent.root / script}"
    gateway = Gateway(
        upstream=upstream,
        credential=CredentialWatch(agent),
        recordings=agent.recordings_dir,
        clock=clock,
    )
    await gateway.start(unix=agent.run_dir / "gateway.sock", tcp=config.sandbox.mode == "none")
    stack.push_async_callback(gateway.stop)
    return gateway


def _wire(
    agent: AgentHome,
    config: AgentConfig,
    clock: Clock,
    fence: int,
    store: Store,
    cli: Cli,
    gateway: Gateway,
    aggregator: Aggregator,
    sandbox: Sandbox,
) -> Services:
    inbox, archive = Inbox(store, clock), Archive(store, clock)
    sessions, outbox, ledger = Sessions(store, clock), Outbox(store, clock), Ledger(store, clock)
    notebook = NotebookChannel(inbox, archive, clock)
    token = notice_token(store)
    deploy_skills(agent, config.memory.provider)
    registry = agent_registry(agent, config, token)
    current = ConfigWatch(agent, config)

    def channel_of(chat_id: int) -> Channel | None:
        return services.channel_of(chat_id)

    def settings() -> TurnSettings:
        now = current()
        source = "scripted model" if gateway.scripted else config.gateway.upstream
        return TurnSettings(
            agent=agent.name, model=now.model, debug=now.debug, source=source, scripted=gateway.scripted
        )

    def context(*, chat_id: int, thread_id: int) -> Mapping[str, Any]:
        return prompt_context(agent)

    deliverer = Deliverer(store, outbox, archive, channel_of)
    tools = TurnTools(aggregator, OutboxMessages(outbox, deliverer), lambda: sandbox.url("mcp"))
    transport = CliTransport(
        launcher=sandbox,
        cli_path=sandbox.tool("claude"),
        env=lambda invocation: claude_env(
            base_url=sandbox.url("gateway"),
            bearer=gateway.bearer,
            config_dir=sandbox.config_dir,
            home=sandbox.guest_root,
            path=sandbox.path_env,
            invocation_id=invocation.invocation_id,
            root=sandbox.mode == "none" and os.geteuid() == 0,
            extra={**sandbox.env, **config.env},
        ),
        log_dir=agent.logs_dir / STREAMS,
    )
    invoker = Invoker(transport, sandbox, tools, slots=_slots(config))
    turns = TurnRunner(
        clock=clock,
        records=TurnRecords(store, clock, inbox, outbox),
        archive=archive,
        sessions=sessions,
        deliverer=deliverer,
        ledger=ledger,
        registry=registry,
        context=context,
        invoker=invoker,
        settings=settings,
        locks=ScopeLocks(),
    )
    cron_turns = CronTurns(
        notice_token=token,
        ledger=ledger,
        registry=registry,
        context=context,
        invoker=invoker,
        settings=settings,
    )
    services = Services(
        agent=agent,
        config=config,
        clock=clock,
        fence=fence,
        store=store,
        gateway=gateway,
        aggregator=aggregator,
        sandbox=sandbox,
        inbox=inbox,
        archive=archive,
        notebook=notebook,
        telegram=None,
        outbox=outbox,
        allowlist=AllowlistWatch(agent),
        deliverer=deliverer,
        turns=turns,
        invoker=invoker,
        cron_turns=cron_turns,
        batcher=Batcher(clock, lambda channel, batch: services.handle(channel, batch)),
        scheduler=None,
        cli=cli,
        closing=contextlib.AsyncExitStack(),
    )
    return services


def _open_channels(services: Services, stack: contextlib.AsyncExitStack) -> None:
    """Telegram, when there is a token, and the scheduler; :meth:`Services.begin` starts them."""
    agent, config = services.agent, services.config
    token = agent.telegram_token()
    if token is not None:
        services.telegram = TelegramChannel(
            token=token,
            store=services.store,
            inbox=services.inbox,
            archive=services.archive,
            allowlist=services.allowlist,
            on_message=services.receive,
            on_connected=services.reconnected,
            api_base=config.telegram.api_base,
            clock=services.clock,
        )
        stack.push_async_callback(services.telegram.stop)
    services.scheduler = open_scheduler(services)


def _slots(config: AgentConfig) -> int:
    """How many CLI processes may live at once: as configured, else one per core and 512 MB, at least two."""
    if isinstance(config.claude.max_processes, int):
        return config.claude.max_processes
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return max(2, min(os.cpu_count() or 2, memory // (512 * 1024 * 1024)))
