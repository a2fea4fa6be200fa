"""The one builder of the CLI's arguments (spec agent-runtime 3.1, 3.2; C15)."""

import ast
import json
import re
from pathlib import Path
from typing import Any

import pytest

import rightlab
from rightlab.claude import (
    BASE_DENIES,
    CALLERS,
    NON_FOREGROUND_DENIES,
    Invocation,
    caller_policy,
    claude_env,
    denied_tools,
    schema_for,
)
from rightlab.errors import UsageError

LEARNING = {"mcp__right__skill_learning_start", "mcp__right__skill_learning_finish"}
SESSION_FIELDS: dict[str, dict[str, Any]] = {
    "resume_or_new": {"session_id": "s"},
    "resume_or_none": {},
    "resume": {"session_id": "s", "resume": True},
    "new": {"session_id": "s"},
    "fork": {"session_id": "new", "fork_from": "old"},
    "none": {},
}


def of(caller: str, **fields: Any) -> Invocation:
    given = {**SESSION_FIELDS[caller_policy(caller).session], **fields}
    return Invocation.of(caller, invocation_id="inv", **given)


def test_c15_argv_in_the_exact_order() -> None:
    invocation = Invocation(
        caller="cron",
        invocation_id="inv",
        session_id="new",
        fork_from="old",
        model="opus",
        prompt_file="/sandbox/p.md",
        mcp_config="/sandbox/mcp.json",
        schema={"type": "object"},
        allowed_tools=("Read", "Bash"),
        disallowed_tools=("Monitor", "TaskStop"),
        tools=("Read",),
        max_turns=7,
        max_budget_usd=1.5,
        settings={"env": {"A": "1"}},
        debug=True,
        persist=False,
        extra=("--effort", "low"),
    )
    assert invocation.argv("/bin/cl") == [
        "/bin/cl",
        "-p",
        "--dangerously-skip-permissions",
        "--mcp-config",
        "/sandbox/mcp.json",
        "--strict-mcp-config",
        "--allowedTools",
        "Read,Bash",
        "--disallowedTools",
        "Monitor",
        "TaskStop",
        "--resume",
        "old",
        "--fork-session",
        "--session-id",
        "new",
        "--model",
        "opus",
        "--max-budget-usd",
        "1.50",
        "--max-turns",
        "7",
        "--system-prompt-file",
        "/sandbox/p.md",
        "--system-prompt-snapshot",
        "off",
        "--tools",
        "Read",
        "--settings",
        '{"env":{"A":"1"}}',
        "--no-session-persistence",
        "--effort",
        "low",
        "--debug",
        "--debug-file=/sandbox/.claude/logs/new.log",
        "--verbose",
        "--output-format",
        "stream-json",
        "--json-schema",
        '{"type":"object"}',
    ]


@pytest.mark.parametrize("output", ["json", "text"])
def test_c15_verbose_only_with_stream_json(output: Any) -> None:
    line = Invocation("worker", "inv", output_format=output).argv("c")
    assert "--verbose" not in line
    assert line[line.index("--output-format") + 1] == output


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"session_id": "new", "fork_from": "old"}, "new"),
        ({"session_id": "old", "resume": True}, "old"),
        ({"session_id": "new"}, "new"),
        ({}, "inv"),
    ],
)
def test_c15_debug_file_is_named_by_fork_then_resumed_then_new(fields: dict[str, Any], expected: str) -> None:
    line = Invocation("worker", "inv", debug=True, debug_dir="/d", **fields).argv("c")
    assert f"--debug-file=/d/{expected}.log" in line
    assert not any("debug" in word for word in Invocation("worker", "inv", **fields).argv("c"))


def test_resume_and_new_sessions() -> None:
    assert Invocation("w", "i", session_id="s").argv("c")[4:6] == ["--session-id", "s"]
    assert Invocation("w", "i", session_id="s", resume=True).argv("c")[4:6] == ["--resume", "s"]
    assert "--session-id" not in Invocation("w", "i").argv("c")


def test_no_prompt_among_the_arguments() -> None:
    assert "--" not in of("worker").argv("c")


@pytest.mark.parametrize("caller", sorted(CALLERS))
def test_every_caller_has_a_line_of_its_own(caller: str) -> None:
    line = of(caller).argv("c")
    assert line[:3] == ["c", "-p", "--dangerously-skip-permissions"]
    assert "--strict-mcp-config" in line
    # Every variadic flag is followed by another flag, so it cannot swallow anything.
    assert line[-2] in ("--output-format", "--json-schema")


def test_table_of_callers() -> None:
    """Spec 3.2, row by row: output, caps, schema, tools, timeout."""
    table = {
        name: (row.output_format, row.max_turns, row.max_budget_usd, row.schema, row.tools, row.timeout_s)
        for name, row in CALLERS.items()
    }
    assert table == {
        "worker": ("stream-json", None, None, "reply", None, 600),
        "bootstrap_question": ("json", 1, None, "bootstrap", (), 120),
        "cron": ("stream-json", None, None, "cron", None, 1800),
        "background": ("stream-json", None, None, "background", None, None),
        "delivery": ("json", None, None, "reply", None, 120),
        "reflection": ("stream-json", 3, 0.20, "reply", None, 90),
        "reflection_cron": ("stream-json", 5, 0.40, "cron", None, 180),
        "repair": ("stream-json", 3, 0.20, "reply", None, 90),
        "prefilter": ("json", 1, None, "prefilter", (), 30),
        "probe_writer": ("stream-json", 16, None, None, ("Write", "Read", "Bash"), 300),
        "curator_apply": ("stream-json", 9999, None, None, ("Read", "Bash"), 900),
        "curator_report": ("stream-json", None, None, "curator_plan", ("Read",), 900),
        "compaction": ("json", None, None, None, (), 120),
        "health_probe": ("text", 1, None, None, None, 60),
    }


def test_sessions_of_callers() -> None:
    use = {name: row.session for name, row in CALLERS.items()}
    assert {name for name, how in use.items() if how == "fork"} == {"background", "probe_writer"}
    assert use["worker"] == "resume_or_new"
    assert use["delivery"] == "resume_or_none"
    line = of("bootstrap_question").argv("c")
    assert "--no-session-persistence" in line
    assert line[line.index("--tools") + 1] == ""


def test_deny_lists() -> None:
    assert denied_tools("worker") == BASE_DENIES
    assert "Agent" not in denied_tools("worker")
    for caller in ("delivery", "reflection", "repair", "reflection_cron", "curator_report"):
        assert set(denied_tools(caller)) >= set(BASE_DENIES) | set(NON_FOREGROUND_DENIES)
    assert set(denied_tools("cron", learning=True)) & LEARNING == set()
    assert set(denied_tools("cron", learning=False)) >= LEARNING
    assert set(denied_tools("probe_writer", learning=False)) & LEARNING == set()
    assert set(denied_tools("curator_apply")) & LEARNING == set()
    assert "mcp__right__channel_post" in denied_tools("delivery")
    assert "Agent" not in denied_tools("delivery")
    for caller in ("reflection", "reflection_cron", "repair"):
        assert {"Agent", "mcp__right__channel_post"} <= set(denied_tools(caller))
    assert denied_tools("prefilter") == ()


def test_cron_runs_switch_the_clis_own_background_off() -> None:
    line = of("cron").argv("c")
    settings = json.loads(line[line.index("--settings") + 1])
    assert settings == {"env": {"CLAUDE_CODE_DISABLE_BACKGROUND_TASKS": "1"}}


def test_fields_go_over_the_table() -> None:
    made = of("cron", max_budget_usd=5.0, model="opus", timeout_s=10)
    assert (made.max_budget_usd, made.model, made.timeout_s) == (5.0, "opus", 10)
    assert made.schema == schema_for("cron")


@pytest.mark.parametrize(
    ("caller", "fields"),
    [
        ("worker", {}),
        ("cron", {"session_id": "s", "resume": True}),
        ("background", {"session_id": "s"}),
        ("background", {"fork_from": "old"}),
        ("prefilter", {"session_id": "s"}),
        ("reflection", {"session_id": "s"}),
        ("delivery", {"session_id": "s"}),
        ("prefilter", {"mcp_config": "/m.json"}),
        ("nobody", {}),
    ],
)
def test_a_caller_cannot_use_another_ones_session(caller: str, fields: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        Invocation.of(caller, invocation_id="i", **fields)


@pytest.mark.parametrize(
    "fields",
    [
        {"resume": True},
        {"session_id": "s", "resume": True, "fork_from": "o"},
        {"max_budget_usd": 0.0},
        {"max_budget_usd": float("nan")},
        {"max_turns": 0},
    ],
)
def test_impossible_calls_are_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        Invocation("worker", "i", **fields)


def test_a_tiny_budget_is_not_rounded_to_nothing() -> None:
    """The CLI refuses a budget of 0.00."""
    line = Invocation("worker", "i", max_budget_usd=0.001).argv("c")
    assert line[line.index("--max-budget-usd") + 1] == "0.01"


def test_equal_calls_have_equal_bytes() -> None:
    assert of("worker").argv("c") == of("worker").argv("c")


def test_the_environment_is_made_from_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-ant-mine")
    env = claude_env(
        base_url="http://127.0.0.1:1",
        bearer="placeholder",
        config_dir="/sandbox/.claude",
        home="/sandbox",
        path="/usr/bin",
        invocation_id="inv",
        extra={"TZ": "UTC"},
    )
    assert "sk-ant-mine" not in env.values()
    assert env["ANTHROPIC_AUTH_TOKEN"] == "placeholder"
    assert env["ANTHROPIC_CUSTOM_HEADERS"] == "X-Right-Invocation: inv"
    assert env["TZ"] == "UTC"
    assert "IS_SANDBOX" not in env
    assert "ANTHROPIC_API_KEY" not in env


@pytest.mark.parametrize(
    ("kind", "name"), [("api_key", "ANTHROPIC_API_KEY"), ("oauth", "CLAUDE_CODE_OAUTH_TOKEN")]
)
def test_the_environment_without_a_gateway(kind: Any, name: str) -> None:
    env = claude_env(
        base_url=None,
        bearer="real",
        bearer_kind=kind,
        config_dir="/c",
        home="/h",
        path="/p",
        invocation_id="i",
        root=True,
    )
    assert env[name] == "real"
    assert env["IS_SANDBOX"] == "1"
    assert "ANTHROPIC_BASE_URL" not in env


def test_no_other_place_builds_an_argv() -> None:
    """One builder for every call; a word of its command line stands nowhere else."""
    root = Path(rightlab.__file__).parent
    own = {root / "claude" / "invocation.py"}
    flags = re.compile(
        r"^(-p|--print|--dangerously-skip-permissions|--system-prompt(-file|-snapshot)?|--json-schema"
        r"|--strict-mcp-config|--mcp-config|--disallowedTools|--allowedTools|--fork-session|--max-turns"
        r"|--max-budget-usd)$"
    )
    found = []
    for path in root.rglob("*.py"):
        if path in own:
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and flags.match(node.value):
                found.append(f"{path.relative_to(root)}:{node.lineno}: {node.value}")
    assert found == []
