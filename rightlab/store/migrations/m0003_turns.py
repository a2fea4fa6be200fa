"""Turns (design 4) and the notice token (spec agent-runtime 1.11, 10)."""

NUMBER = 3
NAME = "turns"

# status: running -> replied (stored, not yet confirmed) -> delivered | partial | failed | lost
STATEMENTS: tuple[str, ...] = (
    """
    CREATE TABLE IF NOT EXISTS turns (
        id INTEGER PRIMARY KEY,
        turn_id TEXT NOT NULL UNIQUE,
        channel TEXT NOT NULL,
        chat_id INTEGER NOT NULL,
        thread_id INTEGER NOT NULL DEFAULT 0,
        session_id TEXT,
        opened_session INTEGER NOT NULL DEFAULT 0,
        invocation_id TEXT,
        status TEXT NOT NULL CHECK (status IN ('running', 'replied', 'delivered', 'partial', 'failed', 'lost')),
        attempt INTEGER NOT NULL DEFAULT 1,
        messages_json TEXT NOT NULL,
        first_tool_at TEXT,
        reply_json TEXT,
        outbox_id INTEGER,
        error_kind TEXT,
        error TEXT,
        model TEXT,
        num_turns INTEGER,
        cost_usd REAL,
        usage_json TEXT,
        elapsed_ms INTEGER,
        prompt_sha256 TEXT,
        prompt_bytes INTEGER,
        sections_json TEXT,
        started_at TEXT NOT NULL,
        finished_at TEXT
    )
    """,
    "CREATE INDEX IF NOT EXISTS turns_by_status ON turns (status)",
    "CREATE INDEX IF NOT EXISTS turns_by_scope ON turns (chat_id, thread_id, started_at)",
    """
    CREATE TABLE IF NOT EXISTS notice_token (
        id INTEGER PRIMARY KEY CHECK (id = 1),
        token TEXT NOT NULL
    )
    """,
)
