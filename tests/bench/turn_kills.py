"""kill -9 at random moments while several chats talk: ``python3 tests/bench/turn_kills.py [--kills 200] [--json]``.

The runtime runs in a process of its own with the real Claude Code in its sandbox; bot server and model are
stand-ins. Each message carries a word of its own, and the model repeats what it was told. At the end

* every message belongs to one turn, and each is answered, told as lost, or shown as uncertain: none is lost
* no message is answered twice and no tool of a turn ran twice
* the answers of a chat stand in the order of its messages

Exit code 1 and the violations when one of these does not hold.
"""

import argparse
import json
import random
import re
import shutil
import statistics
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "telegram"))

from agent_process import AgentProcess

from rightlab.testing import BotApi
from rightlab.turn.runner import LOST, STOPPED_AGAIN

CHATS = {41: "a", 42: "b", 43: "c", 44: "d"}
WORD = re.compile(r"\b[a-d]\d{4}\b")
NOTE = {"command": "echo {{1}} >> /sandbox/acts", "description": "note it"}
RULES = [
    {
        "match": {"regex": r"act ([a-d]\d{4})"},
        "steps": [{"tools": [{"name": "Bash", "input": NOTE}]}, {"reply": "did {{text}}", "delay": 0.3}],
    },
    {"match": {"regex": r"tell ([a-d]\d{4})"}, "reply": "{{text}}" + " and so on" * 450, "delay": 0.1},
    {"match": {"regex": r"say ([a-d]\d{4})"}, "reply": "{{text}}", "delay": 0.2},
]
PHASES = {
    "while a part was being sent": "SELECT 1 FROM outbox_parts WHERE state = 'sending'",
    "with a stored reply not sent": "SELECT 1 FROM outbox_parts WHERE state = 'pending'",
    "after a tool had run": "SELECT 1 FROM turns WHERE status = 'running' AND first_tool_at IS NOT NULL",
    "while the model was asked": "SELECT 1 FROM turns WHERE status = 'running' AND invocation_id IS NOT NULL",
    "while a turn waited": "SELECT 1 FROM turns WHERE status = 'running'",
    "with messages in no turn": "SELECT 1 FROM inbox WHERE state IN ('received', 'queued')",
    "with updates not fetched": "",
}


class Trial:
    """One agent, its chats, and what was said so far."""

    def __init__(self, folder: Path, api: BotApi, seed: int) -> None:
        self.api = api
        self.chance = random.Random(seed)
        self.agent = AgentProcess(folder, api, allow=tuple(CHATS), rules=RULES)
        self.said: dict[int, list[str]] = {chat: [] for chat in CHATS}
        self.phases: Counter[str] = Counter()
        self.starts: list[float] = []
        self.turn_seconds = 1.0

    def warm_up(self) -> None:
        """How long a turn takes on this machine: the moments of the kills are spread over a few of them."""
        self.agent.start()
        for chat in CHATS:
            began = time.monotonic()
            self.talk(chat)
            self.agent.settled()
            self.turn_seconds = time.monotonic() - began
        self.agent.stop()

    def round(self) -> None:
        """Start, let people talk for a random while, kill."""
        early = self.chance.random() < 0.2
        began = time.monotonic()
        self.agent.start(wait=not early)
        if not early:
            self.starts.append(time.monotonic() - began)
        if self.chance.random() < 0.5:
            self.api.delay_next("sendMessage", self.chance.uniform(0.05, 0.5))
        end = time.monotonic() + self.chance.uniform(0, 2 if early else 4) * self.turn_seconds
        while (left := end - time.monotonic()) > 0:
            # People wait for an answer now and then; else what is never answered only grows.
            if len(self.agent.open_ends()) < 4 * len(CHATS):
                self.talk(self.chance.choice(list(CHATS)))
            time.sleep(min(left, self.chance.uniform(0.05, 0.9)))
        self.agent.kill()
        self.phases[self.phase()] += 1

    def talk(self, chat: int) -> None:
        words = self.said[chat]
        word = f"{CHATS[chat]}{len(words):04d}"
        verb = self.chance.choices(("say", "act", "tell"), (6, 3, 1))[0]
        words.append(word)
        self.api.send_text(chat, f"{verb} {word}")

    def phase(self) -> str:
        """The most advanced thing that was going on when the process died."""
        for name, sql in PHASES.items():
            if self.agent.rows(sql) if sql else self.api.pending_updates:
                return name
        return "with nothing to do"

    def finish(self) -> None:
        self.agent.start()
        self.agent.settled(timeout=300)
        self.agent.stop()

    def violations(self) -> list[str]:
        return [
            *self._lost(),
            *self._twice(),
            *self._order(),
        ]

    def _lost(self) -> list[str]:
        wrong: list[str] = []
        taken = Counter(word for turn in self.agent.turns() for word in WORD.findall(turn["messages_json"]))
        answers = self._answers()
        for chat, words in self.said.items():
            for word in words:
                if taken[word] != 1:
                    wrong.append(f"{word} is in {taken[word]} turns")
            told = [text for text in self.api.texts(chat) if text in (LOST, STOPPED_AGAIN)]
            lost = [
                turn for turn in self.agent.turns() if (turn["chat_id"], turn["status"]) == (chat, "lost")
            ]
            in_doubt = sum(self._in_doubt(turn["outbox_id"]) for turn in lost)
            if not len(lost) - in_doubt <= len(told) <= len(lost):
                wrong.append(f"chat {chat}: {len(lost)} turns are lost, {len(told)} lines say so")
        for turn in self.agent.turns():
            if turn["status"] == "failed":
                wrong.append(f"a turn failed: {turn['error']}")
            if turn["status"] in ("running", "replied"):
                wrong.append(f"turn {turn['id']} is still {turn['status']}")
            missing = set(WORD.findall(turn["messages_json"])) - answers.keys()
            if turn["status"] == "delivered" and missing:
                wrong.append(f"{missing} of a delivered turn were not answered")
            if turn["status"] == "partial" and not self._in_doubt(turn["outbox_id"]):
                wrong.append(f"turn {turn['id']} is partial without a part in doubt")
        return wrong

    def _twice(self) -> list[str]:
        acts = self.agent.guest_file("acts")
        acted = Counter(acts.read_text().split()) if acts.exists() else Counter()
        return [
            *(f"{word} was answered {times} times" for word, times in self._answers().items() if times > 1),
            *(f"the tool of {word} ran {times} times" for word, times in acted.items() if times > 1),
        ]

    def _order(self) -> list[str]:
        wrong: list[str] = []
        for chat in CHATS:
            words = [word for turn in self._turns_of(chat) for word in WORD.findall(turn["messages_json"])]
            if words != sorted(words):
                wrong.append(f"chat {chat}: turns took messages out of order")
            ids = [
                row["message_id"]
                for row in self.agent.rows(
                    "SELECT message_id FROM turns JOIN outbox_parts USING (outbox_id) WHERE chat_id = ?"
                    " AND message_id IS NOT NULL ORDER BY turns.id, part",
                    chat,
                )
            ]
            if ids != sorted(ids):
                wrong.append(f"chat {chat}: answers stand out of order")
        return wrong

    def _turns_of(self, chat: int) -> list[dict[str, Any]]:
        return [turn for turn in self.agent.turns() if turn["chat_id"] == chat]

    def _answers(self) -> Counter[str]:
        """How many messages of the bot repeat a word."""
        return Counter(
            word for chat in CHATS for text in self.api.texts(chat) for word in set(WORD.findall(text))
        )

    def _in_doubt(self, outbox_id: int | None) -> int:
        return len(
            self.agent.rows(
                "SELECT 1 FROM outbox_parts WHERE outbox_id = ? AND state = 'uncertain'", outbox_id
            )
        )

    def figures(self) -> dict[str, Any]:
        turns = self.agent.turns()
        return {
            "messages": sum(map(len, self.said.values())),
            "turns": dict(Counter(turn["status"] for turn in turns)),
            "run_again": sum(turn["attempt"] > 1 for turn in turns),
            "parts": {
                row["state"]: row["n"]
                for row in self.agent.rows("SELECT state, count(*) AS n FROM outbox_parts GROUP BY state")
            },
            "turn_s": round(self.turn_seconds, 2),
            "killed": dict(self.phases.most_common()),
            "start_to_poll_s": round(statistics.median(self.starts), 2) if self.starts else None,
        }


def run(kills: int, seed: int, *, progress: bool) -> dict[str, Any]:
    folder = Path(tempfile.mkdtemp(prefix="turn-kills-"))
    began = time.monotonic()
    with BotApi(token="123456:kills") as api:
        trial = Trial(folder, api, seed)
        try:
            trial.warm_up()
            for number in range(kills):
                trial.round()
                if progress:
                    print(f"\r{number + 1}/{kills} kills", end="", file=sys.stderr, flush=True)
            if progress:
                print(file=sys.stderr)
            trial.finish()
            violations = trial.violations()
            found = {"kills": kills, "seed": seed, **trial.figures(), "violations": violations}
        finally:
            trial.agent.kill()
    found["seconds"] = round(time.monotonic() - began, 1)
    if violations:
        found["kept"] = str(folder)
    else:
        shutil.rmtree(folder, ignore_errors=True)
    return found


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=20261130)
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    args = parser.parse_args()
    found = run(args.kills, args.seed, progress=sys.stderr.isatty())
    if args.json:
        print(json.dumps(found, ensure_ascii=False))
    else:
        for name, value in found.items():
            print(f"{name:16} {value}")
    return 1 if found["violations"] else 0


if __name__ == "__main__":
    raise SystemExit(main())
