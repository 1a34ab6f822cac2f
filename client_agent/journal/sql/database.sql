-- What every database file of ours needs, whatever it holds.

-- name: identify
-- Which program the file belongs to, its schema's version, and whether it holds anything at all.
SELECT application_id.application_id, user_version.user_version,
       EXISTS (SELECT 1 FROM sqlite_schema) AS has_content
  FROM pragma_application_id AS application_id, pragma_user_version AS user_version;

-- name: check
-- The first thing found wrong with the structure of the file, or 'ok'.
PRAGMA quick_check (1);

-- name: use_incremental_vacuum
-- Freed pages can be given back to the file system; must come before the first table.
PRAGMA auto_vacuum = INCREMENTAL;

-- name: use_wal
-- Readers never wait for the writer, and a commit is one append.
PRAGMA journal_mode = WAL;

-- name: limit_wal
-- The write-ahead file is cut back to this many bytes after a burst.
PRAGMA journal_size_limit = 8388608;

-- name: zero_what_is_deleted
-- Open questions hold their parameters unmasked: once overwritten they are not to be found in free pages.
PRAGMA secure_delete = ON;

-- name: keep_few_pages
-- At most so many KiB of the file in this process: the rest is in the kernel's memory, a copy away.
PRAGMA cache_size = -256;

-- name: sync_full
-- A commit returns when it would survive a loss of power.
PRAGMA synchronous = FULL;

-- name: sync_normal
-- A commit survives the end of this process, not a loss of power; it costs no wait for the disk.
PRAGMA synchronous = NORMAL;

-- name: begin
-- Take the write lock at once, so that nothing read in the transaction can be out of date.
BEGIN IMMEDIATE;

-- name: data_version
-- A number that changes when another connection has committed.
PRAGMA data_version;
