"""The inspector over requests that the real CLI sent through the real gateway."""

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

import rightlab
from rightlab.home import Home
from rightlab.lab import Lab
from rightlab.runtime.setup import make_agent

pytestmark = [pytest.mark.claude, pytest.mark.sandbox]


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    home = Home.resolve(tmp_path / "home")
    agent = make_agent(home, "alice", bootstrap=False, overrides={"gateway.upstream": "scripted:builtin"})
    (agent.guest_dir / "SOUL.md").write_text("Kind. Today is 2026-11-30.\n")
    found = rightlab.open("alice", home=home.path)
    yield found
    found.down()


def put(lab: Lab, name: str, data: str | bytes) -> None:
    path = lab.agent.guest_dir / name
    path.write_bytes(data.encode() if isinstance(data, str) else data)


def ask(lab: Lab, text: str = "hello"):
    turn = lab.ask(text, timeout=120)
    assert turn.status == "delivered", turn.error
    return turn


def test_an_edited_file_reaches_the_next_turn_and_its_price_is_told(lab):
    lab.up()
    first, second = ask(lab), ask(lab, "again")
    assert not lab.divergence(), lab.divergence().sentence
    put(lab, "SOUL.md", "Kind. Today is 2026-12-01.\n")
    third = ask(lab, "and again")
    found = lab.divergence()
    assert (found.kind, found.name, found.owner) == ("section", "identity:soul", "SOUL.md")
    assert found.cause == "date in SOUL.md"
    assert found.labels == ("turn 2", "turn 3")
    assert "2026-12-01" in found.after
    assert found.tokens_rewritten > 2000
    assert found.cost_usd is not None
    assert found.scripted
    assert lab.divergence(first, third).cause == "date in SOUL.md"
    assert not lab.divergence(first.turn_id, second)
    assert "source: scripted model" in found.page().text()

    requests = lab.requests()
    assert [one.label for one in requests] == ["turn 1", "turn 2", "turn 3"]
    for one in requests:
        slices = [part for part, _ in one.trace.sections()]
        assert all(part.exact for part in slices)
        assert "identity:soul" in [part.name for part in slices]
    # The sections are the very bytes that went out, nothing between them but blank lines.
    body = json.loads((requests[2].request.file.with_suffix(".request.json")).read_bytes())
    sent = body["system"][1]["text"].encode()
    assert b"\n\n".join(data for _, data in requests[2].trace.sections()) == sent

    # Stability: one change in three turns.
    rows = {one["name"]: one["stability"] for one in lab.prompt().to_json()["sections"]}
    assert rows["identity:soul"] == pytest.approx(2 / 3)
    assert rows["harness:identity"] == 1.0
    assert requests.stability()["identity:soul"].share == pytest.approx(2 / 3)
    assert len(requests.to_frame()) == 3

    # The reckoning meets the model's figures: the second turn read, the third wrote the prompt again.
    assert requests.calibration.scripted
    forecast = requests.what_if().forecast()
    assert forecast.billed_read == pytest.approx(forecast.now.read, rel=0.1)
    tail = requests.what_if().to_tail("identity:soul").forecast()
    assert tail.then.read > forecast.now.read
    assert requests.suggest_order().order[-1] == "identity:soul"
    assert lab.lint()[0].section == "identity:soul"

    with lab.variant("terse") as variant:
        variant.section("identity:soul", "Terse.\n")
        once = variant.what_if().next_turn()
        assert (once.name, once.cause) == ("identity:soul", "SOUL.md was edited")
        assert once.tokens_rewritten == pytest.approx(found.tokens_rewritten, rel=0.2)
    assert b"Terse" not in sent


def test_bad_files_never_stop_a_turn(lab):
    """Huge, binary, full of braces, not text, a link, a pipe, a folder: what is shown is what is sent."""
    lab.up()
    guest = lab.agent.guest_dir
    put(lab, "MEMORY.md", "- {{a}} fact {{ with }} braces\n" * 330_000)
    put(lab, "SOUL.md", b"caf\xe9 {{unknown}} {{ }} {{{x}}} }} {{ %s \\n 'q' \"q\" \x00 no line break")
    put(lab, "USER.md", bytes(range(256)) * 40)
    assembly = lab.prompt()
    assert sorted((one.code, one.owner) for one in assembly.problems) == [
        ("invalid_utf8", "SOUL.md"),
        ("invalid_utf8", "USER.md"),
    ]
    turn = ask(lab)
    (request,) = lab.requests()
    sent = {part.name: data.decode() for part, data in request.trace.sections()}
    for name in ("identity:soul", "identity:user", "memory:long-term", "right:operating"):
        assert sent[name] == assembly[name].rendered, name
    assert len(sent["memory:long-term"]) < 20_000
    assert turn.prompt_bytes == assembly.bytes + len("\n\n") + len(sent["right:conversation"].encode())

    for name in ("SOUL.md", "USER.md", "MEMORY.md", "TOOLS.md"):
        (guest / name).unlink(missing_ok=True)
    os.symlink("/etc/hostname", guest / "SOUL.md")
    os.mkfifo(guest / "TOOLS.md")
    (guest / "USER.md").mkdir()
    put(lab, "MEMORY.md", " \n\t\n")
    gone = {"identity:soul", "identity:user", "identity:tools", "memory:long-term"}
    assert gone.isdisjoint(part.name for part in lab.prompt().parts())
    ask(lab, "still there?")
    sent = [part.name for part, _ in lab.requests()[-1].trace.sections()]
    assert gone.isdisjoint(sent)
    assert lab.divergence().cause in ("section identity:soul removed", "section identity:tools removed")


def test_a_cron_s_prompt_is_known_by_the_present_one(lab):
    lab.up()
    lab.crons.add("morning", schedule="0 9 * * *", prompt="Say good morning.")
    run_id = lab.crons.trigger("morning")
    lab.crons.wait(run_id, timeout=120)
    (request,) = lab.requests()
    assert request.source == "cron"
    assert request.label.startswith("cron morning")
    names = [part.name for part, _ in request.trace.sections()]
    assert "right:cron-contract" in names
    assert all(part.exact for part, _ in request.trace.sections())
    cron = {one["name"]: one["stability"] for one in lab.prompt("cron").to_json()["sections"]}
    assert cron["right:cron-contract"] == 1.0
    assert {one["stability"] for one in lab.prompt("normal").to_json()["sections"]} == {None}
