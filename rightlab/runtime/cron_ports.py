"""What the scheduler needs from the rest of an agent: where runs go, and how a result reaches its chat."""

from typing import TYPE_CHECKING, Any

from rightlab.content import RichContent, text_parts
from rightlab.cron import DeliveryResult, JobStore, Run, Scheduler, SubprocessLauncher, Target
from rightlab.errors import ChannelError
from rightlab.runtime.environment import child_environment
from rightlab.runtime.notebook import NOTEBOOK_CHAT

if TYPE_CHECKING:
    from rightlab.runtime.services import Services

__all__ = ["CronDelivery", "open_scheduler", "scheduler_status"]


class CronDelivery:
    """Sends the result of a run through the agent's outbox. Called again for the same run, it goes on where the
    outbox stands, so nothing is sent twice."""

    def __init__(self, services: "Services") -> None:
        self._services = services

    async def __call__(self, run: Run, content: RichContent, target: Target) -> DeliveryResult:
        services = self._services
        if not self._allowed(target.chat_id):
            return DeliveryResult("denied", error=f"chat {target.chat_id} is not in the allowlist any more")
        outbox_id = services.store.value("SELECT id FROM outbox WHERE run_id = ? ORDER BY id LIMIT 1", run.id)
        if outbox_id is None:
            outbox_id = services.outbox.enqueue(
                source="cron",
                chat_id=target.chat_id,
                thread_id=target.thread_id,
                parts=text_parts(content),
                content_json=content.to_json(),
                run_id=run.id,
            )
        try:
            delivery = await services.deliverer.deliver(outbox_id)
        except ChannelError as error:
            return DeliveryResult("no_target", error=str(error))
        if delivery.state == "waiting":
            return DeliveryResult("retryable", delivery.message_ids, delivery.error)
        if delivery.state == "delivered":
            return DeliveryResult("delivered", delivery.message_ids)
        return DeliveryResult("failed", delivery.message_ids, f"{delivery.state}: {delivery.error}")

    def _allowed(self, chat_id: int) -> bool:
        if chat_id == NOTEBOOK_CHAT:
            return True
        allowlist = self._services.allowlist()
        return allowlist.trusts(chat_id) or allowlist.group(chat_id) is not None


def open_scheduler(services: "Services") -> Scheduler:
    """The scheduler of ``services``; it runs once somebody awaits :meth:`Scheduler.run`."""
    agent = services.agent
    return Scheduler(
        JobStore(services.store, services.clock, guest_dir=agent.guest_dir),
        clock=services.clock,
        launch=SubprocessLauncher(child_environment({"RIGHTLAB_HOME": str(agent.home.path)})),
        deliver=CronDelivery(services),
        runs_dir=agent.runs_dir,
        agent=agent.name,
        home=agent.home.path,
    )


def scheduler_status(scheduler: Scheduler) -> dict[str, Any]:
    """Plain facts: how many jobs, how many runs now, and the next fire."""
    jobs = scheduler.jobs.list()
    due = [(job.next_slot, job.name) for job in jobs if job.enabled and job.next_slot is not None]
    moment, name = min(due, default=(None, None))
    return {
        "jobs": len(jobs),
        "running": len(scheduler.active),
        "next": None if moment is None else f"{name} at {moment:%Y-%m-%d %H:%M} UTC",
    }
