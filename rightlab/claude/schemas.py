"""What the model must answer with: models that export the very schema the CLI is given (spec 2.3-2.8)."""

import copy
import json
from typing import Annotated, Any, Literal, Protocol, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError, WithJsonSchema

from rightlab.content import RichContent, rich_content_schema
from rightlab.errors import ContentError, TurnFailed

__all__ = [
    "Attachment",
    "BackgroundReply",
    "BootstrapReply",
    "CronReply",
    "CuratorAction",
    "CuratorPlan",
    "Notify",
    "PrefilterDecision",
    "Receipt",
    "Reply",
    "Silent",
    "parse_background",
    "parse_bootstrap",
    "parse_cron",
    "parse_reply",
    "reply_with_receipts",
    "schema_for",
]

M = TypeVar("M", bound="_Model")
_LEGACY = ("learning_signal", "skill_issue_signal")


class Answer(Protocol):
    """The part of a result that holds an answer (:class:`rightlab.claude.Result` is one)."""

    @property
    def structured_output(self) -> Any: ...

    @property
    def text(self) -> str: ...


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


Content = Annotated[RichContent, WithJsonSchema(rich_content_schema())]
MaybeContent = Annotated[
    RichContent | None, WithJsonSchema({"anyOf": [*rich_content_schema()["anyOf"], {"type": "null"}]})
]


class Attachment(_Model):
    """A file of the guest's outbox to send along. ``path`` as the guest sees it."""

    type: Literal["photo", "document", "video", "audio", "voice", "video_note", "sticker", "animation"]
    path: str
    filename: str | None = None
    caption: str | None = None
    media_group_id: str | None = None


class Receipt(_Model):
    """A learned skill that guided the reply; ``message`` in the reply's language."""

    package_name: str = Field(pattern="^rightx-")
    message: str = Field(min_length=1)


class Reply(_Model):
    """The answer of a foreground, delivery, reflection or repair turn (spec 2.3)."""

    content: MaybeContent
    used_skill_receipts: list[Receipt]
    reply_to_message_id: int | None = None
    attachments: list[Attachment] | None = None


class BootstrapReply(_Model):
    """The answer of an onboarding turn (spec 2.4)."""

    content: MaybeContent
    bootstrap_complete: bool
    bootstrap_stage: Literal["user_name", "agent_name", "nature", "vibe", "emoji", "final"]
    reply_to_message_id: int | None = None
    attachments: list[Attachment] | None = None


class Notify(_Model):
    """Deliver ``content`` to the job's chat."""

    kind: Literal["notify"]
    content: Content
    attachments: list[Attachment] | None = None


class Silent(_Model):
    """Deliver nothing; ``reason`` is kept with the run."""

    kind: Literal["silent"]
    reason: str = Field(min_length=1)


class CronReply(_Model):
    """The answer of a cron run (spec 2.5). ``run_note`` is history only and never delivered."""

    delivery: Notify | Silent
    run_note: str


class BackgroundReply(_Model):
    """The answer of a turn that went on in the background (spec 2.6): it always notifies."""

    delivery: Notify
    run_note: str


class PrefilterDecision(_Model):
    """Whether a turn is worth a learning pass (spec 2.7)."""

    decision: Literal["skip", "patch_existing", "create_new"]
    reason: str = Field(max_length=400)
    target_skill: str | None = Field(default=None, pattern="^rightx-[a-z0-9-]+$")
    topic_hint: str | None = Field(default=None, max_length=120)


class CuratorAction(_Model):
    """One thing a curator pass proposes."""

    kind: Literal["merge", "demote", "archive"]
    skills: list[str]
    target: str | None = None
    rationale: str


class CuratorPlan(_Model):
    """What a curator pass proposes (spec 2.8)."""

    actions: list[CuratorAction]


_MODELS: dict[str, type[_Model]] = {
    "reply": Reply,
    "bootstrap": BootstrapReply,
    "cron": CronReply,
    "background": BackgroundReply,
    "prefilter": PrefilterDecision,
    "curator_plan": CuratorPlan,
}
_CACHE: dict[str, dict[str, Any]] = {}


def schema_for(name: str) -> dict[str, Any]:
    """The JSON Schema of reply, bootstrap, cron, background, prefilter or curator_plan, as the CLI gets it.

    Self-contained, no titles or descriptions, unknown keys refused at every level. A fresh dict each time,
    always with the same key order, so that equal calls have equal bytes.
    """
    if name not in _CACHE:
        made = _MODELS[name].model_json_schema()
        _CACHE[name] = _plain(made, made.get("$defs", {}))
    return copy.deepcopy(_CACHE[name])


def _plain(node: Any, defs: dict[str, Any], *, names: bool = False) -> Any:
    """``node`` without titles, defaults and references; ``names``: its keys are names, not keywords."""
    if isinstance(node, list):
        return [_plain(item, defs) for item in node]
    if not isinstance(node, dict):
        return node
    if names:
        return {key: _plain(value, defs) for key, value in node.items()}
    if "$ref" in node:
        return _plain(defs[node["$ref"].rsplit("/", 1)[1]], defs)
    dropped = ("title", "description", "default", "$defs")
    made = {
        key: _plain(value, defs, names=key == "properties")
        for key, value in node.items()
        if key not in dropped
    }
    return _nullable(made)


def _nullable(node: dict[str, Any]) -> dict[str, Any]:
    """``anyOf [X, null]`` of a simple X as one type list, the shorter form of the same."""
    options = node.get("anyOf")
    if (
        options is not None
        and len(node) == 1
        and len(options) == 2
        and options[1] == {"type": "null"}
        and isinstance(options[0].get("type"), str)
        and "enum" not in options[0]
    ):
        return {**options[0], "type": [options[0]["type"], "null"]}
    return node


def parse_reply(answer: Answer) -> Reply:
    """The reply in ``answer`` (spec 2.3).

    The structured output goes first, then the result text; a text that is no reply object counts as literal
    content, a string as content is upgraded, receipts of other packages and empty ones are dropped.

    Raises:
        TurnFailed: kind ``schema``, the answer breaks the schema or a rule of rich content.
    """
    data = _object(answer, "content")
    if data is None:
        return Reply(content=_literal(answer.text), used_skill_receipts=[])
    receipts = data.get("used_skill_receipts")
    if isinstance(receipts, list):
        data["used_skill_receipts"] = [item for item in receipts if _counts(item)]
    data["content"] = _content(data.get("content"))
    return _validated(Reply, data)


def parse_bootstrap(answer: Answer) -> BootstrapReply:
    """The onboarding answer. Raises TurnFailed (kind ``schema``) when it is none."""
    data = _object(answer, "bootstrap_stage")
    if data is None:
        raise _no_answer("bootstrap")
    data["content"] = _content(data.get("content"))
    return _validated(BootstrapReply, data)


def parse_cron(answer: Answer) -> CronReply:
    """The cron answer (spec 2.5). Assistant text is never delivered, so plain text raises TurnFailed."""
    return _validated(CronReply, _delivery(answer, "cron"))


def parse_background(answer: Answer) -> BackgroundReply:
    """The background answer (spec 2.6): always a notification. Raises TurnFailed (kind ``schema``)."""
    return _validated(BackgroundReply, _delivery(answer, "background"))


def reply_with_receipts(reply: Reply) -> RichContent | None:
    """The reply's content with one last paragraph for its receipts; None when there is nothing to say.

    A receipt alone becomes the content (spec 2.3).
    """
    runs: list[dict[str, Any]] = []
    for receipt in reply.used_skill_receipts:
        start = "\n💡 " if runs else "💡 "
        runs += [
            {"text": f"{start}{receipt.message} ("},
            {"text": receipt.package_name, "marks": ["code"]},
            {"text": ")"},
        ]
    if not runs:
        return reply.content
    if reply.content is None:
        return RichContent.model_validate({"blocks": [{"type": "paragraph", "runs": runs}]})
    return reply.content.append_paragraph(runs)


def _object(answer: Answer, key: str) -> dict[str, Any] | None:
    """The answer as an object: structured output, else a result text that is a JSON object with ``key``."""
    found = answer.structured_output
    if found is None:
        text = answer.text.strip()
        if text.startswith("{"):
            try:
                found = json.loads(text)
            except ValueError:
                found = None
        if not (isinstance(found, dict) and key in found):
            return None
    if not isinstance(found, dict):
        raise TurnFailed("schema", f"the answer is {type(found).__name__}, not an object")
    return {name: value for name, value in found.items() if name not in _LEGACY}


def _delivery(answer: Answer, name: str) -> dict[str, Any]:
    data = _object(answer, "delivery")
    if data is None:
        raise _no_answer(name)
    delivery = data.get("delivery")
    if isinstance(delivery, dict) and delivery.get("content") is not None:
        data["delivery"] = {**delivery, "content": _content(delivery["content"])}
    return data


def _literal(text: str) -> RichContent | None:
    return RichContent.from_text(text) if text.strip() else None


def _content(value: Any) -> RichContent | None:
    if value is None:
        return None
    if isinstance(value, str):
        return _literal(value)
    try:
        return RichContent.model_validate(value)
    except ContentError as error:
        raise _bad_content(error) from error


def _counts(item: Any) -> bool:
    if not isinstance(item, dict):
        return True
    name, message = item.get("package_name"), item.get("message")
    if not isinstance(name, str) or not isinstance(message, str):
        return True
    return name.startswith("rightx-") and bool(message.strip())


def _validated(model: type[M], data: dict[str, Any]) -> M:
    try:
        return model.model_validate(data)
    except ValidationError as error:
        raise TurnFailed("schema", f"the answer does not fit its schema: {_first(error)}") from error
    except ContentError as error:
        raise _bad_content(error) from error


def _bad_content(error: ContentError) -> TurnFailed:
    return TurnFailed("schema", f"the reply's content breaks a rule ({error.kind}): {error}")


def _first(error: ValidationError) -> str:
    fault = error.errors(include_url=False, include_input=False)[0]
    place = ".".join(str(step) for step in fault["loc"]) or "answer"
    return f"{place}: {fault['msg']}"


def _no_answer(name: str) -> TurnFailed:
    return TurnFailed("schema", f"the model gave no structured {name} answer")
