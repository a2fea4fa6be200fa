"""One call of the Claude Code CLI as a value, and the only place that makes its arguments (spec 3.1)."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

from rightlab.claude.policy import OutputFormat, caller_policy, denied_tools
from rightlab.claude.schemas import schema_for
from rightlab.errors import UsageError

__all__ = ["Invocation"]

_LEAST_BUDGET = 0.01


@dataclass(frozen=True)
class Invocation:
    """What one call of the CLI asks for. The prompt itself always goes to the CLI's stdin.

    ``session_id`` is the session to open, to resume (``resume``), or the new one of a fork (``fork_from``
    names the parent then). ``tools`` None leaves the CLI's own set, an empty one switches all off.
    ``prompt_file``, ``mcp_config`` and ``debug_dir`` are paths as the CLI sees them; ``files`` is the host
    folder that this call alone is shown. Times in seconds, money in US dollars; ``max_budget_usd`` is checked
    by the CLI between requests only, so one request may overshoot it.
    """

    caller: str
    invocation_id: str
    session_id: str | None = None
    resume: bool = False
    fork_from: str | None = None
    model: str | None = None
    prompt_file: str | None = None
    mcp_config: str | None = None
    files: Path | None = None
    schema: Mapping[str, Any] | None = None
    allowed_tools: Sequence[str] = ()
    disallowed_tools: Sequence[str] = ()
    tools: Sequence[str] | None = None
    max_turns: int | None = None
    max_budget_usd: float | None = None
    settings: Mapping[str, Any] | None = None
    debug: bool = False
    debug_dir: str = "/sandbox/.claude/logs"
    output_format: OutputFormat = "stream-json"
    persist: bool = True
    extra: Sequence[str] = ()
    timeout_s: float | None = None
    first_progress_s: float | None = None

    def __post_init__(self) -> None:
        if self.resume and self.fork_from:
            raise UsageError("a call either resumes a session or forks one, not both")
        if self.resume and not self.session_id:
            raise UsageError("a call that resumes needs the session's id")
        if self.max_budget_usd is not None and not self.max_budget_usd > 0:
            raise UsageError("a budget must be more than 0 dollars")
        if self.max_turns is not None and self.max_turns < 1:
            raise UsageError("max_turns must be at least 1")

    @classmethod
    def of(cls, caller: str, *, invocation_id: str, learning: bool = True, **fields: Any) -> Self:
        """The call of ``caller`` with its row of the per-caller table filled in; ``fields`` go over it.

        Raises:
            UsageError: an unknown caller, or a session that does not fit the caller's row.
        """
        policy = caller_policy(caller)
        made = cls(
            caller=caller,
            invocation_id=invocation_id,
            model=policy.model,
            schema=None if policy.schema is None else schema_for(policy.schema),
            allowed_tools=policy.allowed,
            disallowed_tools=denied_tools(caller, learning=learning),
            tools=policy.tools,
            max_turns=policy.max_turns,
            max_budget_usd=policy.max_budget_usd,
            settings=policy.settings,
            output_format=policy.output_format,
            persist=policy.persist,
            timeout_s=policy.timeout_s,
            first_progress_s=policy.first_progress_s,
        )
        made = replace(made, **fields)
        made._check_session(policy.session)
        if made.mcp_config and not policy.mcp:
            raise UsageError(f"a {caller} call has no MCP servers")
        return made

    def argv(self, cli_path: str) -> list[str]:
        """The command line, in the order of spec 3.1."""
        line = [cli_path, "-p", "--dangerously-skip-permissions"]
        if self.mcp_config:
            line += ["--mcp-config", self.mcp_config]
        line.append("--strict-mcp-config")
        if self.allowed_tools:
            line += ["--allowedTools", ",".join(self.allowed_tools)]
        if self.disallowed_tools:
            line += ["--disallowedTools", *self.disallowed_tools]
        line += self._session()
        if self.model:
            line += ["--model", self.model]
        if self.max_budget_usd is not None:
            line += ["--max-budget-usd", f"{max(self.max_budget_usd, _LEAST_BUDGET):.2f}"]
        if self.max_turns is not None:
            line += ["--max-turns", str(self.max_turns)]
        line += self._extra()
        if self.debug:
            line += ["--debug", f"--debug-file={self.debug_dir}/{self.debug_id}.log"]
        if self.output_format == "stream-json":
            line.append("--verbose")
        line += ["--output-format", self.output_format]
        if self.schema is not None:
            line += ["--json-schema", _compact(self.schema)]
        return line

    @property
    def debug_id(self) -> str:
        """What the debug file is called: the fork's id, the resumed id or the new id, in this order."""
        return self.session_id or self.invocation_id

    def _session(self) -> list[str]:
        if self.fork_from:
            new = ["--session-id", self.session_id] if self.session_id else []
            return ["--resume", self.fork_from, "--fork-session", *new]
        if self.session_id:
            return ["--resume" if self.resume else "--session-id", self.session_id]
        return []

    def _extra(self) -> list[str]:
        line: list[str] = []
        if self.prompt_file:
            # By default the CLI keeps the first prompt of a session and ignores a changed one, silently.
            line += ["--system-prompt-file", self.prompt_file, "--system-prompt-snapshot", "off"]
        if self.tools is not None:
            line += ["--tools", ",".join(self.tools)]
        if self.settings:
            line += ["--settings", _compact(self.settings)]
        if not self.persist:
            line.append("--no-session-persistence")
        return [*line, *self.extra]

    def _check_session(self, use: str) -> None:
        fits = {
            "none": self.session_id is None and not self.fork_from,
            "new": bool(self.session_id) and not self.resume and not self.fork_from,
            "resume": self.resume,
            "fork": bool(self.fork_from) and bool(self.session_id),
            "resume_or_new": bool(self.session_id) and not self.fork_from,
            "resume_or_none": self.resume or (self.session_id is None and not self.fork_from),
        }
        if not fits[use]:
            raise UsageError(f"a {self.caller} call uses its session so: {use.replace('_', ' ')}")


def _compact(value: Mapping[str, Any]) -> str:
    return json.dumps(value, default=dict, ensure_ascii=False, separators=(",", ":"))
