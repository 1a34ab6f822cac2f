-- What writes replaced, and for how long that is kept.

-- name: save_write
-- A write that is about to be made; one that is tried again takes the place of its first try.
INSERT INTO writes (workspace, id, root, path, existed, before, after, mode, made, at, undoes)
VALUES (:workspace, :id, :root, :path, :existed, :before, :after, :mode, :made, :at, :undoes)
ON CONFLICT (workspace, id) DO UPDATE SET
    root = excluded.root, path = excluded.path, existed = excluded.existed, before = excluded.before,
    after = excluded.after, mode = excluded.mode, made = excluded.made, at = excluded.at;

-- name: save_content
-- A content that is kept.
INSERT INTO contents (hash, size) VALUES (:hash, :size) ON CONFLICT (hash) DO NOTHING;

-- name: forget_write
-- A write that was not made after all.
DELETE FROM writes WHERE workspace = :workspace AND id = :id;

-- name: find_writes
-- The writes of this id, or whose id starts so, newest first.
SELECT * FROM writes
 WHERE (id = :id OR substr(id, 1, length(:id)) = :id) AND (:workspace IS NULL OR workspace = :workspace)
 ORDER BY sequence DESC LIMIT :limit;

-- name: recent_writes
-- The newest first, of one workspace or of all.
SELECT * FROM writes
 WHERE :workspace IS NULL OR workspace = :workspace
 ORDER BY sequence DESC LIMIT :limit;

-- name: undos
-- Which write was taken back by which, oldest first.
SELECT workspace, id, undoes FROM writes WHERE undoes IS NOT NULL ORDER BY sequence;

-- name: later_write
-- The newest write to the same file, if there is one after this.
SELECT later.id FROM writes AS later, writes AS this
 WHERE this.workspace = :workspace AND this.id = :id
   AND later.workspace = this.workspace AND later.path = this.path AND later.sequence > this.sequence
 ORDER BY later.sequence DESC LIMIT 1;

-- name: kept_bytes
-- How much is kept.
SELECT coalesce(sum(size), 0) FROM contents;

-- name: forget_older
-- Writes before a given time.
DELETE FROM writes WHERE at < :before;

-- name: forget_oldest
-- The oldest write whose content is kept.
DELETE FROM writes WHERE sequence = (SELECT min(sequence) FROM writes WHERE before IS NOT NULL);

-- name: drop_contents
-- Contents that no write needs any more.
DELETE FROM contents WHERE hash NOT IN (SELECT before FROM writes WHERE before IS NOT NULL) RETURNING hash;

-- name: list_contents
-- All that are kept.
SELECT hash FROM contents;
