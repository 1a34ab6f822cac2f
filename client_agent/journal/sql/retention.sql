-- What may be forgotten: nothing unfinished, nothing undelivered.

-- name: oldest_prunable
-- Finished calls whose details are still here and about which nothing is left to be sent, oldest first.
SELECT workspace, tool_id, approval_id
  FROM calls
 WHERE finished_at IS NOT NULL AND params IS NOT NULL AND finished_at < :before
   AND NOT EXISTS (
       SELECT 1 FROM posts
        WHERE posts.workspace = calls.workspace AND posts.kind IN ('result', 'approve', 'reject')
          AND posts.target IN (calls.tool_id, calls.approval_id) AND posts.state IN ('waiting', 'dead'))
 ORDER BY finished_at
 LIMIT :limit;

-- name: delete_posts_of_call
-- What was sent for a call, and acknowledged or given up.
DELETE FROM posts
 WHERE workspace = :workspace
   AND kind IN ('result', 'approve', 'reject') AND target IN (:tool_id, :approval_id)
   AND state IN ('delivered', 'dropped');

-- name: delete_call_without_effects
-- A call that changed nothing may run again, so it need not be known.
DELETE FROM calls WHERE workspace = :workspace AND tool_id = :tool_id AND effects = 0;

-- name: strip_call_with_effects
-- A call that may have changed something stays known by its id, so that it is never run twice.
UPDATE calls SET params = NULL, reasons = NULL
 WHERE workspace = :workspace AND tool_id = :tool_id AND effects = 1;

-- name: delete_settled_refusals
-- Answers to events that never became a call.
DELETE FROM posts
 WHERE kind = 'refusal' AND state IN ('delivered', 'dropped') AND created_at < :before;

-- name: used_bytes
-- How much of the file is in use.
SELECT (pages.page_count - free.freelist_count) * size.page_size
  FROM pragma_page_count AS pages, pragma_freelist_count AS free, pragma_page_size AS size;

-- name: give_back
-- Return some free pages to the file system.
PRAGMA incremental_vacuum (1000);
