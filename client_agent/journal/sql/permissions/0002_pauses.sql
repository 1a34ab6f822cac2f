-- Workspaces in which nothing runs until the user says so.

CREATE TABLE pauses (
    workspace TEXT PRIMARY KEY,
    note TEXT NOT NULL,
    since REAL NOT NULL,
    until REAL          -- NULL: until it is resumed
);

PRAGMA user_version = 2;
