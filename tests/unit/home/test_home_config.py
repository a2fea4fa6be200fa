"""agent.yaml: the contract's keys and defaults, one-line faults, sources of credentials, careful edits."""

import contextlib
import json
import re
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rightlab.errors import ConfigError
from rightlab.home import Home, load_config, parse_config, update_config
from rightlab.home.template import AGENT_YAML
from rightlab.home.yaml_files import parse

FILE = Path("agent.yaml")


def fault(text: str) -> str:
    with pytest.raises(ConfigError) as caught:
        parse_config(text, FILE)
    line = str(caught.value)
    assert "\n" not in line
    assert caught.value.exit_code == 2
    assert caught.value.__cause__ is None
    return line


def test_defaults_of_the_contract() -> None:
    config = parse_config("", FILE)
    assert config.model == "sonnet"
    assert config.gateway.upstream == "https://api.anthropic.com"
    assert config.gateway.credential.store is True
    assert (config.claude.warm, config.claude.max_processes) == ("auto", "auto")
    assert config.telegram.api_base == "https://api.telegram.org"
    assert (config.sandbox.mode, config.network_policy, config.timezone) == ("auto", "permissive", "UTC")
    assert (config.restart, config.max_restarts, config.backoff_seconds) == ("always", 3, 3)
    assert (config.memory.provider, config.memory.recall_budget, config.memory.recall_max_tokens) == (
        "file",
        "mid",
        4096,
    )
    assert (config.attachments.retention_days, config.stt.enabled, config.stt.model) == (7, False, "small")
    learning = config.learning
    assert learning.prefilter_model == "claude-haiku-4-5-20251001"
    assert (learning.curator_interval_hours, learning.min_idle_hours, learning.min_cooldown_hours) == (
        168,
        2,
        12,
    )
    assert (learning.stale_after_days, learning.archive_after_days) == (30, 90)
    assert (learning.cost_spike_k, learning.cost_spike_baseline_days, learning.cost_spike_floor_usd) == (
        3.0,
        14,
        0.05,
    )
    assert (learning.curator_circuit_failure_threshold, learning.curator_circuit_cooldown_hours) == (3, 24)
    assert (learning.baseline_window_days, learning.baseline_min_sample) == (14, 20)
    assert (learning.curator_mode, learning.max_daily_budget_usd) == ("apply", 1.0)


def test_the_contracts_own_example_is_taken() -> None:
    config = parse_config(
        """
model: sonnet
debug: false
gateway: {upstream: "http://127.0.0.1:8080", credential: {env: MY_KEY}}
claude: {warm: auto, max_processes: 3}
telegram: {token: "123:abc", api_base: "http://127.0.0.1:9/"}
sandbox: {mode: landlock}
network_policy: restrictive
memory: {provider: hindsight, bank_id: b}
learning: {prefilter_enabled: true, curator_mode: report_only, max_daily_budget_usd: 1}
cron: {executor: dask}
show_thinking: false
timezone: America/New_York
env: {FOO: "bar"}
""",
        FILE,
    )
    assert config.claude.max_processes == 3
    assert config.telegram.api_base == "http://127.0.0.1:9"
    assert config.env == {"FOO": "bar"}


def test_the_template_has_the_contracts_order_and_only_known_keys() -> None:
    parse_config(AGENT_YAML, FILE)
    order = re.findall(r"^([a-z_]+):", AGENT_YAML, re.MULTILINE)
    assert order[:12] == [
        *("model", "debug", "gateway", "claude", "telegram", "sandbox", "network_policy", "memory"),
        *("learning", "cron", "show_thinking", "timezone"),
    ]


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("debug: true\nmodl: x\n", "agent.yaml, line 2: unknown key modl. Did you mean model?"),
        (
            "telegram:\n  tokn: x\n",
            "agent.yaml, line 2: unknown key telegram.tokn. Did you mean telegram.token?",
        ),
        ("curator_mode: apply\n", "line 1: unknown key curator_mode. Did you mean learning.curator_mode?"),
        ("zzzzqqq: 1\n", "unknown key zzzzqqq"),
        ("gateway:\n  credential: {stor: true}\n", "Did you mean gateway.credential.store?"),
        ("debug: 'yes'\n", "debug must be true or false, not text"),
        ("debug: yes\n", "debug must be true or false, not text"),
        ("telegram: {token: 5}\n", "telegram.token must be text (in quotes), not a number"),
        ("max_restarts: 1.5\n", "max_restarts must be a whole number, not a number with a fraction"),
        ("max_restarts: true\n", "max_restarts must be a whole number, not true or false"),
        ("backoff_seconds:\n", "backoff_seconds must be a number, not nothing"),
        ("learning: 5\n", "learning must be a block of keys, not a number"),
        ("learning: []\n", "learning must be a block of keys, not a list"),
        ("env: [A]\n", "env must be a block of keys, not a list"),
        ("env: {A: 5}\n", "env.A must be text (in quotes), not a number"),
        ("env: {'a b': c}\n", "not the name of an environment variable"),
        ("sandbox: {mode: bwrp}\n", "sandbox.mode must be one of auto, bwrap, landlock, openshell or none"),
        ("network_policy: open\n", "network_policy must be one of permissive or restrictive"),
        ("claude: {max_processes: 0}\n", "claude.max_processes must be auto or a whole number of at least 1"),
        ("claude: {warm: maybe}\n", "claude.warm must be auto, true or false"),
        ("max_restarts: -1\n", "max_restarts must be at least 0"),
        ("learning: {cost_spike_k: 0}\n", "learning.cost_spike_k must be more than 0"),
        ("gateway: {credential: {}}\n", "exactly one of {store: true}, {env: NAME}, {file: PATH}"),
        ("gateway: {credential: {store: true, env: A}}\n", "exactly one of"),
        ("gateway: {credential: {store: false}}\n", "gateway.credential.store must be true"),
        ("telegram: {token: a, token_file: b}\n", "only one of token, token_file may be set"),
        ("telegram: {api_base: 'https://x/bot'}\n", 'without "/bot"'),
        ("timezone: Mars/Olympus\n", "timezone: not a known time zone"),
        ("timezone: ../../etc/passwd\n", "timezone: not a known time zone"),
        ("model: '-p'\n", "model: not a model name or alias"),
        ("model: ''\n", "model: not a model name or alias"),
        ("env: {ANTHROPIC_API_KEY: x}\n", "ANTHROPIC_API_KEY is not for agent.yaml: the model is reached"),
        ("- a\n", "keys with values are expected"),
        ("just text\n", "keys with values are expected"),
        ("a: [\n", "not readable as YAML"),
        ("model: a\nmodel: b\n", "line 2: a key stands here twice"),
        ("model: a\n\tdebug: true\n", "not readable as YAML"),
        ("modl: 1\ndebg: 2\n", "unknown key modl"),
        ("modl: 1\ndebg: 2\n", "(and 1 more fault)"),
    ],
)
def test_each_fault_is_one_line(text: str, line: str) -> None:
    assert line in fault(text)


@pytest.mark.parametrize(
    "name",
    [
        *("ANTHROPIC_BASE_URL", "ANTHROPIC_CUSTOM_HEADERS", "CLAUDE_CODE_USE_BEDROCK", "anthropic_model"),
        *("CLAUDE_CONFIG_DIR", "HOME", "IS_SANDBOX", "LD_PRELOAD", "LD_LIBRARY_PATH"),
        *("HTTP_PROXY", "https_proxy", "ALL_PROXY", "all_proxy", "No_Proxy", "NO_PROXY"),
    ],
)
def test_variables_that_are_rightlabs_own_are_refused_by_name(name: str) -> None:
    line = fault(f"model: sonnet\nenv: {{{name}: hidden-value}}\n")
    assert name in line
    assert "hidden-value" not in line
    assert "\n" not in line


def test_other_variables_are_the_persons_own() -> None:
    env = {"GREETING": "hi", "HOMEPAGE": "x", "MY_HTTP_PROXY": "y", "CLAUDE_NAME": "z", "OLD_HOME": "w"}
    assert parse_config("env: " + json.dumps(env) + "\n", FILE).env == env


@pytest.mark.parametrize(
    ("key", "pointer"),
    [
        ("telegram_token", "rightlab init AGENT --telegram-token"),
        ("secret", "secrets.json"),
        ("allowed_chat_ids", "rightlab agent allow AGENT ID"),
    ],
)
def test_moved_keys_point_to_where_they_live_now(key: str, pointer: str) -> None:
    line = fault(f"model: sonnet\n{key}: 123abc\n")
    assert pointer in line
    assert "line 2" in line
    assert "123abc" not in line


def test_deprecated_learning_keys_are_accepted_with_a_warning() -> None:
    config = parse_config(
        "learning:\n  fork_probe_enabled: true\n  circuit_cooldown_minutes: x\n  curator_paused: true\n",
        FILE,
    )
    assert config.learning.curator_paused
    assert [warning.split(": ", 1)[0] for warning in config.warnings] == [
        "agent.yaml, line 2",
        "agent.yaml, line 3",
    ]
    assert "learning.fork_probe_enabled" in config.warnings[0]


@pytest.mark.parametrize(
    "upstream",
    [
        *("https://api.anthropic.com", "http://127.0.0.1:8080", "http://localhost:1", "http://[::1]:80"),
        *("scripted:builtin", "scripted:my file.yaml", "replay:recordings", "direct"),
    ],
)
def test_upstreams_that_are_taken(upstream: str) -> None:
    assert parse_config(f'gateway: {{upstream: "{upstream}"}}', FILE).gateway.upstream == upstream


@pytest.mark.parametrize(
    "upstream",
    [
        *(
            "http://api.anthropic.com",
            "http://10.0.0.1",
            "http://127.0.0.1.evil.example",
            "ftp://x",
            "https://",
        ),
        *("https://user:hunter2@x", "https://x?key=hunter2", "scripted:", "replay:", "x", "https://x:99999"),
    ],
)
def test_upstreams_that_are_not(upstream: str) -> None:
    line = fault(f'gateway: {{upstream: "{upstream}"}}')
    assert "gateway.upstream" in line
    assert "hunter2" not in line


def test_values_of_secrets_show_nowhere() -> None:
    config = parse_config(
        "telegram: {token: 'hunter2'}\nmemory: {api_key: hunter2}\nenv: {TOKEN: hunter2}\n", FILE
    )
    assert "hunter2" not in f"{config!r} {config}"
    assert config.telegram_token(None, Path()) == "hunter2"  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "text",
    [
        "telegram: {token: hunter2, token_env: A}",
        "telegram: {token: [hunter2]}",
        "telegram: hunter2",
        "telegram: {token: hunter2\n",
        "telegram: {token: *hunter2}",
        "telegram: {token: !hunter2 x}",
        "telegram: {token: a}\ntelegram: {token: hunter2}",
        "telegram: {token: 'hunter2}",
        "memory: {api_key: {hunter2: 1}}",
        "env: {A: {B: hunter2}}",
        "hunter2",
    ],
)
def test_a_secret_in_a_broken_file_is_not_told(text: str) -> None:
    assert "hunter2" not in fault(text)


@given(st.text(max_size=60) | st.binary(max_size=60))
def test_any_bytes_give_a_config_or_one_fault(text: str | bytes) -> None:
    with contextlib.suppress(ConfigError):
        parse_config(text, FILE)


def test_a_missing_file_names_the_fix(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"missing.*rightlab init"):
        load_config(tmp_path / "agent.yaml")


# --- sources of credentials -----------------------------------------------------------------------


def test_sources_of_the_bots_token(tmp_path: Path) -> None:
    agent = Home(tmp_path / "home").create_agent("alice", telegram_token="1:stored")
    assert agent.telegram_token({}) == "1:stored"
    update_config(agent.config_path, {"telegram.token_env": "BOT"})
    assert agent.telegram_token({"BOT": " 1:env\n"}) == "1:env"
    with pytest.raises(ConfigError, match=r"telegram\.token_env names the variable BOT, which is not set"):
        agent.telegram_token({})
    (tmp_path / "token").write_text("1:file\n")
    config = parse_config(f"telegram: {{token_file: '{tmp_path / 'token'}'}}", FILE)
    assert config.telegram_token(agent.secrets(), agent.root) == "1:file"
    for content in ("", " \n"):
        (tmp_path / "token").write_text(content)
        with pytest.raises(ConfigError, match="empty"):
            config.telegram_token(agent.secrets(), agent.root)
    (tmp_path / "token").unlink()
    with pytest.raises(ConfigError, match="cannot be read"):
        config.telegram_token(agent.secrets(), agent.root)


def test_sources_of_the_models_credential(tmp_path: Path) -> None:
    agent = Home(tmp_path / "home").create_agent("alice")
    assert agent.model_credential({}) is None
    agent.secrets().set("claude_credential", "sk-1")
    assert agent.model_credential({"ANTHROPIC_API_KEY": "not asked for"}) == "sk-1"
    config = parse_config("gateway: {credential: {env: KEY}}", FILE)
    assert config.model_credential(agent.secrets(), agent.root, {"KEY": "sk-2"}) == "sk-2"
    with pytest.raises(ConfigError, match="KEY, which is not set"):
        config.model_credential(agent.secrets(), agent.root, {})


def test_a_credential_file_the_guest_could_read_is_refused(tmp_path: Path) -> None:
    agent = Home(tmp_path / "home").create_agent("alice")
    (agent.guest_dir / "key").write_text("sk")
    (agent.root / "link").symlink_to(agent.guest_dir / "key")
    for name in ("sandbox/key", "link", "./sandbox/../sandbox/key"):
        config = parse_config(f"gateway: {{credential: {{file: {name}}}}}", FILE)
        with pytest.raises(ConfigError, match="the agent itself can read"):
            config.model_credential(agent.secrets(), agent.root)


# --- changes --------------------------------------------------------------------------------------


def test_update_keeps_comments_order_quotes_and_mode(tmp_path: Path) -> None:
    agent = Home(tmp_path / "home").create_agent("alice")
    before = agent.config_path.read_text().splitlines()
    config = update_config(
        agent.config_path, {"model": "opus", "learning.curator_mode": "report_only", "debug": True}
    )
    after = agent.config_path.read_text().splitlines()
    assert (config.model, config.debug, config.learning.curator_mode) == ("opus", True, "report_only")
    assert len(after) == len(before)
    changed = [new for old, new in zip(before, after, strict=True) if old != new]
    assert [line.split("#")[0].strip() for line in changed] == [
        "model: opus",
        "debug: true",
        "curator_mode: report_only",
    ]
    assert all("#" in line for line in changed)
    assert agent.config_path.stat().st_mode & 0o777 == 0o600


def test_update_of_a_persons_own_file(tmp_path: Path) -> None:
    path = tmp_path / "agent.yaml"
    path.write_text(
        '# mine\ntimezone: "UTC"   # here\n\n# block\nsandbox: {mode: auto}\nmodel: null\n# end\n'
    )
    update_config(
        path, {"sandbox.mode": "none", "gateway.credential.env": "KEY"} | {"gateway.credential.store": None}
    )
    assert path.read_text() == (
        '# mine\ntimezone: "UTC"   # here\n\n# block\nsandbox: {mode: none}\nmodel: null\n# end\n'
        "gateway:\n  credential:\n    env: KEY\n    store: null\n"
    )


def test_update_of_an_empty_or_comment_only_file(tmp_path: Path) -> None:
    path = tmp_path / "agent.yaml"
    path.write_text("# only this\n")
    update_config(path, {"model": "opus"})
    assert path.read_text() == "# only this\nmodel: opus\n"


@pytest.mark.parametrize("change", [{"modle": "x"}, {"sandbox.mode": "x"}, {"model.x": 1}, {"learning": 3}])
def test_a_change_that_breaks_the_file_is_not_made(tmp_path: Path, change: dict[str, object]) -> None:
    path = tmp_path / "agent.yaml"
    path.write_text("model: opus # keep\n")
    with pytest.raises(ConfigError):
        update_config(path, change)
    assert path.read_text() == "model: opus # keep\n"


def test_a_file_of_megabytes_is_refused_in_one_line() -> None:
    assert "takes 1,000,004 bytes, the most is 1,000,000" in fault("#" * 1_000_003 + "\n")


@pytest.mark.parametrize("merge", [False, True])
def test_aliases_that_multiply_are_refused_fast(merge: bool) -> None:
    lines = ["a0: &a0 {x: 1}"]
    for level in range(1, 12):
        many = ", ".join([f"*a{level - 1}"] * 9)
        lines.append(f"a{level}: &a{level} {{<<: [{many}]}}" if merge else f"a{level}: &a{level} [{many}]")
    began = time.monotonic()
    assert "comes to more than 100,000 values" in fault("\n".join(lines))
    assert time.monotonic() - began < 20


@pytest.mark.parametrize("key", ["? [a]\n", "? {a: 1}\n", "1", "true", "null", "2024-01-01", "!x y"])
def test_a_key_that_is_no_text_is_named_by_its_line(key: str) -> None:
    line = fault(f"env:\n  A: b\n{key}: v\n")
    assert "line 3: a key is no text" in line


def test_a_quoted_number_is_a_key_and_a_merge_is_none() -> None:
    values, lines = parse('base: &b {x: 1}\nc:\n  <<: *b\n  "1": y\n', FILE)
    assert values == {"base": {"x": 1}, "c": {"x": 1, "1": "y"}}
    assert lines["c", "1"] == 4


@pytest.mark.parametrize("value", ["hush\\0hush", "hush\\ud800"])
def test_the_environment_takes_no_value_it_cannot_hold(value: str) -> None:
    line = fault(f'env:\n  GOOD: "two\\nlines"\n  BAD: "{value}"\n')
    assert "BAD holds a character that no environment variable can hold" in line
    assert "hush" not in line
