-- Rules and grants.

-- name: insert_rule
-- A new rule.
INSERT INTO rules (
    id, server_id, tool_name, tool_pattern, argument_pattern, auto_approve, priority, max_risk,
    expires_at, created_at, updated_at, note)
VALUES (
    :id, :server_id, :tool_name, :tool_pattern, :argument_pattern, :auto_approve, :priority, :max_risk,
    :expires_at, :created_at, :updated_at, :note);

-- name: update_rule
-- A rule as it is to be from now on.
UPDATE rules
   SET server_id = :server_id, tool_name = :tool_name, tool_pattern = :tool_pattern,
       argument_pattern = :argument_pattern, auto_approve = :auto_approve, priority = :priority,
       max_risk = :max_risk, expires_at = :expires_at, updated_at = :updated_at, note = :note
 WHERE id = :id;

-- name: delete_rule
-- A rule that no longer holds.
DELETE FROM rules WHERE id = :id;

-- name: find_rule
-- One rule.
SELECT * FROM rules WHERE id = :id;

-- name: list_rules
-- All rules in the order in which they are tried.
SELECT * FROM rules ORDER BY priority DESC, sequence DESC;

-- name: insert_grant
-- A new grant.
INSERT INTO grants (
    id, workspace, session_id, kind, command_class, max_risk, created_at, expires_at, revoked_at)
VALUES (
    :id, :workspace, :session_id, :kind, :command_class, :max_risk, :created_at, :expires_at, :revoked_at);

-- name: revoke_grant
-- A grant that no longer holds; only the first time counts.
UPDATE grants SET revoked_at = :revoked_at WHERE id = :id AND revoked_at IS NULL;

-- name: end_session
-- Grants do not outlive their session.
UPDATE grants SET revoked_at = :revoked_at
 WHERE workspace = :workspace AND session_id = :session_id AND revoked_at IS NULL;

-- name: standing_grants
-- What holds now, of one workspace or of all, newest first.
SELECT * FROM grants
 WHERE revoked_at IS NULL AND (expires_at IS NULL OR expires_at > :now)
   AND (:workspace IS NULL OR workspace = :workspace)
 ORDER BY sequence DESC;

-- name: delete_ended_grants
-- Grants that ended before a given time.
DELETE FROM grants WHERE coalesce(revoked_at, expires_at) < :before;


-- name: put_pause
-- A workspace stands still from now on; a new note replaces the old one.
INSERT INTO pauses (workspace, note, since, until) VALUES (:workspace, :note, :since, :until)
    ON CONFLICT (workspace) DO UPDATE SET note = :note, since = :since, until = :until;

-- name: delete_pause
-- A workspace goes on.
DELETE FROM pauses WHERE workspace = :workspace;

-- name: list_pauses
-- What stands still now.
SELECT * FROM pauses WHERE until IS NULL OR until > :now ORDER BY workspace;
