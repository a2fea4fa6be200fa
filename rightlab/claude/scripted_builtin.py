"""The builtin script: a friendly persona that answers anything, says it is scripted, and calls real tools.

It reads what really arrived (the person's words, the system prompt, the tools on offer), so a demo without an
account still shows the whole machine at work: tool calls, structured replies, crons, failures.
"""

import re
import shlex
from collections.abc import Callable
from typing import Any

from rightlab.claude.request_blocks import iter_blocks
from rightlab.claude.scripted import Action, FailWith, ToolCall, schema_kind
from rightlab.claude.scripted_request import Seen

__all__ = ["BuiltinPersona"]

_SIGNATURE = "I am a scripted stand-in, not a model."
_LIST = "mcp__right__rightmeta__mcp_list"
_SEND = "mcp__right__send_message"
_ECHO_LIMIT = 160


class BuiltinPersona:
    """Answers by a few words of the message; the same request gets the same answer."""

    def action(self, seen: Seen) -> Action:
        if seen.tool_results:
            return self._after_tools(seen)
        if schema_kind(seen.schema) == "cron":
            return self._cron(seen)
        for pattern, answer in self._words():
            found = re.search(pattern, seen.text, re.IGNORECASE)
            if found is not None:
                return answer(seen, found)
        return Action(
            reply=f'{_SIGNATURE} You wrote: "{_short(seen.text)}". Say "help" to see what I react to.'
        )

    def _words(self) -> tuple[tuple[str, Callable[[Seen, re.Match[str]], Action]], ...]:
        return (
            (r"^\W*(?:help|what can you do)\b", self._help),
            (r"^\W*error(?:\s+(\d{3}))?\W*$", self._error),
            (r"^\W*(?:drop|cut)(?: the)? (?:line|connection)\W*$", self._drop),
            (r"^\W*slow(?:\s+(\d{1,2}))?\W*$", self._slow),
            (r"\bwhat do you remember\b|\byour memory\b", self._recall),
            (r"\bremember\b[\s,:]*(?:that\s+)?(.*)", self._remember),
            (r"\b(?:tools?|mcp)\b", self._tools),
            (r"^\W*send\b\s*(.*)", self._send),
            (r"\b(?:table|rich)\b", self._table),
            (r"\b(?:prompt|tokens?|cost)\b", self._prompt),
            (r"^\W*(?:hi|hello|hey|good (?:morning|evening|day))\b", self._hello),
        )

    def _hello(self, seen: Seen, found: re.Match[str]) -> Action:
        return Action(
            reply=f"Hello! {_SIGNATURE} Everything around me is real: the CLI, the prompt, the tools, the "
            'sandbox. Say "help" to see what I react to.'
        )

    def _help(self, seen: Seen, found: re.Match[str]) -> Action:
        words = (
            ("tools", "I call a real MCP tool and tell what it answered"),
            ("remember that ...", "I write a line to MEMORY.md with a real shell command"),
            ("what do you remember", "I read MEMORY.md back"),
            ("send ...", "I send a message of its own through the send_message tool"),
            ("prompt", "I say how big the request was that I was sent"),
            ("table", "I answer with rich content"),
            ("slow 5", "I take five seconds"),
            ("error 529", "I fail as the API does when it is overloaded"),
        )
        items = [{"runs": [_run(word, "code"), _run(f": {what}")]} for word, what in words]
        intro = {"type": "paragraph", "runs": [_run(f"{_SIGNATURE} These words do something:")]}
        return Action(reply={"blocks": [intro, {"type": "list", "ordered": False, "items": items}]})

    def _error(self, seen: Seen, found: re.Match[str]) -> Action:
        status = int(found.group(1) or 529)
        if not 400 <= status <= 599:
            return Action(reply=f"{_SIGNATURE} {status} is no error status; try 400 to 599.")
        return Action(error=FailWith(status=status, message=f"scripted error {status}, as you asked"))

    def _drop(self, seen: Seen, found: re.Match[str]) -> Action:
        return Action(reply="This line is cut before it ends.", drop="middle")

    def _slow(self, seen: Seen, found: re.Match[str]) -> Action:
        seconds = min(int(found.group(1) or 5), 60)
        return Action(reply=f"{_SIGNATURE} I waited {seconds} seconds, as you asked.", delay=float(seconds))

    def _remember(self, seen: Seen, found: re.Match[str]) -> Action:
        fact = _short(found.group(1).strip().rstrip(".") or "something unnamed")
        if "Bash" not in seen.tools:
            return Action(reply=f'{_SIGNATURE} I would note "{fact}", but I was given no tool to write with.')
        command = f"printf '%s\\n' {shlex.quote(f'- {fact}')} >> MEMORY.md && tail -n 1 MEMORY.md"
        return Action(
            text="I write that down.",
            tools=(
                ToolCall(name="Bash", input={"command": command, "description": "Add a line to MEMORY.md"}),
            ),
        )

    def _recall(self, seen: Seen, found: re.Match[str]) -> Action:
        if "Bash" not in seen.tools:
            return Action(reply=f"{_SIGNATURE} I was given no tool to look with.")
        command = "tail -n 5 MEMORY.md 2>/dev/null || echo '(nothing yet)'"
        call = ToolCall(name="Bash", input={"command": command, "description": "Read the end of MEMORY.md"})
        return Action(text="I look it up.", tools=(call,))

    def _tools(self, seen: Seen, found: re.Match[str]) -> Action:
        if _LIST in seen.tools:
            return Action(text="I ask the tool server.", tools=(ToolCall(name=_LIST),))
        names = ", ".join(sorted(seen.tools)) or "none"
        return Action(reply=f"{_SIGNATURE} The tools I was offered: {names}.")

    def _send(self, seen: Seen, found: re.Match[str]) -> Action:
        if _SEND not in seen.tools:
            return Action(reply=f"{_SIGNATURE} I was not given the send_message tool.")
        text = _short(found.group(1).strip()) or "a message of its own"
        return Action(tools=(ToolCall(name=_SEND, input={"content": {"text": f"(scripted) {text}"}}),))

    def _table(self, seen: Seen, found: re.Match[str]) -> Action:
        sizes = _sizes(seen)
        rows = [[{"runs": [_run("part", "bold")]}, {"runs": [_run("bytes", "bold")]}]]
        rows += [[{"runs": [_run(name)]}, {"runs": [_run(str(size))]}] for name, size in sizes.items()]
        intro = {"type": "paragraph", "runs": [_run(f"{_SIGNATURE} This is the request I was sent:")]}
        return Action(reply={"blocks": [intro, {"type": "table", "rows": rows}]})

    def _prompt(self, seen: Seen, found: re.Match[str]) -> Action:
        parts = ", ".join(f"{name} {size} bytes" for name, size in _sizes(seen).items())
        headings = len(re.findall(r"^#{1,3} ", seen.system, re.MULTILINE))
        tokens = sum(block.tokens for block in iter_blocks(seen.body))
        return Action(
            reply=f"{_SIGNATURE} I was sent {parts}: about {tokens} tokens, {len(seen.tools)} tools and a "
            f"system prompt of {headings} headings."
        )

    def _cron(self, seen: Seen) -> Action:
        words = _short(seen.text)
        if re.search(r"\b(?:be silent|nothing to report)\b", seen.text, re.IGNORECASE):
            silent = {"kind": "silent", "reason": "the prompt asked for silence (scripted)"}
            return Action(reply="silent", values={"delivery": silent, "run_note": "scripted: silent"})
        delivery = {"kind": "notify", "content": {"text": f'Scripted report on: "{words}".'}}
        return Action(
            reply=words, values={"delivery": delivery, "run_note": f"scripted run; prompt: {words}"}
        )

    def _after_tools(self, seen: Seen) -> Action:
        last = seen.tool_results[-1]
        name = last.tool.removeprefix("mcp__right__") or "the tool"
        verb = "refused" if last.is_error else "answered"
        reply = f"{_SIGNATURE} I called {name} and it {verb}: {_short(last.text) or '(nothing)'}"
        if schema_kind(seen.schema) == "cron":
            delivery = {"kind": "notify", "content": {"text": reply}}
            return Action(reply=reply, values={"delivery": delivery, "run_note": "scripted run with a tool"})
        return Action(reply=reply)


def _run(text: str, *marks: str) -> dict[str, Any]:
    return {"text": text, "marks": list(marks) or None, "link": None}


def _short(text: str) -> str:
    """The start of ``text`` on one line."""
    line = " ".join(text.split())
    return line if len(line) <= _ECHO_LIMIT else line[: _ECHO_LIMIT - 1].rstrip() + "…"


def _sizes(seen: Seen) -> dict[str, int]:
    sizes = {"tools": 0, "system": 0, "messages": 0}
    for block in iter_blocks(seen.body):
        sizes[{"tool": "tools", "system": "system", "message": "messages"}[block.kind]] += block.bytes
    return sizes
