"""The aggregator as turns see it, and the ports its tools call (design 3: a room takes what it needs as a port)."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rightlab.content import RichContent, text_parts
from rightlab.conversation import Outbox
from rightlab.errors import ChannelError
from rightlab.mcp import Aggregator, Scope
from rightlab.turn import CallScope, Channel, Deliverer

__all__ = ["OutboxMessages", "TurnTools"]


class OutboxMessages:
    """send_message's port: a message of its own goes through the same outbox as a reply."""

    def __init__(self, outbox: Outbox, deliverer: Deliverer) -> None:
        self._outbox = outbox
        self._deliverer = deliverer

    async def send_message(
        self, scope: Scope, content: RichContent | None, attachments: Sequence[Any]
    ) -> list[int]:
        """Store the message, send it, return the confirmed ids. Raises ChannelError when nothing arrived."""
        if content is None:
            raise ChannelError("there is nothing to send")
        outbox_id = self._outbox.enqueue(
            source="send_message",
            chat_id=scope.chat_id,
            thread_id=scope.thread_id,
            parts=text_parts(content),
            content_json=content.to_json(),
        )
        delivery = await self._deliverer.deliver(outbox_id, session_id=scope.session_id)
        if delivery.state in {"failed", "uncertain"} and not delivery.message_ids:
            raise ChannelError(f"the message is {delivery.state}: {delivery.error}")
        return list(delivery.message_ids)


class TurnTools:
    """One MCP configuration per invocation; its scope is open exactly while the invocation runs."""

    def __init__(self, aggregator: Aggregator, messages: OutboxMessages, base_url: Callable[[], str]) -> None:
        self._aggregator = aggregator
        self._messages = messages
        self._base_url = base_url

    def open(self, scope: CallScope, *, channel: Channel | None) -> Mapping[str, Any]:
        self._aggregator.registry.register(
            scope.invocation_id,
            scope.kind,
            scope.chat_id,
            scope.thread_id,
            scope.session_id,
            messages=self._messages if channel is not None else None,
        )
        return self._aggregator.client_config(scope.invocation_id, self._base_url())

    def close(self, invocation_id: str) -> None:
        self._aggregator.registry.unregister(invocation_id)
