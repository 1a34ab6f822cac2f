-- What the user allows: rules that last, and grants that end with a session.

PRAGMA application_id = 0x436C4170;

CREATE TABLE rules (
    sequence INTEGER PRIMARY KEY AUTOINCREMENT,  -- among equal priorities the newest comes first
    id TEXT NOT NULL UNIQUE,
    server_id TEXT,
    tool_name TEXT,
    tool_pattern TEXT,
    argument_pattern TEXT,
    auto_approve INTEGER NOT NULL CHECK (auto_approve IN (0, 1)),
    priority INTEGER NOT NULL,
    max_risk TEXT NOT NULL CHECK (max_risk IN ('LOW', 'MEDIUM', 'HIGH')),
    expires_at REAL,                             -- seconds since 1970, UTC, as every time here
    created_at REAL NOT NULL,
    updated_at REAL NOT NULL,
    note TEXT NOT NULL
);

CREATE TABLE grants (
    sequence INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL UNIQUE,
    workspace TEXT NOT NULL,
    session_id TEXT,
    kind TEXT NOT NULL CHECK (kind IN ('once', 'class', 'everything')),
    command_class TEXT,
    max_risk TEXT NOT NULL CHECK (max_risk IN ('LOW', 'MEDIUM', 'HIGH')),
    created_at REAL NOT NULL,
    expires_at REAL,
    revoked_at REAL
);

CREATE INDEX grants_standing ON grants (workspace) WHERE revoked_at IS NULL;

PRAGMA user_version = 1;
