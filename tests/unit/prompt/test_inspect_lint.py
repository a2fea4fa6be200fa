"""The linter: what is worth changing before it costs anything (spec pains 7)."""

from datetime import date

import pytest

from rightlab.prompt import PromptRegistry, PromptSettings, right_agent_registry
from rightlab.prompt.inspect import Stability, lint

STABLE = "## Rules\n" + "".join(
    f"Rule number {chr(97 + n)} says something of its own kind.\n" for n in range(26)
)


def assembly(**sections):
    registry = PromptRegistry(identity=None)
    for order, (name, text) in enumerate(sections.items()):
        owner = {"soul": "SOUL.md", "tools": "TOOLS.md"}.get(name, "rightlab")
        registry.section(name, order, text, literal=True, owner=owner)
    return registry.assemble_now()


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        ("Current time: 14:02:09", "clock"),
        ("It is now 2026-11-30T14:02:09Z", "clock"),
        ("generated at 1796074054.12", "clock"),
        ("Today is 30 November 2026.", "date"),
        ("Updated 2026-11-30", "date"),
        ("session started as 3f2b1c9a-0000-4000-8000-000000000001 just now", "uuid"),
        ("You are now in turn 41", "counter"),
    ],
)
def test_pain_H15866_volatile_text_ahead_of_stable(line, kind):
    """pains H#15866, goruck/home-generative-agent#617, aerele/jarvis#861: a clock near the start, reads always 0."""
    (found,) = lint(assembly(tools=f"## Tools\nfine\n{line}\n", rules=STABLE))
    assert (found.code, found.severity, found.section, found.line) == ("volatile", "warning", "tools", 3)
    assert found.message.startswith(f"{kind} in TOOLS.md line 3 and sits before ")
    assert found.tokens_behind > 200
    (found,) = lint(assembly(rules=STABLE, tools=f"## Tools\nfine\n{line}\n"))
    assert (found.severity, found.tokens_behind) == ("note", 0)


@pytest.mark.parametrize(
    "line",
    [
        "Founded 2019-04-01 in Berlin.",
        "Send the report every Monday at 09:00.",
        "Version 3.11 needs 512 MB and 2 cores.",
        "Keep to 4096 characters, 200 lines and 3 files.",
        "Commit deadbeef is not the one.",
        "See section 4.2 of RFC 9110.",
    ],
)
def test_facts_with_numbers_are_not_volatile(line):
    assert list(lint(assembly(soul=line, rules=STABLE))) == []


def test_today_s_own_date_is_a_sign_whatever_the_words():
    given = assembly(soul="Berlin, 2026-11-30", rules=STABLE)
    assert len(lint(given)) == 0
    assert len(lint(given, today=date(2026, 11, 30))) == 1


def test_recordings_overrule_the_look_of_a_text():
    given = assembly(soul="Today is a good day to read the time: 10:15", rules=STABLE)
    assert len(lint(given)) == 1
    assert len(lint(given, history={"soul": Stability(5, 5)})) == 0
    assert len(lint(given, history={"soul": Stability(4, 4)})) == 1
    plain = assembly(soul="kind", rules=STABLE)
    (found,) = lint(plain, history={"soul": Stability(20, 2), "rules": Stability(20, 20)})
    assert (found.code, found.severity) == ("changes", "error")
    assert "SOUL.md changed in 18 of 20 recorded turns" in found.message
    (found,) = lint(plain, history={"soul": Stability(20, 16)})
    assert found.severity == "warning"
    both = lint(assembly(soul="It was 9 Nov 2026", rules=STABLE), history={"soul": Stability(20, 2)})
    assert [one.code for one in both] == ["changes", "volatile"]


def test_rules_said_twice():
    rule = "Never send a message without asking the person first."
    found = lint(assembly(soul=f"- {rule}\n", rules=f"## Rules\n\n1. {rule}\n"))
    assert [(one.code, one.severity, one.section, one.line) for one in found] == [
        ("duplicate", "warning", "rules", 3)
    ]
    assert "SOUL.md line 1" in found[0].message
    near = rule.replace("asking", "first asking").replace(" first.", ".")
    (found,) = lint(assembly(soul=rule, rules=near))
    assert (found.code, found.severity) == ("duplicate", "note")
    assert len(lint(assembly(soul="## A heading\n## A heading", rules="| a | b |\n| a | b |"))) == 0
    assert len(lint(assembly(soul=rule, rules="Always send a picture when asked for one by anybody."))) == 0


def test_bulk_against_a_budget():
    given = assembly(soul="kind", rules=STABLE)
    assert [one.section for one in lint(given, budget=200)] == ["rules"]
    assert [one.section for one in lint(given, budget={"soul": 0})] == ["soul"]
    assert len(lint(given)) == 0
    many = assembly(**{f"s{n}": f"Word{n} " * 500 for n in range(12)})
    found = lint(many, budget=1000)
    assert "the prompt takes about" in found[0].message


@pytest.mark.parametrize(
    "secret",
    [
        "sk-ant-" + "api03-abcdefghijkl",
        "123456789:" + "AAE" + "x" * 32,
        "ghp_" + "a1" * 18,
        "AKIA" + "ABCDEFGHIJKLMNOP",
        "xoxb-" + "123456789012-abc",
        "-----BEGIN RSA " + "PRIVATE KEY-----",
        "postgres://me:" + "hunter22@db/x",
        "eyJhbGciOiJIUzI1NiJ9" + ".eyJzdWIiOiIxMjM0In0" + ".abcdefghijklmno",
    ],
)
def test_secrets_are_found_and_not_repeated(secret):
    found = lint(assembly(tools=f"use it\nkey: {secret}\n"))
    assert (found[0].code, found[0].severity, found[0].line) == ("secret", "error", 2)
    assert secret not in str(found)
    assert secret not in found.page().html()


def test_the_gravest_come_first_and_the_forms_agree():
    found = lint(assembly(soul="Current time: 10:15", tools="sk-ant-" + "abcdefghijk", rules=STABLE))
    assert [one.severity for one in found] == ["error", "warning"]
    assert len(found.to_frame()) == len(found.to_json()) == 2
    assert "2 findings in 3 sections, 2 worth acting on." in str(found)
    assert "Nothing to improve" in str(lint(assembly(soul="kind")))
    assert assembly(soul="Current time: 10:15").lint()[0].code == "volatile"


@pytest.mark.parametrize("memory", ["file", "hindsight"])
@pytest.mark.parametrize("mode", ["normal", "cron", "bootstrap_question", "bootstrap_final"])
def test_our_own_texts_pass(memory, mode):
    """Nothing volatile in the system prompt, no rule in two places (design 5)."""
    skills = ("right-memory", "right-cron", "right-mcp")
    settings = PromptSettings("alice", notice_token="0" * 32, memory_provider=memory, skills=skills)
    assert list(lint(right_agent_registry(settings).assemble_now({"mode": mode}))) == []


def test_a_megabyte_is_looked_over_in_a_moment():
    import time

    text = "".join(f"- Fact {n} is that thing {n * 7919 % 10007} likes thing {n}.\n" for n in range(16_000))
    began = time.monotonic()
    lint(assembly(soul=text, rules=STABLE))
    assert time.monotonic() - began < 10


def test_no_pattern_takes_forever():
    import time

    for piece in ("a-", "a.", "1,", "-----BEGIN ", "12:", "eyJ-", "0a", "- ", "://", "Bearer "):
        text = piece * (200_000 // len(piece))
        began = time.monotonic()
        lint(assembly(soul=text))
        assert time.monotonic() - began < 5, piece
