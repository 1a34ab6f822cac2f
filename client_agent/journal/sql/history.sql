-- Looking back, for people.

-- name: calls_by_id
-- Every call of this id, or whose id starts so: a workspace each at most for a whole id.
SELECT * FROM calls WHERE tool_id = :tool_id OR substr(tool_id, 1, length(:tool_id)) = :tool_id
 ORDER BY sequence DESC LIMIT :limit;

-- name: recent_calls
-- The newest calls first, of one workspace or of all, older than a given one when paging.
SELECT * FROM calls
 WHERE (:workspace IS NULL OR workspace = :workspace) AND created_at < :before
 ORDER BY sequence DESC LIMIT :limit;

-- name: outline_calls
-- What was decided on every call, newest first.
SELECT created_at, state, verdict, approver FROM calls ORDER BY sequence DESC;

-- name: posts_not_delivered
-- What waits, and what the server will never take, oldest first.
SELECT workspace, kind, target, state, created_at, due_at, attempts, problem, delivered_at, body IS NOT NULL AS has_body
  FROM posts
 WHERE state IN ('waiting', 'dead') AND (:workspace IS NULL OR workspace = :workspace)
 ORDER BY sequence LIMIT :limit;
