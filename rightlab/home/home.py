"""``Home`` and ``AgentHome``: where everything lies (contract "Files")."""

import contextlib
import errno
import fcntl
import json
import os
import re
import secrets as random
import shutil
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rightlab.errors import HomeError, OwnedElsewhere, OwnershipError, RightlabError, UsageError
from rightlab.home.agent_home import AgentHome
from rightlab.home.ownership import MARK
from rightlab.home.writers import (
    create_file,
    file_lock,
    make_dir,
    remove,
    rename_folder,
    write_failure,
    write_regenerated,
)

__all__ = ["AGENT_NAME", "Home"]

AGENT_NAME = re.compile(r"[a-z][a-z0-9-]{0,30}")
FORMAT = 1
"""The layout's number in ``rightlab.json``; a higher one was made by a newer rightlab."""

_OURS_IN_THE_MAKING = re.compile(rf"\.{re.escape(MARK)}\.[0-9a-f]+\.tmp")


@dataclass(frozen=True)
class Home:
    """The folder that holds agents. Making the object touches no disk."""

    path: Path
    outer: "Home | None" = None

    @classmethod
    def resolve(
        cls, home: str | os.PathLike[str] | None = None, environ: Mapping[str, str] | None = None
    ) -> "Home":
        """``home`` (``--home``), else ``RIGHTLAB_HOME``, else ``~/.rightlab``."""
        variables = os.environ if environ is None else environ
        chosen = os.fspath(home) if home is not None else ""
        text = chosen or variables.get("RIGHTLAB_HOME", "") or "~/.rightlab"
        if text == "~" or text.startswith("~/"):
            text = variables.get("HOME", os.path.expanduser("~")) + text[1:]
        return cls(Path(os.path.abspath(os.path.expanduser(text))))

    @property
    def demo_home(self) -> "Home":
        """The demo's own home, inside this one."""
        return Home(self.path / "demo", outer=self)

    @property
    def agents_dir(self) -> Path:
        return self.path / "agents"

    @property
    def notebooks_dir(self) -> Path:
        return self.path / "notebooks"

    @property
    def marked(self) -> bool:
        """Whether the folder is a home of ours already."""
        return (self.path / MARK).is_file()

    def check(self) -> None:
        """Make sure the folder is ours or free: missing, empty, or marked by ``rightlab.json``.

        Raises:
            HomeError: it holds other things, is no folder, cannot be read, or a newer rightlab made it.
        """
        if self.path.name == ".right" or ".right" in (parent.name for parent in self.path.parents):
            raise HomeError(
                "this folder belongs to Right Agent itself",
                where=self.path,
                fix="Choose another one with --home.",
            )
        try:
            names = os.listdir(self.path)
        except FileNotFoundError:
            return
        except NotADirectoryError:
            raise HomeError(
                "this is no folder", where=self.path, fix="Choose another one with --home."
            ) from None
        except OSError as error:
            raise HomeError(
                f"cannot be read: {os.strerror(error.errno or 0).lower()}",
                where=self.path,
                fix="Check the folder's permissions, or choose another one with --home.",
            ) from error
        if MARK in names:
            self._check_mark()
        elif any(not _OURS_IN_THE_MAKING.fullmatch(name) for name in names):
            raise HomeError(
                f"this folder holds other things and no {MARK}, so it is not a home of ours",
                where=self.path,
                fix="Choose an empty or new folder with --home.",
            )

    def _check_mark(self) -> None:
        path = self.path / MARK
        try:
            number = json.loads(path.read_bytes())["format"]
        except OSError as error:
            raise HomeError(
                f"cannot be read: {os.strerror(error.errno or 0).lower()}",
                where=path,
                fix="Check its permissions.",
            ) from error
        except (ValueError, TypeError, KeyError):
            raise HomeError(
                "this mark of a home is damaged", where=path, fix=f'Write {{"format": {FORMAT}}} into it.'
            ) from None
        if not isinstance(number, int) or number > FORMAT:
            raise HomeError(
                "a newer rightlab made this home",
                where=path,
                fix="Upgrade: python3 -m pip install -U rightlab.",
            )

    def mark(self) -> None:
        """Make the folder and mark it as ours; call it before the first write. One that is marked is left
        alone.

        Raises:
            HomeError: as :meth:`check`, or the folder cannot be written.
        """
        self.check()
        if self.marked:
            return
        if self.outer is not None:
            self.outer.mark()
        try:
            make_dir(self.path, 0o700)
            write_regenerated(self.path / MARK, json.dumps({"format": FORMAT}) + "\n")
        except OwnershipError as error:
            raise HomeError(
                "this folder lies inside another home", where=self.path, fix="Choose another one with --home."
            ) from error
        except UsageError as error:
            raise HomeError(
                error.message,
                where=error.where,
                fix="Check the folder's permissions, or choose another one with --home.",
            ) from error

    def agents(self) -> list[str]:
        """The names of the agents there are, sorted."""
        self.check()
        try:
            names = os.listdir(self.agents_dir)
        except FileNotFoundError:
            return []
        return sorted(
            name
            for name in names
            if AGENT_NAME.fullmatch(name) and (self.agents_dir / name / "agent.yaml").is_file()
        )

    def agent(self, name: str) -> AgentHome:
        """One agent's folder.

        Raises:
            UsageError: not a name, or no such agent (the message lists those there are).
        """
        agent = AgentHome(self, _valid(name))
        self.check()
        if not agent.config_path.is_file():
            names = self.agents()
            there = f"there are: {', '.join(names)}" if names else "there is none yet"
            fix = f"Make it with `rightlab init {name}`."
            if self.demo_home.marked and name in self.demo_home.agents():
                fix = f"The demo's has a home of its own: --home {self.demo_home.path}"
            raise UsageError(f"no agent {name} ({there})", where=self.path, fix=fix)
        return agent

    def create_agent(
        self,
        name: str,
        *,
        telegram_token: str | None = None,
        allow: Iterable[int] = (),
        sandbox: str = "auto",
        model: str | None = None,
        bootstrap: bool = True,
        overrides: Mapping[str, Any] | None = None,
    ) -> AgentHome:
        """Make an agent: its folder appears whole or not at all.

        ``overrides`` are dotted keys of agent.yaml. The database is made by its owner's first start.

        Raises:
            UsageError: not a name, or it exists. ConfigError: a value agent.yaml does not take.
        """
        agent = AgentHome(self, _valid(name))
        self.mark()
        with file_lock(agent.root):
            if os.path.lexists(agent.root):
                raise UsageError(
                    f"there is an agent {name} already",
                    where=agent.root,
                    fix=f"Take another name, or `rightlab agent destroy {name}` first.",
                )
            self._sweep(name)
            draft = AgentHome(self, f".new-{name}-{random.token_hex(4)}")
            try:
                changes: dict[str, Any] = {"sandbox.mode": sandbox, **({"model": model} if model else {})}
                _fill(draft, telegram_token, allow, bootstrap, {**changes, **(overrides or {})}, agent)
                rename_folder(draft.root, agent.root)
            except BaseException:
                _delete_tree(draft.root)
                raise
        return agent

    def destroy_agent(self, name: str) -> None:
        """Remove an agent and all it has. Its folder disappears at once, its files then one by one.

        Raises:
            UsageError: no such agent. OwnedElsewhere: it is running.
        """
        agent = self.agent(name)
        with file_lock(agent.root), _lease(agent):
            trash = self.agents_dir / f".trash-{name}-{random.token_hex(4)}"
            rename_folder(agent.root, trash)
            _delete_tree(agent.run_dir)
            self._sweep(name)
            for lock in (self.path / "run" / ".locks").glob(f"agents+{name}+*.lock"):
                remove(lock)

    def _sweep(self, name: str) -> None:
        """Delete what a crash left of making or destroying an agent of this name (its lock is held)."""
        leftover = re.compile(rf"\.(new|trash)-{re.escape(name)}-[0-9a-f]{{8}}")
        for entry in os.listdir(make_dir(self.agents_dir)):
            if leftover.fullmatch(entry):
                _delete_tree(self.agents_dir / entry)


def _valid(name: str) -> str:
    if not AGENT_NAME.fullmatch(name):
        raise UsageError(
            f"{name!r} is no name for an agent",
            fix="Use 1 to 31 small letters, digits and hyphens, with a letter first.",
        )
    return name


def _fill(
    draft: AgentHome,
    telegram_token: str | None,
    allow: Iterable[int],
    bootstrap: bool,
    changes: Mapping[str, Any],
    final: AgentHome,
) -> None:
    from rightlab.home.allowlist import allowlist_text
    from rightlab.home.loading import parse_config
    from rightlab.home.secret_store import TELEGRAM_TOKEN
    from rightlab.home.template import AGENT_YAML, BOOTSTRAP_MD
    from rightlab.home.yaml_files import edit

    text = edit(AGENT_YAML, changes, final.config_path)
    parse_config(text, final.config_path)
    people = allowlist_text(allow, final.allowlist_path)
    for folder in (draft.recordings_dir, draft.runs_dir, draft.logs_dir):
        make_dir(folder)
    for name in (".claude", "inbox", "outbox"):
        make_dir(draft.guest_dir / name)
    create_file(draft.guest_dir / "TOOLS.md", "")
    secrets = {TELEGRAM_TOKEN: telegram_token} if telegram_token else {}
    create_file(draft.secrets_path, json.dumps(secrets, indent=2) + "\n", 0o600)
    create_file(draft.allowlist_path, people, 0o600)
    if bootstrap:
        create_file(draft.bootstrap_path, BOOTSTRAP_MD)
    create_file(draft.config_path, text, 0o600)


@contextlib.contextmanager
def _lease(agent: AgentHome) -> Iterator[None]:
    """Hold the agent's lease, so that nobody starts it meanwhile."""
    make_dir(agent.run_dir)
    try:
        fd = os.open(agent.lease_path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        raise write_failure(error, agent.lease_path) from error
    try:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise OwnedElsewhere(
                f"agent {agent.name} is running",
                where=agent.root,
                fix=f"Stop it with `rightlab down {agent.name}`.",
            ) from None
        yield
    finally:
        os.close(fd)


def _delete_tree(folder: Path) -> None:
    """Delete a folder, also what its owner has made read-only in it; never through a symlink."""

    def retry(function: Callable[..., Any], path: str, failure: Any) -> None:
        error = failure[1]
        if isinstance(error, FileNotFoundError):
            return
        if not isinstance(error, PermissionError) or function not in (
            os.unlink,
            os.rmdir,
            os.open,
            os.scandir,
        ):
            raise error
        for parent in (os.path.dirname(path), path):
            if stat.S_ISDIR(os.lstat(parent).st_mode):
                os.chmod(parent, 0o700)
        if function in (os.unlink, os.rmdir):
            function(path)
        else:
            shutil.rmtree(path)

    try:
        shutil.rmtree(folder, onerror=retry)
    except OSError as error:
        if error.errno == errno.ENOENT:
            return
        raise RightlabError(
            f"cannot be deleted: {os.strerror(error.errno or 0).lower()}", where=error.filename or folder
        ) from error
