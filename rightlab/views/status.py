"""The agent panel: is it alive, what did it just do, who may talk to it (spec views 00)."""

import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import ipywidgets

from rightlab.clock import SystemClock, parse_iso
from rightlab.errors import RightlabError, UsageError
from rightlab.home import Allowlist
from rightlab.html import Block, Code, Column, Details, Note, Stack, Table, ago, clip, duration, money, size
from rightlab.prompt.files import read_guest_file
from rightlab.store import Store
from rightlab.views.confirm import Confirm
from rightlab.views.view import View
from rightlab.views.watch import Watch

if TYPE_CHECKING:
    from rightlab.lab import Lab

__all__ = ["IDENTITY_FILES", "StatusView"]

IDENTITY_FILES = ("IDENTITY.md", "SOUL.md", "USER.md", "TOOLS.md", "MEMORY.md")
PREVIEW = 4_000
LAST_TURNS = 5

_panels: dict[str, "StatusView"] = {}
_panels_lock = threading.Lock()


class StatusView(View):
    """One agent: status, last turns, identity files, allowlist; start, stop, allow, deny, doctor.

    It follows the agent wherever that runs, this kernel or another process, by the files it writes. Opening it runs
    nothing in the sandbox and asks no server; doctor does, on its button.
    """

    title = "Agent"

    def __init__(self, lab: "Lab") -> None:
        self._lab = lab
        self._report: Block = Stack()
        self.title = lab.name
        self._who = ipywidgets.Text(
            description="Telegram id",
            placeholder="a user's id, or a group's (negative)",
            continuous_update=False,
        )
        self._allow = Confirm(
            "Allow", lambda: self._question(True), self._change_allow, hint="Let this id talk to it"
        )
        self._deny = Confirm(
            "Deny", lambda: self._question(False), self._change_deny, hint="Take this id out"
        )
        self._people = ipywidgets.HBox([self._who, self._allow.widget, self._deny.widget])
        self._people.add_class("rightlab-controls")
        stop = Confirm(
            "Stop", f"Stop {lab.name}? A turn that is running is cut.", self._down, hint="Stop the agent"
        )
        super().__init__(
            controls=[
                self.button("Start", "Start the agent in this kernel", self._up),
                stop.widget,
                self.button("Doctor", "Check everything the agent needs; takes some seconds", self._doctor),
            ]
        )
        agent = lab.agent
        wal = agent.db_path.with_name(agent.db_path.name + "-wal")
        files = [agent.guest_dir / name for name in IDENTITY_FILES]
        paths = [agent.state_path, agent.db_path, wal, agent.allowlist_path, agent.config_path, *files]
        self._watch = Watch(paths, self.changed)

    @classmethod
    def of(cls, lab: "Lab") -> "StatusView":
        """The kernel's one panel of this agent: shown twice it is the same widget, and nothing piles up."""
        key = str(lab.agent.root)
        with _panels_lock:
            panel = _panels.get(key)
            if panel is None or panel.closed:
                panel = _panels[key] = cls(lab)
        panel.changed()
        return panel

    def blocks(self) -> Sequence[Block]:
        # Doctor's place is there before it has run: a part that moved would fold what a person has opened.
        return (self._lab.status().page(), self._report, self._turns(), self._identity(), self._allowlist())

    def fixtures(self) -> Sequence[ipywidgets.Widget]:
        return (self._people,)

    def close(self) -> None:
        self._watch.close()
        super().close()
        with _panels_lock:
            if _panels.get(str(self._lab.agent.root)) is self:
                del _panels[str(self._lab.agent.root)]

    # -- parts ------------------------------------------------------------------------------------------------

    def _turns(self) -> Block:
        agent = self._lab.agent
        rows = []
        if agent.db_path.exists():
            with Store.open(agent.db_path, role="reader") as store:
                rows = store.rows(
                    "SELECT started_at, channel, status, num_turns, elapsed_ms, cost_usd FROM turns ORDER BY id DESC"
                    " LIMIT ?",
                    LAST_TURNS,
                )
        now = SystemClock().now()
        return Table(
            [dict(row) for row in rows],
            [
                Column("started_at", "when", format=lambda at: ago(parse_iso(str(at)), now)),
                Column("channel"),
                Column("status"),
                Column("num_turns", "steps"),
                Column("elapsed_ms", "took", align="right", format=duration),
                Column("cost_usd", "cost", align="right", format=money),
            ],
            caption="Last turns",
            empty="No turn yet: %%ask in a cell makes the first.",
        )

    def _identity(self) -> Block:
        folder = self._lab.agent.guest_dir
        there: list[Block] = []
        for name in IDENTITY_FILES:
            data = read_guest_file(folder, name)
            if data is not None:
                text = clip(data.decode("utf-8", "replace"), PREVIEW)
                there.append(Details(f"{name} · {size(len(data))}", Code(text)))
        missing = len(IDENTITY_FILES) - len(there)
        lack = [Note(f"{missing} of {len(IDENTITY_FILES)} not written yet.")] if missing else []
        return Details(f"Who am I: {len(there)} identity files", *there, *lack)

    def _allowlist(self) -> Block:
        try:
            allowlist = self._lab.agent.allowlist()
        except RightlabError as error:
            return Note(error.message, kind="error", fix=error.fix)
        entries = [("person", one.id, one.label) for one in allowlist.users]
        entries += [(one.kind, one.id, one.label) for one in allowlist.groups]
        return Details(
            f"Allowlist: {len(entries)} besides the notebook",
            Table(
                entries,
                [Column("kind"), Column("id", format=str), Column("label")],
                caption="Who may talk to it",
                empty="Nobody but this notebook. Put an id below and press Allow.",
            ),
        )

    # -- actions ----------------------------------------------------------------------------------------------

    def _up(self) -> None:
        self.run(
            f"starting {self._lab.name}",
            lambda: f"{self._lab.name} is {self._lab.up(host='kernel').state_word}.",
        )

    def _down(self) -> None:
        self.run(f"stopping {self._lab.name}", lambda: f"{self._lab.name} is {self._lab.down().state_word}.")

    def _doctor(self) -> None:
        def check() -> Block:
            found = self._lab.doctor()
            self._report = found.page()
            return Note(found.page().sentence, kind="error" if found.failed else "good")

        self.run("checking what the agent needs", check)

    def _id(self) -> int:
        try:
            return int(self._who.value.strip())
        except ValueError:
            raise UsageError(
                f"{self._who.value!r} is no Telegram id",
                fix="An id is a number, such as 123456789 or -1001234567890.",
            ) from None

    def _question(self, allow: bool) -> str | None:
        try:
            who = self._id()
        except UsageError as error:
            self.say(Note(error.message, kind="error", fix=error.fix))
            return None
        what = f"Let {who} talk to" if allow else f"Take {who} off the allowlist of"
        return f"{what} {self._lab.name}? allowlist.yaml is written."

    def _change_allow(self) -> None:
        self._write(
            lambda allowlist, who: allowlist.allow(who, by="notebook"),
            "{} is allowed.",
            "{} was allowed already.",
        )

    def _change_deny(self) -> None:
        self._write(
            lambda allowlist, who: allowlist.deny(who), "{} is no longer allowed.", "{} was not allowed."
        )

    def _write(self, change: Callable[[Allowlist, int], bool], done: str, same: str) -> None:
        who = self._id()
        self.run(
            "writing allowlist.yaml",
            lambda: (done if change(self._lab.agent.allowlist(), who) else same).format(who),
        )
