"""What kind of failure a run's end was (spec agent-runtime 3.5)."""

import re

from rightlab.claude.events import Result
from rightlab.errors import TurnFailed

__all__ = ["DETAIL_CHARS", "failure_of", "process_failure"]

DETAIL_CHARS = 300
"""Most of an error's own text that people are shown."""

_AUTH = re.compile(r"API Error: 40[13]|Failed to authenticate|Not logged in|Please run /login", re.IGNORECASE)
_BUSY = re.compile(r"Rate limited|temporarily limiting|Overloaded|usage limit", re.IGNORECASE)
_GATEWAY = re.compile(r"rightlab gateway: ([^\n\"]+)")
_LOGIN = re.compile(r"(Not logged in\W*)?Please run /login\W*", re.IGNORECASE)
_NO_SESSION = re.compile(r"No conversation found", re.IGNORECASE)
_IN_USE = re.compile(r"Session ID \S+ is already in use", re.IGNORECASE)

_BY_SUBTYPE = {
    "error_max_turns": ("max_turns", "the turn used all the steps it may take"),
    "error_max_budget_usd": ("budget", "the turn spent its budget"),
    "error_max_structured_output_retries": ("schema", "the model gave no reply in the wanted form"),
}
_FIX = {
    "auth": "Check the agent's credential with `rightlab doctor`.",
    "rate_limited": "Try again in a while.",
    "session": "Send the message again; it starts a new session.",
}


def failure_of(result: Result, stderr: str = "") -> TurnFailed | None:
    """Why ``result`` failed, None when it did not.

    ``kind`` is auth, rate_limited, session, max_turns, budget, schema, api or cli. Budget and step limits go
    by subtype, as their result has no text.
    """
    if not result.is_error:
        return None
    text = " ".join([result.text, *result.errors, stderr]).strip()
    if (ours := _GATEWAY.search(text)) is not None:
        # The gateway said no before any API was asked; its own words say what to do.
        kind = "auth" if "credential" in ours[1] else "api"
        return TurnFailed(kind, ours[1].strip().rstrip("."))
    if result.subtype in _BY_SUBTYPE:
        kind, message = _BY_SUBTYPE[result.subtype]
    elif result.api_error_status in (401, 403) or _AUTH.search(text):
        kind, message = "auth", "the model's API refused the credential"
    elif result.api_error_status in (429, 529) or _BUSY.search(text):
        kind, message = "rate_limited", "the model's API is busy or limits this account"
    elif _NO_SESSION.search(text):
        kind, message = "session", "Claude Code does not know this session any more"
    elif result.api_error_status is not None or result.terminal_reason == "api_error":
        kind, message = "api", "the model's API refused the request"
    else:
        kind, message = "cli", "Claude Code could not finish the turn"
    return TurnFailed(kind, _with_detail(message, text), fix=_FIX.get(kind))


def process_failure(exit_code: int | None, stderr: str) -> TurnFailed:
    """The failure of a process that ended without a result; kinds session_in_use, session, auth or cli."""
    if _IN_USE.search(stderr):
        return TurnFailed(
            "session_in_use", _with_detail("this session id is taken", stderr), fix=_FIX["session"]
        )
    if _NO_SESSION.search(stderr):
        return TurnFailed(
            "session", _with_detail("Claude Code does not know this session", stderr), fix=_FIX["session"]
        )
    if _AUTH.search(stderr):
        return TurnFailed(
            "auth", _with_detail("the model's API refused the credential", stderr), fix=_FIX["auth"]
        )
    if exit_code is None:
        how = "closed its output"
    elif exit_code < 0:
        how = f"was killed by signal {-exit_code}"
    else:
        how = f"ended with exit code {exit_code}"
    return TurnFailed("cli", _with_detail(f"Claude Code {how} before a result", stderr))


def _with_detail(message: str, text: str) -> str:
    # The CLI's advice is for its own terminal, which nobody has here.
    detail = " ".join(_LOGIN.sub("", text).split())
    if not detail:
        return message
    return f"{message}: {detail if len(detail) <= DETAIL_CHARS else detail[: DETAIL_CHARS - 1] + '…'}"
