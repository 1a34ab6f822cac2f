-- What writes replaced, so that they can be taken back.

PRAGMA application_id = 0x436C4177;

CREATE TABLE writes (
    sequence INTEGER PRIMARY KEY,
    workspace TEXT NOT NULL,
    id TEXT NOT NULL,              -- the call's tool_id, or an undo's own
    root TEXT NOT NULL,            -- the real path of the workspace then
    path TEXT NOT NULL,            -- the real path below it
    existed INTEGER NOT NULL CHECK (existed IN (0, 1)),
    before TEXT,                   -- SHA-256 of the old content; none where there was no file, or too large a one
    after TEXT,                    -- SHA-256 of the new content; none where the file was removed
    mode INTEGER,                  -- permissions of the old file
    made TEXT NOT NULL,            -- directories made for it, JSON, the outermost first
    at REAL NOT NULL,              -- seconds since 1970, UTC
    undoes TEXT,                   -- the write that this one takes back
    UNIQUE (workspace, id)
);

CREATE INDEX writes_before ON writes (before) WHERE before IS NOT NULL;
CREATE INDEX writes_path ON writes (workspace, path);
CREATE INDEX writes_undoes ON writes (workspace, undoes) WHERE undoes IS NOT NULL;

CREATE TABLE contents (
    hash TEXT PRIMARY KEY,         -- the name of the file that holds it
    size INTEGER NOT NULL
) WITHOUT ROWID;

PRAGMA user_version = 1;
