"""The turn of a prompt cron (spec agent-runtime 3.2, 5.3): a session of its own, the cron schema, no live user."""

import logging
import uuid
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from rightlab.claude import Notify, Silent, failure_of, parse_cron
from rightlab.content import RichContent
from rightlab.errors import TurnFailed
from rightlab.html import Block, Details, Footer, Page, Paragraph, Table, duration, mimebundle, size
from rightlab.prompt import PromptRegistry
from rightlab.turn.invoke import InvocationPlan, Invoker, Outcome
from rightlab.turn.model import cost_word, sections_table
from rightlab.turn.ports import CallScope, PromptContext
from rightlab.turn.runner import TurnSettings
from rightlab.usage import Ledger, UsageRow

__all__ = ["CronTurn", "CronTurns"]

log = logging.getLogger(__name__)

FORCED = (
    "A person started this run by hand and wants to see its result. Answer with delivery kind notify, also when"
    " there is nothing new to report."
)
EXTRA = "For this run only, the person adds:"


@dataclass(frozen=True, slots=True)
class CronTurn:
    """What one prompt run said. ``kind`` is notify or silent; ``content`` the message, ``reason`` of the silence."""

    run_id: str
    job: str
    kind: str
    content: RichContent | None
    reason: str | None
    run_note: str
    session_id: str
    num_turns: int | None
    cost_usd: float | None
    usage: Mapping[str, Any]
    elapsed_ms: int
    model: str | None
    sections: tuple[Mapping[str, Any], ...] = ()
    prompt_bytes: int | None = None
    source: str = ""
    tools: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        return self.content.plain_text() if self.content is not None else ""

    @property
    def assembly(self) -> Table:
        """The sections the model was told, with their sizes."""
        return sections_table(self.sections, f"System prompt of this run, {size(self.prompt_bytes)}")

    def to_json(self) -> dict[str, Any]:
        data = asdict(self)
        data["content"] = self.content.to_json() if self.content is not None else None
        return data

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "CronTurn":
        values = dict(data)
        content = values.pop("content", None)
        for key in ("sections", "tools"):
            values[key] = tuple(values.get(key) or ())
        return cls(content=RichContent.model_validate(content) if content is not None else None, **values)

    def page(self) -> Page:
        """What was said, what it cost and what the model was told."""
        facts = [
            f"{self.num_turns or 0} steps",
            duration(self.elapsed_ms),
            cost_word(self.cost_usd, self.source),
            self.model or "",
        ]
        body: list[Block] = [Paragraph(self.text if self.kind == "notify" else f"Silent: {self.reason}")]
        if self.run_note:
            body.append(Details("Note of the run", Paragraph(self.run_note)))
        return Page(
            f"cron {self.job}",
            " · ".join(fact for fact in facts if fact),
            *body,
            footer=Footer(source=self.source or None, more=(f"run {self.run_id}",)),
        )

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, Any]:
        return mimebundle(self, self.page(), include, exclude)


class CronTurns:
    """Runs prompts of crons for one agent."""

    def __init__(
        self,
        *,
        ledger: Ledger,
        registry: PromptRegistry,
        context: PromptContext,
        invoker: Invoker,
        settings: Callable[[], TurnSettings],
        notice_token: str,
    ) -> None:
        self._notice_token = notice_token
        self._ledger = ledger
        self._registry = registry
        self._context = context
        self._invoker = invoker
        self._settings = settings

    async def run(
        self,
        *,
        run_id: str,
        job: str,
        prompt: str,
        chat_id: int,
        thread_id: int = 0,
        model: str | None = None,
        max_budget_usd: float | None = None,
        extra_instruction: str | None = None,
        force_notify: bool = False,
    ) -> CronTurn:
        """Ask the model ``prompt`` once, as the run ``run_id`` of ``job``. Raises TurnFailed, PromptError.

        ``force_notify`` and ``extra_instruction`` come before the prompt as notices of the platform (spec 5.4).
        """
        settings = self._settings()
        context = {"mode": "cron", "caller": "cron", **self._context(chat_id=chat_id, thread_id=thread_id)}
        assembly = await self._registry.assemble(context)
        session_id = str(uuid.uuid4())
        invocation_id = uuid.uuid4().hex
        plan = InvocationPlan(
            scope=CallScope(invocation_id, "cron", chat_id, thread_id, session_id),
            caller="cron",
            assembly=assembly,
            stdin=self._compose(prompt, extra_instruction, force_notify),
            model=model or settings.model,
            session_id=session_id,
            max_budget_usd=max_budget_usd,
            debug=settings.debug,
        )
        try:
            outcome = await self._invoker.run(plan)
        except TurnFailed as error:
            self._record(plan, run_id, job, None, settings, failure=error.kind)
            raise
        result = outcome.result
        cost = self._record(plan, run_id, job, outcome, settings).total_cost_usd
        failure = failure_of(result)
        if failure is not None:
            raise failure
        reply = parse_cron(result)
        said = reply.delivery
        log.info("cron %s run %s: %s", job, run_id, said.kind)
        return CronTurn(
            run_id=run_id,
            job=job,
            kind=said.kind,
            content=said.content if isinstance(said, Notify) else None,
            reason=said.reason if isinstance(said, Silent) else None,
            run_note=reply.run_note,
            session_id=session_id,
            num_turns=result.num_turns,
            cost_usd=cost,
            usage=result.usage,
            elapsed_ms=outcome.elapsed_ms,
            model=outcome.model or plan.model,
            sections=tuple(part.to_json() for part in assembly.parts()),
            prompt_bytes=assembly.bytes,
            source=settings.source,
            tools=tuple(outcome.tools),
        )

    def _record(
        self,
        plan: InvocationPlan,
        run_id: str,
        job: str,
        outcome: Outcome | None,
        settings: TurnSettings,
        failure: str | None = None,
    ) -> UsageRow:
        return self._ledger.record(
            outcome.result if outcome is not None else None,
            source="cron",
            chat_id=plan.scope.chat_id,
            thread_id=plan.scope.thread_id,
            job_name=job,
            session_uuid=plan.session_id,
            run_id=run_id,
            invocation_id=plan.scope.invocation_id,
            model=(outcome.model if outcome is not None else None) or plan.model,
            prompt_sha256=plan.assembly.sha256,
            api_key_source=outcome.api_key_source if outcome is not None else None,
            wall_elapsed_ms=outcome.elapsed_ms if outcome is not None else None,
            failure=failure,
            scripted=settings.scripted,
        )

    def _compose(self, prompt: str, extra: str | None, force: bool) -> str:
        notices = [FORCED] if force else []
        if extra:
            notices.append(f"{EXTRA}\n{extra}")
        return "\n\n".join([*(system_notice(self._notice_token, text) for text in notices), prompt])


def system_notice(token: str, text: str) -> str:
    """``text`` as a notice that the agent obeys because it carries its own token (spec agent-runtime 1.11)."""
    return f"⟨⟨SYSTEM_NOTICE:{token}⟩⟩\n{text}\n⟨⟨/SYSTEM_NOTICE:{token}⟩⟩"
