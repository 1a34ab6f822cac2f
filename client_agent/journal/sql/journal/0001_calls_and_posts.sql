-- Calls, what is still to be said to the server, and how far the event stream was handled.

PRAGMA application_id = 0x436C416A;

CREATE TABLE calls (
    sequence INTEGER PRIMARY KEY,  -- in the order of arrival
    workspace TEXT NOT NULL,
    tool_id TEXT NOT NULL,
    fingerprint TEXT NOT NULL,     -- of tool and parameters: another one under the same id is a conflict
    tool_name TEXT NOT NULL,
    session_id TEXT,
    approval_id TEXT,
    user_id TEXT,
    effects INTEGER NOT NULL CHECK (effects IN (0, 1)),
    state TEXT NOT NULL CHECK (state IN (
        'PENDING', 'AWAITING_APPROVAL', 'APPROVED', 'EXECUTING', 'COMPLETED', 'FAILED', 'REJECTED', 'TIMEOUT')),
    risk TEXT,
    verdict TEXT,
    decision_code TEXT,
    rule_id TEXT,
    grant_id TEXT,
    approver TEXT,
    failure_code TEXT,
    created_at REAL NOT NULL,      -- seconds since 1970, UTC, as every time here
    decided_at REAL,
    started_at REAL,
    finished_at REAL,
    reasons TEXT,                  -- JSON
    params TEXT,                   -- JSON, masked; empty once the details were pruned
    request BLOB,                  -- the call itself, only until it starts: so that it can be asked again
    UNIQUE (workspace, tool_id)
);

CREATE INDEX calls_unfinished ON calls (workspace, sequence) WHERE finished_at IS NULL;
CREATE INDEX calls_prunable ON calls (finished_at) WHERE finished_at IS NOT NULL AND params IS NOT NULL;

CREATE TABLE posts (
    sequence INTEGER PRIMARY KEY,
    workspace TEXT NOT NULL,
    kind TEXT NOT NULL CHECK (kind IN ('result', 'refusal', 'approve', 'reject')),
    target TEXT NOT NULL,          -- the tool_id, or the approval_id of an answer
    state TEXT NOT NULL CHECK (state IN ('waiting', 'delivered', 'dead', 'dropped')),
    created_at REAL NOT NULL,
    due_at REAL NOT NULL,
    attempts INTEGER NOT NULL,
    problem TEXT,
    delivered_at REAL,
    body BLOB,                     -- as it is sent
    UNIQUE (workspace, kind, target)
);

CREATE INDEX posts_waiting ON posts (workspace, sequence) WHERE state = 'waiting';
CREATE INDEX posts_refusals ON posts (created_at) WHERE kind = 'refusal';

CREATE TABLE positions (
    workspace TEXT PRIMARY KEY,
    event_id TEXT NOT NULL         -- the last one whose consequences are in this file
) WITHOUT ROWID;

CREATE TABLE marks (
    name TEXT PRIMARY KEY,
    value TEXT NOT NULL
) WITHOUT ROWID;

PRAGMA user_version = 1;
