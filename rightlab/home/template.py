"""The first ``agent.yaml`` and ``allowlist.yaml`` of an agent, with what a person needs to know beside each
key."""

__all__ = ["AGENT_YAML", "ALLOWLIST_YAML", "BOOTSTRAP_MD"]

AGENT_YAML = """\
# What this agent runs on. Changes of model and debug are taken up at once, the rest at a restart.
# Credentials are kept in secrets.json, the people it listens to in allowlist.yaml.

model: sonnet                     # a model name or an alias of the Claude Code CLI
debug: false                      # true: more detail in the logs

gateway:
  # Where model requests go: an https:// URL, http://127.0.0.1:PORT, "scripted:FILE", "replay:DIR",
  # or "direct" (the CLI talks to its API alone; nothing is recorded then).
  upstream: https://api.anthropic.com
  # Exactly one of {store: true} (secrets.json), {env: NAME} or {file: PATH}.
  credential: {store: true}

claude:
  warm: auto                      # keep a process ready between turns
  max_processes: auto

telegram:
  # The bot's token is in secrets.json; token_file or token_env name another place.
  api_base: https://api.telegram.org

sandbox:
  mode: auto                      # auto | bwrap | landlock | openshell | none

# permissive: any public address; restrictive: the model's hosts only. Never this machine or its networks.
network_policy: permissive

memory:
  provider: file                  # file | hindsight

learning:                         # what it may teach itself after a turn, and what that may cost
  prefilter_enabled: true
  probe_writer_enabled: true
  curator_enabled: true
  curator_mode: apply             # apply | report_only
  max_daily_budget_usd: 1.00

cron:
  executor: local                 # local | dask

show_thinking: true               # show progress in the chat while it works
timezone: UTC                     # default zone of crons and reports

restart: on_failure               # never | on_failure | always
max_restarts: 5
backoff_seconds: 10

env: {}                           # variables of the agent's own processes; it can read them
attachments:
  retention_days: 7
stt:                              # speech to text of voice messages
  enabled: false
  model: small
"""

ALLOWLIST_YAML = """\
# Who may talk to this agent. Empty means nobody. `rightlab agent allow` and `deny` change it;
# changes by hand are taken up at once.
version: 2
users: []
groups: []
"""

BOOTSTRAP_MD = """\
This agent has not been introduced to its person yet. The file is removed once that is done;
`rightlab agent rebootstrap` brings it back.
"""
