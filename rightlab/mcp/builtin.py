"""The tools that work now (spec agent-runtime 8.2): ``rightmeta__mcp_list`` and ``send_message``."""

from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, Literal

from pydantic import WithJsonSchema

from rightlab.content import RichContent, rich_content_schema
from rightlab.errors import RightlabError
from rightlab.mcp.tools import Answer, Failure, NoParams, Params, Tool, ToolContext, sorted_tools

__all__ = ["Attachment", "SendMessage", "ServerRows", "builtin_tools"]

ServerRows = Callable[[], Sequence[Mapping[str, Any]]]
"""The upstream servers as rows: name, status (Connected | NeedsAuth | Unreachable), tools."""

SEND_LIMIT = 20
"""Calls of send_message per turn (spec 8.3)."""
SEND_TIMEOUT = 30.0
OUTBOX = "/sandbox/outbox/"

_CONTENT_SCHEMA = {"anyOf": [*rich_content_schema()["anyOf"], {"type": "null"}]}


class Attachment(Params):
    """A file of the guest to send (spec 2.3)."""

    type: Literal["photo", "document", "video", "audio", "voice", "video_note", "sticker", "animation"]
    path: str
    filename: str | None = None
    caption: str | None = None
    media_group_id: str | None = None


class SendMessage(Params):
    """Parameters of send_message: at least one of the two."""

    content: Annotated[RichContent | None, WithJsonSchema(_CONTENT_SCHEMA)] = None
    attachments: tuple[Attachment, ...] | None = None


def builtin_tools(*, servers: ServerRows | None = None) -> tuple[Tool, ...]:
    """The table, sorted. ``servers`` lists the upstream servers (none without it)."""
    tools: list[Tool] = []

    async def mcp_list(context: ToolContext, params: NoParams) -> Answer:
        own = {
            "name": "right",
            "status": "Connected",
            "protected": True,
            "tools": [tool.name for tool in sorted_tools(tools)],
        }
        return {"servers": [own, *(servers() if servers is not None else ())]}

    tools.append(
        Tool(
            name="rightmeta__mcp_list",
            summary="List the MCP servers of this agent, their state and their tools. Read only.",
            advice="see which tool servers are connected and which tools they have.",
            params=NoParams,
            handler=mcp_list,
        )
    )
    tools.append(
        Tool(
            name="send_message",
            summary=(
                "Send a message of its own into this chat now, before the turn's reply. content is rich "
                f"content; attachments are files under {OUTBOX} and are not delivered yet. At most "
                f"{SEND_LIMIT} calls per turn. Returns the ids of the messages sent."
            ),
            advice=(
                "send something before the reply is ready, or several separate messages. The reply itself is "
                "sent anyway: do not repeat it here. After an uncertain failure do not send the same again."
            ),
            params=SendMessage,
            handler=_send_message,
            kinds=frozenset({"foreground"}),
            forbidden="send_message_forbidden",
            failed="send_message_failed",
            timeout=SEND_TIMEOUT,
            uncertain=True,
        )
    )
    return sorted_tools(tools)


async def _send_message(context: ToolContext, params: SendMessage) -> Answer:
    scope = context.scope
    assert scope is not None
    attachments = params.attachments or ()
    if params.content is None and not attachments:
        return Failure("send_message_empty", "Give content, attachments or both.")
    for item in attachments:
        if not item.path.startswith(OUTBOX) or ".." in item.path.split("/") or item.path == OUTBOX:
            return Failure(
                "send_message_bad_path",
                f"{item.path!r} is not a file under {OUTBOX}. Copy it there first.",
                {"path": item.path},
            )
    if attachments:
        return Failure(
            "send_message_unavailable", "Attachments are not available yet. Send content without them."
        )
    if scope.messages is None:
        return Failure("send_message_unavailable", "This turn's channel takes no messages besides the reply.")
    if scope.calls["send_message"] >= SEND_LIMIT:
        return Failure(
            "send_message_limit",
            f"{SEND_LIMIT} messages were sent in this turn already. Put the rest into the reply.",
            {"limit": SEND_LIMIT},
        )
    scope.calls["send_message"] += 1
    try:
        ids = await scope.messages.send_message(scope, params.content, attachments)
    except RightlabError as error:
        return Failure("send_message_failed", str(error))
    return {"message_ids": list(ids)}
