"""What was said: inbox, archive with full-text index, sessions, outbox (spec agent-runtime 3.7, 7.5, 10)."""

__all__ = ["NAME", "NUMBER", "STATEMENTS"]

NUMBER = 2
NAME = "conversation"

STATEMENTS: tuple[str, ...] = (
    # Rows stay after their payload is gone: the update id is what a redelivery is recognised by.
    """
    CREATE TABLE IF NOT EXISTS inbox (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        channel TEXT NOT NULL,
        origin TEXT NOT NULL DEFAULT '',
        update_id INTEGER,
        chat_id INTEGER NOT NULL,
        thread_id INTEGER NOT NULL DEFAULT 0,
        state TEXT NOT NULL DEFAULT 'received'
            CHECK (state IN ('received', 'ignored', 'queued', 'turn', 'done')),
        reason TEXT,
        turn_id TEXT,
        payload TEXT,
        received_at TEXT NOT NULL,
        settled_at TEXT
    )
    """,
    """
    CREATE UNIQUE INDEX IF NOT EXISTS inbox_update ON inbox (channel, origin, update_id)
        WHERE update_id IS NOT NULL
    """,
    """
    CREATE INDEX IF NOT EXISTS inbox_open ON inbox (channel, id) WHERE state IN ('received', 'queued')
    """,
    "CREATE INDEX IF NOT EXISTS inbox_turn ON inbox (turn_id) WHERE turn_id IS NOT NULL",
    """
    CREATE TABLE IF NOT EXISTS conversation_messages (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        platform TEXT NOT NULL,
        chat_id INTEGER NOT NULL,
        thread_id INTEGER NOT NULL DEFAULT 0,
        message_id INTEGER,
        sender_user_id INTEGER,
        sender_name TEXT,
        addressed_to_bot INTEGER NOT NULL DEFAULT 0,
        routed_to_agent INTEGER NOT NULL DEFAULT 0,
        root_session_id TEXT,
        turn_id TEXT,
        role TEXT NOT NULL CHECK (role IN ('user', 'assistant')),
        content TEXT NOT NULL,
        created_at TEXT NOT NULL
    )
    """,
    """
    CREATE UNIQUE INDEX IF NOT EXISTS conversation_messages_message
        ON conversation_messages (platform, chat_id, message_id, role) WHERE message_id IS NOT NULL
    """,
    """
    CREATE INDEX IF NOT EXISTS conversation_messages_recent
        ON conversation_messages (chat_id, thread_id, created_at)
    """,
    """
    CREATE VIRTUAL TABLE IF NOT EXISTS conversation_fts
        USING fts5(content, content='conversation_messages', content_rowid='id', tokenize='unicode61')
    """,
    """
    CREATE TRIGGER IF NOT EXISTS conversation_fts_insert AFTER INSERT ON conversation_messages BEGIN
        INSERT INTO conversation_fts (rowid, content) VALUES (new.id, new.content);
    END
    """,
    """
    CREATE TRIGGER IF NOT EXISTS conversation_fts_delete AFTER DELETE ON conversation_messages BEGIN
        INSERT INTO conversation_fts (conversation_fts, rowid, content)
            VALUES ('delete', old.id, old.content);
    END
    """,
    """
    CREATE TRIGGER IF NOT EXISTS conversation_fts_update AFTER UPDATE OF content ON conversation_messages
    BEGIN
        INSERT INTO conversation_fts (conversation_fts, rowid, content)
            VALUES ('delete', old.id, old.content);
        INSERT INTO conversation_fts (rowid, content) VALUES (new.id, new.content);
    END
    """,
    """
    CREATE TABLE IF NOT EXISTS sessions (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        chat_id INTEGER NOT NULL,
        thread_id INTEGER NOT NULL DEFAULT 0,
        root_session_id TEXT NOT NULL UNIQUE,
        label TEXT CHECK (label IS NULL OR length(label) <= 60),
        is_active INTEGER NOT NULL DEFAULT 1,
        created_at TEXT NOT NULL,
        last_used_at TEXT NOT NULL
    )
    """,
    """
    CREATE UNIQUE INDEX IF NOT EXISTS sessions_active ON sessions (chat_id, thread_id) WHERE is_active = 1
    """,
    # not_before: the server's own wait, so that a restart obeys it too.
    """
    CREATE TABLE IF NOT EXISTS outbox (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        source TEXT NOT NULL,
        chat_id INTEGER NOT NULL,
        thread_id INTEGER NOT NULL DEFAULT 0,
        turn_id TEXT,
        run_id TEXT,
        reply_to INTEGER,
        content TEXT,
        state TEXT NOT NULL DEFAULT 'waiting'
            CHECK (state IN ('waiting', 'delivered', 'partial', 'uncertain', 'failed')),
        error TEXT,
        created_at TEXT NOT NULL,
        settled_at TEXT
    )
    """,
    "CREATE INDEX IF NOT EXISTS outbox_open ON outbox (id) WHERE state <> 'delivered'",
    "CREATE INDEX IF NOT EXISTS outbox_turn ON outbox (turn_id) WHERE turn_id IS NOT NULL",
    """
    CREATE TABLE IF NOT EXISTS outbox_parts (
        outbox_id INTEGER NOT NULL REFERENCES outbox (id) ON DELETE CASCADE,
        part INTEGER NOT NULL,
        kind TEXT NOT NULL,
        text TEXT NOT NULL,
        state TEXT NOT NULL DEFAULT 'pending'
            CHECK (state IN ('pending', 'sending', 'sent', 'uncertain', 'failed')),
        message_id INTEGER,
        error TEXT,
        attempts INTEGER NOT NULL DEFAULT 0,
        not_before TEXT,
        updated_at TEXT NOT NULL,
        PRIMARY KEY (outbox_id, part)
    ) WITHOUT ROWID
    """,
    "CREATE INDEX IF NOT EXISTS outbox_parts_open ON outbox_parts (outbox_id) WHERE state"
    " IN ('pending', 'sending')",
)
