package workspace

import (
	"strconv"
	"strings"

	"github.com/quorate/quorate/store/engine"
)

// The SQL is one text for SQLite, rqlite and PostgreSQL. Statements that follow
// the one which moves the workspace's row on are guarded by that row: they read it
// under the condition that it carries the token of their own write, so they do
// nothing where that write lost, and nothing new where a request is applied twice.
const (
	ofWorkspace = `tenant_id=?1 AND workspace_id=?2`
	guard       = ` FROM quorate_ws_workspaces w WHERE w.tenant_id=?1 AND w.workspace_id=?2 AND w.token=?3`

	// sqlLock makes sure that the row is there and locks it, where rows are locked.
	sqlLock = `INSERT INTO quorate_ws_workspaces(tenant_id,workspace_id,revision,token,head_seq,head_ts,last_position) VALUES(?1,?2,0,'',0,0,0)` +
		` ON CONFLICT(tenant_id,workspace_id) DO UPDATE SET head_seq=quorate_ws_workspaces.head_seq`
	sqlLockAndRead = sqlLock + ` RETURNING revision,head_seq,head_ts,last_position`
	sqlRow         = `SELECT w.revision AS revision,w.head_seq AS head_seq,w.head_ts AS head_ts,w.last_position AS last_position FROM quorate_ws_workspaces w WHERE w.tenant_id=?1 AND w.workspace_id=?2`

	// sqlMove is the compare-and-swap of a transaction: the row moves from
	// revision ?4 on. sqlFound is the same where there was no row.
	sqlMove = `UPDATE quorate_ws_workspaces SET token=?3,revision=?4+1,head_seq=?5,head_ts=?6,last_position=?7` +
		` WHERE ` + ofWorkspace + ` AND revision=?4`
	sqlFound = `INSERT INTO quorate_ws_workspaces(tenant_id,workspace_id,revision,token,head_seq,head_ts,last_position) VALUES(?1,?2,?4+1,?3,?5,?6,?7)` +
		` ON CONFLICT(tenant_id,workspace_id) DO UPDATE SET token=excluded.token,revision=excluded.revision,head_seq=excluded.head_seq,head_ts=excluded.head_ts,last_position=excluded.last_position` +
		` WHERE quorate_ws_workspaces.revision=?4`
	sqlSign  = `INSERT INTO quorate_ws_commits(tenant_id,workspace_id,revision,token) SELECT ?1,?2,w.revision,w.token` + guard + ` ON CONFLICT DO NOTHING`
	sqlPrune = `DELETE FROM quorate_ws_commits WHERE ` + ofWorkspace + ` AND revision<=?3`
	sqlAsk   = `SELECT w.revision AS revision,c.token AS token FROM quorate_ws_workspaces w` +
		` LEFT JOIN quorate_ws_commits c ON c.tenant_id=w.tenant_id AND c.workspace_id=w.workspace_id AND c.revision=?3 WHERE w.tenant_id=?1 AND w.workspace_id=?2`

	sqlSaveEvent = `INSERT INTO quorate_ws_events(tenant_id,workspace_id,token,seq,ts,event_id,event_type,clock,entry,event)` +
		` SELECT ?1,?2,?3,?4,?5,?6,?7,?8,?9,?10` + guard + ` ON CONFLICT DO NOTHING`
	sqlSaveRun = `INSERT INTO quorate_ws_runs(tenant_id,workspace_id,id,position,rule,scope_key,status,fired_seq,next_attempt_at,body)` +
		` SELECT ?1,?2,?4,?5,?6,?7,?8,?9,?10,?11` + guard +
		` ON CONFLICT(tenant_id,workspace_id,id) DO UPDATE SET rule=excluded.rule,scope_key=excluded.scope_key,status=excluded.status,fired_seq=excluded.fired_seq,next_attempt_at=excluded.next_attempt_at,body=excluded.body`
	sqlSaveProgress = `INSERT INTO quorate_ws_progress(tenant_id,workspace_id,rule,position,body) SELECT ?1,?2,?4,?5,?6` + guard +
		` ON CONFLICT(tenant_id,workspace_id,rule) DO UPDATE SET body=excluded.body`
	sqlClearStates = `DELETE FROM quorate_ws_states WHERE ` + ofWorkspace + ` AND rule=?4 AND EXISTS(SELECT 1` + guard + `)`
	sqlSaveState   = `INSERT INTO quorate_ws_states(tenant_id,workspace_id,rule,scope_key,body) SELECT ?1,?2,?4,?5,?6` + guard +
		` ON CONFLICT(tenant_id,workspace_id,rule,scope_key) DO UPDATE SET body=excluded.body`
	sqlSaveDeadLetter = `INSERT INTO quorate_ws_dead_letters(tenant_id,workspace_id,position,rule,body) SELECT ?1,?2,?4,?5,?6` + guard + ` ON CONFLICT DO NOTHING`
	sqlSaveSchedule   = `INSERT INTO quorate_ws_schedules(tenant_id,workspace_id,name,position,ticked_at) SELECT ?1,?2,?4,?5,?6` + guard +
		` ON CONFLICT(tenant_id,workspace_id,name) DO UPDATE SET ticked_at=excluded.ticked_at`
	sqlSaveRule = `INSERT INTO quorate_ws_rules(tenant_id,workspace_id,name,version,status,rule,provenance) SELECT ?1,?2,?4,?5,?6,?7,?8` + guard +
		` ON CONFLICT(tenant_id,workspace_id,name) DO UPDATE SET version=excluded.version,status=excluded.status,rule=excluded.rule,provenance=excluded.provenance`

	eventColumns = `SELECT seq AS seq,ts AS ts,token AS token,event_id AS event_id,event_type AS event_type,clock AS clock,entry AS entry,event AS event FROM quorate_ws_events WHERE ` + ofWorkspace
	runColumns   = `SELECT position AS position,body AS body FROM quorate_ws_runs WHERE ` + ofWorkspace
)

// args begins the parameters of a statement about a workspace.
func args(ref Ref, more ...engine.Value) []engine.Value {
	return append([]engine.Value{engine.Text(ref.Tenant), engine.Text(ref.Workspace)}, more...)
}

func selectOf(sql string, args []engine.Value) engine.Statement {
	return engine.Statement{SQL: sql, Args: args}
}

// chunk is how many values one list of a statement holds at most.
const chunk = 500

// oneOf returns an IN condition for values that it adds to args, a multiple of a
// few sizes long so that there are few texts to prepare. The values are not empty.
func oneOf(args *[]engine.Value, values []string) string {
	n := 1
	for n < len(values) {
		n *= 2
	}
	var b strings.Builder
	b.WriteString(" IN (")
	for i := range n {
		if i > 0 {
			b.WriteByte(',')
		}
		*args = append(*args, engine.Text(values[min(i, len(values)-1)]))
		b.WriteByte('?')
		b.WriteString(strconv.Itoa(len(*args)))
	}
	b.WriteByte(')')
	return b.String()
}

// param adds a value to args and returns its place.
func param(args *[]engine.Value, v engine.Value) string {
	*args = append(*args, v)
	return "?" + strconv.Itoa(len(*args))
}
