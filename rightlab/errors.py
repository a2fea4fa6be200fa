"""Every failure rightlab raises, in one tree.

::

    RightlabError                  what happened, where, what to do
    ├── UsageError                 bad usage or bad input; the command line exits 2
    │   ├── HomeError              a home folder that is not ours, not writable, not there
    │   ├── ConfigError            agent.yaml, allowlist.yaml, secrets.json
    │   ├── ContentError           rich content that breaks a rule; .kind names the rule
    │   └── ScheduleError          a cron expression, zone or time
    ├── PromptError                an assembly that cannot be made; .code .section .owner
    │   └── TemplateError          a broken {{reference}}; .offset .excerpt
    ├── StoreError                 data.db: corrupt, full, too new, locked
    │   └── FencedOut              somebody else has taken the agent over
    ├── OwnedElsewhere             a second owner for one agent
    ├── OwnershipError             a write to a path that has no or another owner (a bug of ours)
    ├── SandboxError               no sandbox, or it is down; never the host instead
    ├── ClaudeError                the CLI: missing, too old, not started
    │   └── TurnFailed             a turn that ended without a reply; .kind
    ├── GatewayError               the model gateway or its upstream
    ├── ChannelError               a channel (Telegram, notebook) that cannot talk
    │   ├── SendRejected           conversation/: a part refused for good
    │   ├── SendUncertain          conversation/: a part that may have arrived
    │   └── SendLater              conversation/: a part to send again
    ├── RunError                   a cron run that could not be made, claimed or finished
    │   └── KernelDied             cron/: the kernel of a run ended in a cell
    └── NotAvailable               comes with a later version
"""

import errno
import os
from typing import Any

__all__ = [
    "ChannelError",
    "ClaudeError",
    "ConfigError",
    "ContentError",
    "FencedOut",
    "GatewayError",
    "HomeError",
    "NotAvailable",
    "OwnedElsewhere",
    "OwnershipError",
    "PromptError",
    "RightlabError",
    "RunError",
    "SandboxError",
    "ScheduleError",
    "StoreError",
    "TemplateError",
    "TurnFailed",
    "UsageError",
    "system_failure",
]


class RightlabError(Exception):
    """Base of the tree. ``str()`` is one line: what happened, where, what to do.

    ``where`` is the file, agent or table concerned; ``fix`` an imperative sentence. ``exit_code`` is what the
    command line ends with (contract: 1 failed, 2 bad usage or bad input).
    """

    exit_code = 1

    def __init__(self, message: str, *, where: object = None, fix: str | None = None) -> None:
        self.message = message
        self.where = None if where is None else str(where)
        self.fix = fix
        super().__init__(message)

    def __str__(self) -> str:
        text = self.message if self.where is None else f"{self.where}: {self.message}"
        line = f"{text.rstrip('.')}. {self.fix}" if self.fix else text
        return " ".join(line.split())


class UsageError(RightlabError):
    """Bad usage or bad input."""

    exit_code = 2


class HomeError(UsageError):
    """The home folder is not ours, not writable or not there."""


class ConfigError(UsageError):
    """A file people edit does not say what it must."""


class ContentError(UsageError):
    """Rich content that breaks a rule of spec 2.1; ``kind`` is the rule's name there."""

    def __init__(self, kind: str, message: str, **where: Any) -> None:
        super().__init__(message, **where)
        self.kind = kind


class ScheduleError(UsageError):
    """A cron expression, zone or time that cannot be."""


class PromptError(RightlabError):
    """An assembly that cannot be made. ``code`` is one of the registry's codes (spec prompt-registry 6.4)."""

    def __init__(
        self,
        message: str,
        *,
        code: str = "failed",
        section: str | None = None,
        owner: str | None = None,
        where: object = None,
        fix: str | None = None,
    ) -> None:
        super().__init__(message, where=where, fix=fix)
        self.code = code
        self.section = section
        self.owner = owner


class TemplateError(PromptError):
    """A broken reference: ``code`` is bad_name, unknown, no_value or broken_open; ``offset`` its first brace."""

    def __init__(
        self,
        message: str,
        *,
        code: str,
        offset: int,
        excerpt: str = "",
        section: str | None = None,
        owner: str | None = None,
    ) -> None:
        super().__init__(message, code=code, section=section, owner=owner)
        self.offset = offset
        self.excerpt = excerpt


class StoreError(RightlabError):
    """data.db is corrupt, full, too new or locked."""


class FencedOut(StoreError):
    """Another process took the agent over; this one must stop acting for it."""


class OwnedElsewhere(RightlabError):
    """Another process owns the agent."""


class OwnershipError(RightlabError):
    """A write to a path that is registered with no ownership category, or another one."""


class SandboxError(RightlabError):
    """No sandbox, or it is down. The host is never used instead."""


class ClaudeError(RightlabError):
    """The Claude Code CLI is missing, too old or does not start."""


class TurnFailed(ClaudeError):
    """A turn that ended without a reply. ``kind`` is a short stable word (timeout, api, cli, schema, ...)."""

    def __init__(self, kind: str, message: str, **where: Any) -> None:
        super().__init__(message, **where)
        self.kind = kind


class GatewayError(RightlabError):
    """The model gateway or its upstream."""


class ChannelError(RightlabError):
    """A channel that cannot talk: wrong token, unreachable API."""


class RunError(RightlabError):
    """A cron run that could not be made, claimed or finished."""


class NotAvailable(RightlabError):
    """What a later version brings."""

    def __init__(self, what: str) -> None:
        super().__init__(f"{what}: not available yet")


def system_failure(error: OSError) -> RightlabError:
    """What the operating system refused, as the one line people see; for errors that no room has put in words."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return RightlabError("the disk is full", where=error.filename, fix="Free some space and try again.")
    reason = os.strerror(error.errno).lower() if error.errno else str(error)
    fix = "Check the permissions." if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS) else None
    return RightlabError(reason, where=error.filename, fix=fix)
