"""The ledger: one row per invocation (spec agent-runtime 3.4)."""

__all__ = ["NAME", "NUMBER", "STATEMENTS"]

NUMBER = 4
NAME = "usage"

STATEMENTS: tuple[str, ...] = (
    # total_cost_usd is NULL when unknown, never 0; cache_creation_tokens = 5m + 1h where the split is known.
    """
    CREATE TABLE IF NOT EXISTS usage_events (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        ts TEXT NOT NULL,
        source TEXT NOT NULL,
        chat_id INTEGER,
        thread_id INTEGER,
        job_name TEXT,
        session_uuid TEXT,
        total_cost_usd REAL,
        num_turns INTEGER NOT NULL DEFAULT 0,
        input_tokens INTEGER NOT NULL DEFAULT 0,
        output_tokens INTEGER NOT NULL DEFAULT 0,
        cache_creation_tokens INTEGER NOT NULL DEFAULT 0,
        cache_read_tokens INTEGER NOT NULL DEFAULT 0,
        web_search_requests INTEGER NOT NULL DEFAULT 0,
        web_fetch_requests INTEGER NOT NULL DEFAULT 0,
        model_usage_json TEXT,
        api_key_source TEXT,
        wall_elapsed_ms INTEGER,
        cache_write_5m_tokens INTEGER,
        cache_write_1h_tokens INTEGER,
        model TEXT,
        cli_cost_usd REAL,
        table_cost_usd REAL,
        cost_basis TEXT CHECK (cost_basis IN ('cli', 'table')),
        price_version TEXT,
        turn_id TEXT,
        run_id TEXT,
        invocation_id TEXT,
        result_uuid TEXT,
        ttft_ms INTEGER,
        api_ms INTEGER,
        is_error INTEGER NOT NULL DEFAULT 0,
        failure TEXT,
        scripted INTEGER NOT NULL DEFAULT 0,
        skills_json TEXT,
        prompt_sha256 TEXT
    )
    """,
    "CREATE INDEX IF NOT EXISTS usage_by_time ON usage_events (ts)",
    "CREATE INDEX IF NOT EXISTS usage_by_source ON usage_events (source, ts)",
    "CREATE INDEX IF NOT EXISTS usage_by_scope ON usage_events (chat_id, thread_id, ts)",
    "CREATE INDEX IF NOT EXISTS usage_by_turn ON usage_events (turn_id) WHERE turn_id IS NOT NULL",
    """
    CREATE UNIQUE INDEX IF NOT EXISTS usage_by_result ON usage_events (result_uuid)
        WHERE result_uuid IS NOT NULL
    """,
)
