"""What a cron notebook says to the outside: results, a message for the chat, or silence (contract "Python").

Each call shows itself in the notebook as an output of its own mime type, so the executed notebook is the record
and nothing else has to be kept open while it runs.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from rightlab.errors import UsageError

__all__ = [
    "DELIVER_MIME",
    "RESULT_LIMIT_BYTES",
    "RESULT_MIME",
    "SILENT_MIME",
    "Outputs",
    "deliver",
    "read_outputs",
    "result",
    "silent",
]

RESULT_MIME = "application/vnd.rightlab.result.v1+json"
DELIVER_MIME = "application/vnd.rightlab.deliver.v1+json"
SILENT_MIME = "application/vnd.rightlab.silent.v1+json"
RESULT_LIMIT_BYTES = 262_144
"""The most one result may take as JSON; a larger value belongs in a file."""


def result(name: str, value: Any) -> None:
    """Keep ``value`` (any JSON value of up to 256 KiB) as a result of this run under ``name``.

    A later call with the same name replaces the value. Raises :class:`UsageError` outside a notebook kernel, and
    for what JSON cannot hold.
    """
    if not isinstance(name, str) or not name.strip() or len(name) > 100:
        raise UsageError("a result needs a name of 1 to 100 characters")
    try:
        text = json.dumps(value, allow_nan=False, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise UsageError(
            f"result {name!r} is no JSON value: {error}",
            fix="Turn it into numbers, texts, lists or dicts first (a DataFrame: .to_dict('records')).",
        ) from None
    size = len(text.encode("utf-8", "surrogatepass"))
    if size > RESULT_LIMIT_BYTES:
        raise UsageError(
            f"result {name!r} takes {size:,} bytes, the most is {RESULT_LIMIT_BYTES:,}",
            fix="Write it to a file and keep its path as the result.",
        )
    shown = text if len(text) <= 200 else text[:199] + "…"
    _show("result", RESULT_MIME, {"name": name, "value": json.loads(text)}, f"result {name} = {shown}")


def deliver(content: Any) -> None:
    """Send ``content`` to the chat of this cron when the notebook has ended well.

    Text, or rich content (a :class:`rightlab.content.RichContent` or its JSON form). Several calls become one
    message, in order. Raises :class:`UsageError` outside a notebook kernel and
    :class:`rightlab.errors.ContentError` for content that breaks a rule.
    """
    rich = _rich(content)
    _show("deliver", DELIVER_MIME, {"content": rich.to_json()}, f"to the chat: {rich.plain_text()}")


def silent(reason: str) -> None:
    """Say that there is nothing to tell this time, and why. A delivery in the same run outweighs it."""
    if not isinstance(reason, str) or not reason.strip():
        raise UsageError("silence needs a reason", fix="Say in a few words why there is nothing to tell.")
    _show("silent", SILENT_MIME, {"reason": reason.strip()}, f"nothing to tell: {reason.strip()}")


@dataclass(frozen=True)
class Outputs:
    """What a run said: ``results`` by name, ``deliver`` as rich content JSON (None: nothing) and ``silent``
    (the reason; None when not said, or when something is delivered)."""

    results: Mapping[str, Any] = field(default_factory=dict)
    deliver: Mapping[str, Any] | None = None
    silent: str | None = None


def read_outputs(nb: Any) -> Outputs:
    """Collect what an executed notebook (format 4, any mapping) said, in cell order.

    Malformed entries are passed over: an output is data, whoever wrote it.
    """
    results: dict[str, Any] = {}
    contents: list[Mapping[str, Any]] = []
    reason: str | None = None
    for data in _bundles(nb):
        said = data.get(RESULT_MIME)
        if isinstance(said, Mapping) and isinstance(said.get("name"), str) and "value" in said:
            results[said["name"]] = said["value"]
        said = data.get(DELIVER_MIME)
        if isinstance(said, Mapping) and isinstance(said.get("content"), Mapping):
            contents.append(said["content"])
        said = data.get(SILENT_MIME)
        if isinstance(said, Mapping) and isinstance(said.get("reason"), str):
            reason = said["reason"]
    merged = _merge(contents)
    return Outputs(results, merged, None if merged is not None else reason)


def _bundles(nb: Any) -> Iterable[Mapping[str, Any]]:
    for cell in nb.get("cells", ()):
        for output in cell.get("outputs") or ():
            if isinstance(output.get("data"), Mapping):
                yield output["data"]


def _merge(contents: list[Mapping[str, Any]]) -> Mapping[str, Any] | None:
    if len(contents) < 2:
        return contents[0] if contents else None
    if all(isinstance(content.get("text"), str) for content in contents):
        return {"text": "\n\n".join(content["text"] for content in contents)}
    blocks: list[Any] = []
    for content in contents:
        text = content.get("text")
        if isinstance(text, str):
            lines = [part for part in text.split("\n\n") if part.strip()]
            blocks += [{"type": "paragraph", "runs": [{"text": line}]} for line in lines]
        else:
            blocks += content.get("blocks") or []
    return {"blocks": blocks}


def _rich(content: Any) -> Any:
    from rightlab.content import RichContent

    if isinstance(content, RichContent):
        return content
    if isinstance(content, str):
        return RichContent.from_text(content)
    return RichContent.model_validate(content)


def _show(what: str, mime: str, value: Any, text: str) -> None:
    shell = None
    try:
        from IPython import get_ipython

        shell = get_ipython()
    except ImportError:
        pass
    if getattr(shell, "kernel", None) is None:
        raise UsageError(
            f"rightlab.{what} works in a notebook only: it leaves its value in the executed notebook",
            fix="Run this as a cell, for example with `papermill --engine rightlab in.ipynb out.ipynb`.",
        )
    from IPython.display import display

    display({mime: value, "text/plain": text}, raw=True)
