-- The calls of a workspace, what waits to be sent for them, and the place in the event stream.

-- name: save_call
-- Put a call as it is now; what was masked once is not touched again. One that was amended is another from there on.
INSERT INTO calls (
    workspace, tool_id, fingerprint, tool_name, session_id, approval_id, user_id, effects, state,
    risk, verdict, decision_code, rule_id, grant_id, approver, failure_code,
    created_at, decided_at, started_at, finished_at, reasons, params, request)
VALUES (
    :workspace, :tool_id, :fingerprint, :tool_name, :session_id, :approval_id, :user_id, :effects, :state,
    :risk, :verdict, :decision_code, :rule_id, :grant_id, :approver, :failure_code,
    :created_at, :decided_at, :started_at, :finished_at, :reasons, :params, :request)
ON CONFLICT (workspace, tool_id) DO UPDATE SET
    fingerprint = excluded.fingerprint, tool_name = excluded.tool_name, session_id = excluded.session_id,
    user_id = excluded.user_id, effects = excluded.effects, approval_id = excluded.approval_id, state = excluded.state, risk = excluded.risk, verdict = excluded.verdict,
    decision_code = excluded.decision_code, rule_id = excluded.rule_id, grant_id = excluded.grant_id,
    approver = excluded.approver, failure_code = excluded.failure_code, decided_at = excluded.decided_at,
    started_at = excluded.started_at, finished_at = excluded.finished_at, reasons = excluded.reasons,
    params = coalesce(excluded.params, params), request = excluded.request;

-- name: find_call
-- One call by its key.
SELECT * FROM calls WHERE workspace = :workspace AND tool_id = :tool_id;

-- name: unfinished_calls
-- What an earlier run of the daemon left open, oldest first.
SELECT * FROM calls WHERE workspace = :workspace AND finished_at IS NULL ORDER BY sequence;

-- name: save_post
-- Put something to be sent, with its body.
INSERT INTO posts (
    workspace, kind, target, state, created_at, due_at, attempts, problem, delivered_at, body)
VALUES (
    :workspace, :kind, :target, :state, :created_at, :due_at, :attempts, :problem, :delivered_at, :body)
ON CONFLICT (workspace, kind, target) DO UPDATE SET
    state = excluded.state, due_at = excluded.due_at, attempts = excluded.attempts, problem = excluded.problem,
    delivered_at = excluded.delivered_at, body = excluded.body;

-- name: update_post
-- How the delivery of something already stored stands; its body stays, unless it is no longer wanted.
UPDATE posts
   SET state = :state, due_at = :due_at, attempts = :attempts, problem = :problem, delivered_at = :delivered_at,
       body = CASE WHEN :keeps_body THEN body END
 WHERE workspace = :workspace AND kind = :kind AND target = :target;

-- name: find_post
-- One thing to be sent, without its body.
SELECT workspace, kind, target, state, created_at, due_at, attempts, problem, delivered_at, body IS NOT NULL AS has_body
  FROM posts
 WHERE workspace = :workspace AND kind = :kind AND target = :target;

-- name: post_body
-- The body of one thing to be sent.
SELECT body FROM posts WHERE workspace = :workspace AND kind = :kind AND target = :target;

-- name: waiting_posts
-- What was not acknowledged yet, oldest first.
SELECT workspace, kind, target, state, created_at, due_at, attempts, problem, delivered_at, body IS NOT NULL AS has_body
  FROM posts
 WHERE workspace = :workspace AND state = 'waiting'
 ORDER BY sequence;

-- name: save_position
-- The last event whose consequences are stored with this very transaction.
INSERT INTO positions (workspace, event_id) VALUES (:workspace, :event_id)
ON CONFLICT (workspace) DO UPDATE SET event_id = excluded.event_id;

-- name: find_position
-- Where to resume the event stream.
SELECT event_id FROM positions WHERE workspace = :workspace;

-- name: save_mark
-- Keep a value under a name.
INSERT INTO marks (name, value) VALUES (:name, :value)
ON CONFLICT (name) DO UPDATE SET value = excluded.value;

-- name: find_mark
-- A value kept under a name.
SELECT value FROM marks WHERE name = :name;

-- name: move_calls
-- Keep what is known of a workspace's calls under another name.
UPDATE calls SET workspace = :target WHERE workspace = :source;

-- name: move_posts
-- The same for what is to be sent.
UPDATE posts SET workspace = :target WHERE workspace = :source;

-- name: move_position
-- The same for the place in the event stream.
UPDATE positions SET workspace = :target WHERE workspace = :source;
