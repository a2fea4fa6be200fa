"""The foreground turn (design 4): request, assembly, invocation, reply, whatever the channel.

The order is the design's: the turn's row before the model is asked, its first tool call noted as it happens, the
reply stored before its first part is sent. :meth:`TurnRunner.recover` settles what a dead process left by those rows
alone.
"""

import asyncio
import json
import logging
import uuid
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from rightlab.claude import Event, ToolUse, failure_of, parse_reply, reply_with_receipts
from rightlab.clock import Clock, iso
from rightlab.conversation import Archive, Inbound, Sessions
from rightlab.errors import ChannelError, FencedOut, RightlabError, TurnFailed
from rightlab.prompt import Assembly, PromptRegistry, render_messages
from rightlab.store import Row
from rightlab.turn.delivery import Deliverer
from rightlab.turn.invoke import OUTPUT_TOOL, InvocationPlan, Invoker, Outcome
from rightlab.turn.locks import ScopeLocks
from rightlab.turn.messages import conversation_info, user_message
from rightlab.turn.model import Turn
from rightlab.turn.ports import CallScope, Channel, PromptContext
from rightlab.turn.records import TurnRecords
from rightlab.usage import Ledger, UsageRow

__all__ = ["TurnRunner", "TurnSettings"]

log = logging.getLogger(__name__)

FAILED = "⚠️ That turn failed: {reason}"
LOST = (
    "⚠️ I was stopped in the middle of your last message and had already begun to act on it."
    " Please send it again if you still need it."
)
STOPPED_AGAIN = "⚠️ I was stopped twice before I could answer your last message. Please send it again."
FILES_ONLY = "📎 I cannot open files yet. Please say in words what you need."
MAX_ATTEMPTS = 2
_SESSION_GONE = {"session", "session_in_use"}
REASON_CHARS = 300


@dataclass(frozen=True, slots=True)
class TurnSettings:
    """What the agent's configuration says about turns; read anew for each one."""

    agent: str
    model: str | None
    debug: bool
    source: str
    scripted: bool = False


class TurnRunner:
    """Runs batches of messages as turns of one agent."""

    def __init__(
        self,
        *,
        clock: Clock,
        records: TurnRecords,
        archive: Archive,
        sessions: Sessions,
        deliverer: Deliverer,
        ledger: Ledger,
        registry: PromptRegistry,
        context: PromptContext,
        invoker: Invoker,
        settings: Callable[[], TurnSettings],
        locks: ScopeLocks,
    ) -> None:
        self._clock = clock
        self._records = records
        self._archive = archive
        self._sessions = sessions
        self._deliverer = deliverer
        self._ledger = ledger
        self._registry = registry
        self._context = context
        self._invoker = invoker
        self._settings = settings
        self._locks = locks

    async def run(self, batch: Sequence[Inbound], channel: Channel) -> Turn | None:
        """Answer ``batch`` (one scope, in order) on ``channel``. A turn that fails says so there and is returned.

        Messages that another turn has taken are left out; None when none is left.
        """
        turn_id = uuid.uuid4().hex
        batch = await self._records.begin(turn_id, batch)
        if not batch:
            return None
        async with self._locks.hold(batch[0].chat_id, batch[0].thread_id):
            return await self._attempt(turn_id, batch, channel)

    async def recover(self, channel_of: Callable[[int], Channel | None]) -> list[asyncio.Task[Turn]]:
        """Begin to settle every turn that was running when its process died (design 4); one task per turn.

        When this returns each of them stands first in its conversation's queue, so no newer message overtakes it.
        A turn whose channel is not open stays as it is, for a start that has it.
        """
        tasks = []
        for row in self._records.cut():
            channel = channel_of(row["chat_id"])
            if channel is None:
                log.warning("turn %s waits: its channel is not open", row["turn_id"][:8])
                continue
            tasks.append(asyncio.create_task(self._settle(row, channel), name=f"settle {row['turn_id'][:8]}"))
        await asyncio.sleep(0)
        return tasks

    async def _settle(self, row: Row, channel: Channel) -> Turn:
        turn_id = row["turn_id"]
        batch = [Inbound.from_json(item) for item in json.loads(row["messages_json"])]
        async with self._locks.hold(row["chat_id"], row["thread_id"]):
            acted = row["first_tool_at"] is not None
            if acted or row["attempt"] >= MAX_ATTEMPTS:
                log.warning(
                    "turn %s is lost: %s", turn_id[:8], "it had begun to act" if acted else "cut twice"
                )
                self._record_cut(row)
                return await self._fail(turn_id, batch, "lost", "lost", LOST if acted else STOPPED_AGAIN, 0)
            log.info("turn %s runs again: nothing had been done yet", turn_id[:8])
            self._record_cut(row)
            if row["opened_session"] and row["session_id"]:
                # The CLI refuses to create one session id twice, so a first call starts a new one.
                self._sessions.deactivate(row["session_id"])
            await self._records.update(turn_id, attempt=row["attempt"] + 1, session_id=None, opened_session=0)
            return await self._attempt(turn_id, batch, channel)

    async def _attempt(self, turn_id: str, batch: Sequence[Inbound], channel: Channel) -> Turn:
        """Answer under the conversation's lock; an error of ours becomes the turn's one line."""
        started = self._clock.monotonic()
        async with channel.typing(batch[0].chat_id, batch[0].thread_id):
            try:
                return await self._answer(turn_id, batch, channel, started)
            except FencedOut:
                raise  # somebody else answers this chat now, and settles this turn
            except RightlabError as error:
                kind = getattr(error, "kind", None) or getattr(error, "code", None) or "failed"
                log.warning("turn %s failed (%s): %s", turn_id[:8], kind, error)
                reason = str(error)
            except Exception as error:
                log.exception("turn %s failed by a fault of ours", turn_id[:8])
                kind, reason = "internal", f"{type(error).__name__}: {error}"
            line = FAILED.format(reason=_short(reason))
            return await self._fail(turn_id, batch, "failed", kind, line, self._since(started))

    async def _answer(self, turn_id: str, batch: Sequence[Inbound], channel: Channel, started: float) -> Turn:
        first = batch[0]
        settings = self._settings()
        stdin = render_messages([user_message(message) for message in batch])
        if stdin is None and any(message.attachments for message in batch):
            return await self._fail(turn_id, batch, "failed", "attachments", FILES_ONLY, 0)
        if stdin is None:
            await self._records.silent(turn_id, batch, "nothing to answer")
            return _ended(turn_id, "delivered", settings, 0)
        assembly = await self._assemble(first)
        plan, outcome = await self._ask(turn_id, batch, channel, assembly, stdin, settings)
        reply = parse_reply(outcome.result)
        self._sessions.touch(plan.session_id)
        content = reply_with_receipts(reply)
        elapsed = self._since(started)
        outbox_id = await self._records.replied(
            turn_id, batch, content, outcome, elapsed, reply_to=reply.reply_to_message_id
        )
        status = await self._deliver(outbox_id) if outbox_id is not None else "delivered"
        return Turn(
            turn_id=turn_id,
            status=status,
            reply=content,
            session_id=plan.session_id,
            num_turns=outcome.result.num_turns,
            cost_usd=outcome.cost_usd,
            usage=outcome.result.usage,
            elapsed_ms=elapsed,
            model=outcome.model or settings.model,
            skills=tuple(receipt.package_name for receipt in reply.used_skill_receipts),
            sections=tuple(part.to_json() for part in assembly.parts()),
            prompt_bytes=assembly.bytes,
            prompt_sha256=assembly.sha256,
            source=settings.source,
            agent=settings.agent,
            tools=tuple(outcome.tools),
        )

    async def _ask(
        self,
        turn_id: str,
        batch: Sequence[Inbound],
        channel: Channel,
        assembly: Assembly,
        stdin: str,
        settings: TurnSettings,
    ) -> tuple[InvocationPlan, Outcome]:
        """Ask in the conversation's session; in a new one when it has none, or none Claude Code still knows."""
        first = batch[0]

        async def ask(session_id: str, *, resume: bool) -> tuple[InvocationPlan, Outcome]:
            plan = InvocationPlan(
                scope=CallScope(uuid.uuid4().hex, "foreground", first.chat_id, first.thread_id, session_id),
                caller="worker",
                assembly=assembly,
                stdin=stdin,
                model=settings.model,
                session_id=session_id,
                resume=resume,
                debug=settings.debug,
            )
            await self._note_plan(turn_id, plan, batch)
            try:
                outcome = await self._invoker.run(plan, channel=channel, on_event=self._watch(turn_id))
            except TurnFailed as error:
                self._record(turn_id, plan, None, settings, failure=error.kind)
                raise
            outcome.cost_usd = self._record(turn_id, plan, outcome, settings).total_cost_usd
            failure = failure_of(outcome.result)
            if failure is not None:
                raise failure
            return plan, outcome

        session = self._sessions.active(first.chat_id, first.thread_id)
        if session is not None:
            try:
                return await ask(session.session_id, resume=True)
            except TurnFailed as error:
                if error.kind not in _SESSION_GONE:
                    raise
                # Its transcript is gone, or its first call was cut before there was one; nothing has run.
                log.warning("turn %s begins a new session: %s", turn_id[:8], error)
                self._sessions.deactivate(session.session_id)
        session_id = str(uuid.uuid4())
        self._sessions.open(first.chat_id, first.thread_id, session_id)
        try:
            return await ask(session_id, resume=False)
        except Exception:
            self._sessions.deactivate(session_id)
            raise

    async def _assemble(self, first: Inbound) -> Assembly:
        return await self._registry.assemble(
            {
                "mode": "normal",
                "caller": "worker",
                "conversation": conversation_info(first),
                **self._context(chat_id=first.chat_id, thread_id=first.thread_id),
            }
        )

    async def _note_plan(self, turn_id: str, plan: InvocationPlan, batch: Sequence[Inbound]) -> None:
        first = batch[0]
        await self._records.update(
            turn_id,
            session_id=plan.session_id,
            opened_session=int(not plan.resume),
            invocation_id=plan.scope.invocation_id,
            model=plan.model,
            prompt_sha256=plan.assembly.sha256,
            prompt_bytes=plan.assembly.bytes,
            sections_json=json.dumps([part.to_json() for part in plan.assembly.parts()]),
        )
        self._archive.mark_routed(
            first.channel,
            first.chat_id,
            [message.message_id for message in batch],
            session_id=plan.session_id,
            turn_id=turn_id,
        )

    def _watch(self, turn_id: str) -> Callable[[Event], Awaitable[None]]:
        seen = False

        async def watch(event: Event) -> None:
            nonlocal seen
            if not seen and isinstance(event, ToolUse) and event.name != OUTPUT_TOOL:
                seen = True
                await self._records.update(turn_id, first_tool_at=iso(self._clock.now()))

        return watch

    def _record(
        self,
        turn_id: str,
        plan: InvocationPlan,
        outcome: Outcome | None,
        settings: TurnSettings,
        failure: str | None = None,
    ) -> UsageRow:
        """One ledger row per invocation, also for one that ended without a result: what it cost is unknown then."""
        return self._ledger.record(
            outcome.result if outcome is not None else None,
            source="interactive",
            chat_id=plan.scope.chat_id,
            thread_id=plan.scope.thread_id,
            session_uuid=plan.session_id,
            turn_id=turn_id,
            invocation_id=plan.scope.invocation_id,
            model=(outcome.model if outcome is not None else None) or plan.model,
            prompt_sha256=plan.assembly.sha256,
            api_key_source=outcome.api_key_source if outcome is not None else None,
            wall_elapsed_ms=outcome.elapsed_ms if outcome is not None else None,
            failure=failure,
            scripted=settings.scripted,
        )

    def _record_cut(self, row: Row) -> None:
        """The ledger row of an invocation that died with its process: it may have cost something, nobody knows what."""
        if row["invocation_id"] is not None:
            self._ledger.record(
                None,
                source="interactive",
                chat_id=row["chat_id"],
                thread_id=row["thread_id"],
                session_uuid=row["session_id"],
                turn_id=row["turn_id"],
                invocation_id=row["invocation_id"],
                model=row["model"],
                prompt_sha256=row["prompt_sha256"],
                failure="cut",
                scripted=self._settings().scripted,
            )

    async def _deliver(self, outbox_id: int) -> str:
        """Send the stored reply; the turn's status. What cannot be sent now waits in the outbox."""
        try:
            delivery = await self._deliverer.deliver(outbox_id)
        except ChannelError as error:
            log.warning("outbox %s waits: %s", outbox_id, error)
            return "replied"
        return {"delivered": "delivered", "waiting": "replied"}.get(delivery.state, "partial")

    async def _fail(
        self, turn_id: str, batch: Sequence[Inbound], status: str, kind: str, line: str, elapsed_ms: int
    ) -> Turn:
        outbox_id = await self._records.failed(turn_id, batch, status, kind, line, elapsed_ms)
        await self._deliver(outbox_id)
        return _ended(turn_id, status, self._settings(), elapsed_ms, error=line)

    def _since(self, started: float) -> int:
        return int((self._clock.monotonic() - started) * 1000)


def _ended(
    turn_id: str, status: str, settings: TurnSettings, elapsed_ms: int, *, error: str | None = None
) -> Turn:
    return Turn(
        turn_id=turn_id,
        status=status,
        reply=None,
        session_id=None,
        num_turns=None,
        cost_usd=None,
        usage={},
        elapsed_ms=elapsed_ms,
        model=settings.model,
        error=error,
        source=settings.source,
        agent=settings.agent,
    )


def _short(text: str) -> str:
    return text if len(text) <= REASON_CHARS else text[: REASON_CHARS - 1] + "…"
