package workspace

import "github.com/quorate/quorate/store/migration"

// Every key begins with tenant and workspace. Times are microseconds in UTC, so
// that they compare as numbers. Documents are text, so that they keep the order of
// their keys; the columns beside them are what reads filter and sort by.
//
// The row of quorate_ws_workspaces is the lock of its workspace: each write moves
// its revision on. quorate_ws_commits says whose commit made a revision, so that
// one whose answer was lost can be found.
var schema = []migration.Step{{Version: 1, DDL: []string{
	`CREATE TABLE IF NOT EXISTS quorate_ws_workspaces(tenant_id TEXT NOT NULL,workspace_id TEXT NOT NULL,revision BIGINT NOT NULL,token TEXT NOT NULL,head_seq BIGINT NOT NULL,head_ts BIGINT NOT NULL,last_position BIGINT NOT NULL,PRIMARY KEY(tenant_id,workspace_id))`,
	`CREATE TABLE IF NOT EXISTS quorate_ws_commits(tenant_id TEXT NOT NULL,workspace_id TEXT NOT NULL,revision BIGINT NOT NULL,token TEXT NOT NULL,PRIMARY KEY(tenant_id,workspace_id,revision))`,
	`CREATE TABLE IF NOT EXISTS quorate_ws_events(tenant_id TEXT NOT NULL,workspace_id TEXT NOT NULL,seq BIGINT NOT NULL,event_id TEXT NOT NULL,event_type TEXT NOT NULL,ts BIGINT NOT NULL,clock TEXT NOT NULL,token TEXT NOT NULL,entry TEXT NOT NULL,event TEXT NOT NULL,PRIMARY KEY(tenant_id,workspace_id,seq))`,
	`CREATE UNIQUE INDEX IF NOT EXISTS quorate_ws_events_id ON quorate_ws_events(tenant_id,workspace_id,event_id)`,
	`CREATE INDEX IF NOT EXISTS quorate_ws_events_type ON quorate_ws_events(tenant_id,workspace_id,event_type,seq)`,
	`CREATE TABLE IF NOT EXISTS quorate_ws_runs(tenant_id TEXT NOT NULL,workspace_id TEXT NOT NULL,id TEXT NOT NULL,position BIGINT NOT NULL,rule TEXT NOT NULL,scope_key TEXT NOT NULL,status TEXT NOT NULL,fired_seq BIGINT NOT NULL,next_attempt_at BIGINT NOT NULL,body TEXT NOT NULL,PRIMARY KEY(tenant_id,workspace_id,id))`,
	`CREATE INDEX IF NOT EXISTS quorate_ws_runs_position ON quorate_ws_runs(tenant_id,workspace_id,position)`,
	`CREATE INDEX IF NOT EXISTS quorate_ws_runs_scope ON quorate_ws_runs(tenant_id,workspace_id,rule,scope_key,status,fired_seq,position)`,
	`CREATE INDEX IF NOT EXISTS quorate_ws_runs_due ON quorate_ws_runs(status,next_attempt_at)`,
	`CREATE TABLE IF NOT EXISTS quorate_ws_progress(tenant_id TEXT NOT NULL,workspace_id TEXT NOT NULL,rule TEXT NOT NULL,position BIGINT NOT NULL,body TEXT NOT NULL,PRIMARY KEY(tenant_id,workspace_id,rule))`,
	`CREATE TABLE IF NOT EXISTS quorate_ws_states(tenant_id TEXT NOT NULL,workspace_id TEXT NOT NULL,rule TEXT NOT NULL,scope_key TEXT NOT NULL,body TEXT NOT NULL,PRIMARY KEY(tenant_id,workspace_id,rule,scope_key))`,
	`CREATE TABLE IF NOT EXISTS quorate_ws_dead_letters(tenant_id TEXT NOT NULL,workspace_id TEXT NOT NULL,position BIGINT NOT NULL,rule TEXT NOT NULL,body TEXT NOT NULL,PRIMARY KEY(tenant_id,workspace_id,position))`,
	`CREATE INDEX IF NOT EXISTS quorate_ws_dead_letters_rule ON quorate_ws_dead_letters(tenant_id,workspace_id,rule,position)`,
	`CREATE TABLE IF NOT EXISTS quorate_ws_schedules(tenant_id TEXT NOT NULL,workspace_id TEXT NOT NULL,name TEXT NOT NULL,position BIGINT NOT NULL,ticked_at BIGINT NOT NULL,PRIMARY KEY(tenant_id,workspace_id,name))`,
	`CREATE TABLE IF NOT EXISTS quorate_ws_rules(tenant_id TEXT NOT NULL,workspace_id TEXT NOT NULL,name TEXT NOT NULL,version BIGINT NOT NULL,status TEXT NOT NULL,rule TEXT NOT NULL,provenance TEXT NOT NULL,PRIMARY KEY(tenant_id,workspace_id,name))`,
	`CREATE TABLE IF NOT EXISTS quorate_ws_leases(tenant_id TEXT NOT NULL,workspace_id TEXT NOT NULL,name TEXT NOT NULL,holder TEXT NOT NULL,expires_at BIGINT NOT NULL,PRIMARY KEY(tenant_id,workspace_id,name))`,
	`CREATE TABLE IF NOT EXISTS quorate_ws_cursors(tenant_id TEXT NOT NULL,workspace_id TEXT NOT NULL,name TEXT NOT NULL,seq BIGINT NOT NULL,PRIMARY KEY(tenant_id,workspace_id,name))`,
}}}
