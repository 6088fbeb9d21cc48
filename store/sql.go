package store

import (
	"math/bits"
	"regexp"
	"strconv"
	"strings"

	"github.com/quorate/quorate/store/engine"
)

// template is a statement over a list of rows, bound as a VALUES list named w.
// One definition serves a batch of thousands and a single row; for the latter
// the list is left out and the parameters stand where its columns did, since such
// statements are several times cheaper to parse and to run.
type template struct {
	cols  int
	forms [2]form // by dialect

	sifted    *template // for batches that test the guard once: see sift.go
	unanimous *template // for batches in which all commits have to win: see unanimous.go
}

// form is a template in one dialect.
type form struct {
	before string // up to the rows
	row    string
	after  string // from the end of the rows
	single string // the text for one row

	returning, returningSingle bool // rows are returned
}

func newTemplate(columns, body string) *template {
	t := &template{
		cols: strings.Count(columns, ",") + 1,
		forms: [2]form{
			engine.SQLite:     newForm(columns, body, guard),
			engine.PostgreSQL: newForm(columns, strings.ReplaceAll(body, guard, guardPostgres), guardPostgres),
		},
	}
	if strings.Contains(body, " WHERE "+guard) {
		t.sifted, t.unanimous = sifted(columns, body), unguarded(columns, body)
	}
	return t
}

// list is a statement that is a list of rows with something before and after it. A
// row has a ? for each parameter.
func list(before, row, after string) *template {
	t := &template{cols: strings.Count(row, "?")}
	parts := strings.Split(row, "?")
	single := parts[0]
	for i, part := range parts[1:] {
		single += "?" + strconv.Itoa(i+1) + part
	}
	t.forms[engine.SQLite] = form{before: before, row: row, after: after, single: before + single + after}
	return t
}

func newForm(columns, body, guard string) form {
	return form{
		before: "WITH w(" + columns + ") AS (VALUES ",
		row:    "(?" + strings.Repeat(",?", strings.Count(columns, ",")) + ")",
		after:  ") " + body,
		single: singleRow(columns, body, guard),
	}
}

// newVerdict is newTemplate for a statement that decides about commits. For one
// row the verdict is the count of rows affected, for several the ids returned.
// In a sifted batch it is known before, in a unanimous one there is none to return.
func newVerdict(columns, body, single string) *template {
	t := newTemplate(columns, body+" RETURNING id") // the space matters: rqlite looks for it
	t.sifted, t.unanimous = sifted(columns, body), newTemplate(columns, body)
	t.unanimous.forms[engine.SQLite].single = single
	f := &t.forms[engine.SQLite]
	f.single, f.returning = single, true
	return t
}

// postgres gives the template a text of its own for PostgreSQL.
func (t *template) postgres(columns, body, single string) *template {
	f := &t.forms[engine.PostgreSQL]
	*f = newForm(columns, body, guardPostgres)
	if single != "" {
		f.single = single
	}
	f.returning = strings.Contains(f.after, " RETURNING ")
	f.returningSingle = strings.Contains(f.single, " RETURNING ")
	return t
}

var (
	joinOfRows   = regexp.MustCompile(` FROM w JOIN (\w+ \w+) ON `)
	columnOfRows = regexp.MustCompile(`\bw\.(\w+)`)
)

// singleRow turns a statement over the list w into one for a single row of it.
func singleRow(columns, body, guard string) string {
	number := make(map[string]string)
	for i, c := range strings.Split(columns, ",") {
		number[c] = "?" + strconv.Itoa(i+1)
	}
	if joinOfRows.MatchString(body) {
		for _, condition := range []string{guard, isNotLost} {
			body = strings.Replace(body, " WHERE "+condition, " AND "+condition, 1)
		}
		body = joinOfRows.ReplaceAllString(body, " FROM $1 WHERE ")
	}
	body = strings.ReplaceAll(body, " FROM w", "")
	return columnOfRows.ReplaceAllStringFunc(body, func(c string) string { return number[c[len("w."):]] })
}

// text returns the statement for n rows.
func (t *template) text(n int, d engine.Dialect) string {
	f := &t.forms[d]
	if n == 1 {
		return f.single
	}
	var b strings.Builder
	b.Grow(len(f.before) + n*(len(f.row)+1) + len(f.after))
	b.WriteString(f.before)
	for i := range n {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(f.row)
	}
	b.WriteString(f.after)
	return b.String()
}

// guard holds for a row of w when its commit will win: the execution is at the
// version the commit was built on, and, where that is known, carries the token of
// the commit that made that version; or version 0 was expected and there is no
// row. What is expected is in one parameter: see expectation.
//
// Every side write tests it before the row itself is written, in the same
// transaction. So it is true exactly for winners, it ships two small parameters
// instead of the state, and the same request sent a second time does nothing at
// all, since the row has moved on.
const guard = `CASE WHEN w.at=0 THEN NOT EXISTS(SELECT 1 FROM executions e WHERE e.id=w.id)` +
	` ELSE EXISTS(SELECT 1 FROM executions e WHERE e.id=w.id AND (w.at=e.version||':'||e.commit_token OR w.at=e.version)) END`

// guardPostgres holds for a row of w when its commit has won. Transactions of
// PostgreSQL interleave, and what the guard above tests could change before the
// row is written. So there the row comes first, which decides, and keeps all
// others away from it until the end; what belongs to it follows, guarded on what
// only the winner finds: its own token (at), written by this very transaction.
// That of an earlier send of the same request is another, so a request that is sent
// twice does nothing the second time, as above.
const guardPostgres = `EXISTS(SELECT 1 FROM executions e WHERE e.id=w.id AND e.commit_token=w.at AND e.quorate_tx=pg_current_xact_id())`

const (
	isBasePostgres       = `executions.id=w.id AND (w.at=executions.version||':'||executions.commit_token OR w.at=executions.version::text)`
	isBasePostgresSingle = `id=?1 AND (?2=version||':'||commit_token OR ?2=version::text)`
)

// isBase is the guard's second case, for the update of the row itself.
const (
	isBase       = `executions.id=w.id AND (w.at=executions.version||':'||executions.commit_token OR w.at=executions.version)`
	isBaseSingle = `id=?1 AND (?2=version||':'||commit_token OR ?2=version)`
)

// expectation is what the guard compares the row with: 0 for none, the version as
// an integer, or version and token as one text. A parameter less for each row
// counts: where a cluster decodes, logs and binds each of them on every node,
// parameters are much of what a small row costs.
func expectation(version int64, token string, known bool) engine.Value {
	if version == 0 || !known {
		return engine.Int(version)
	}
	return engine.Text(strconv.FormatInt(version, 10) + ":" + token)
}

// loaded are the columns of a load.
const loaded = `e.version AS version,e.commit_token AS token,e.data AS data,e.definition_id AS definition,e.quorate_status AS status`

// Time, ids and random values are always parameters: rqlite rewrites SQL's own
// functions for them in some places and lets nodes differ in others.
var (
	sqlOutbox = newTemplate("ord,id,at,target,event",
		`INSERT INTO outbox(target_id,event) SELECT w.target,w.event FROM w WHERE `+guard+` ORDER BY w.ord`).
		listed(`INSERT INTO outbox(target_id,event) VALUES `, `(?,?)`, ``).
		postgres("ord,id,at,target,event",
			`INSERT INTO outbox(target_id,event) SELECT w.target,w.event FROM w WHERE `+guardPostgres+` ORDER BY w.ord RETURNING seq`, "")

	sqlProcessed = newTemplate("id,at,event",
		`INSERT INTO processed_events(execution_id,event_id) SELECT w.id,w.event FROM w WHERE `+guard+
			` ON CONFLICT(execution_id,event_id) DO NOTHING`).
		listed(`INSERT INTO processed_events(execution_id,event_id) VALUES `, `(?,?)`, ` ON CONFLICT(execution_id,event_id) DO NOTHING`)

	sqlCancel = newTemplate("id,at,path",
		`DELETE FROM timers WHERE (execution_id,path) IN (SELECT w.id,w.path FROM w WHERE `+guard+`)`).
		listed(`DELETE FROM timers WHERE (execution_id,path) IN (VALUES `, `(?,?)`, `)`)

	sqlSchedule = newTemplate("id,at,path,fire_at",
		`INSERT INTO timers(execution_id,path,fire_at) SELECT w.id,w.path,w.fire_at FROM w WHERE `+guard+
			` ON CONFLICT(execution_id,path) DO UPDATE SET fire_at=excluded.fire_at`).
		listed(`INSERT INTO timers(execution_id,path,fire_at) VALUES `, `(?,?,?)`, ` ON CONFLICT(execution_id,path) DO UPDATE SET fire_at=excluded.fire_at`)

	sqlSpawn = newTemplate("ord,id,at,child,root_path,context",
		`INSERT INTO spawns(parent_id,child_id,root_path,context) SELECT w.id,w.child,w.root_path,w.context FROM w WHERE `+guard+` ORDER BY w.ord`).
		listed(`INSERT INTO spawns(parent_id,child_id,root_path,context) VALUES `, `(?,?,?,?)`, ``).
		postgres("ord,id,at,child,root_path,context",
			`INSERT INTO spawns(parent_id,child_id,root_path,context) SELECT w.id,w.child,w.root_path,w.context FROM w WHERE `+guardPostgres+` ORDER BY w.ord RETURNING seq`, "")

	sqlTrace = newTemplate("id,at,entry",
		`INSERT INTO trace(execution_id,idx,entry) SELECT w.id,coalesce((SELECT max(t.idx)+1 FROM trace t WHERE t.execution_id=w.id),0),w.entry FROM w WHERE `+guard)

	sqlTrim = newTemplate("id,at,keep",
		`DELETE FROM trace WHERE (execution_id,idx) IN (SELECT t.execution_id,t.idx FROM w JOIN trace t ON t.execution_id=w.id`+
			` AND t.idx<=(SELECT max(m.idx) FROM trace m WHERE m.execution_id=w.id)-w.keep WHERE `+guard+`)`)

	// The row itself comes last, in PostgreSQL first. Which statement it is depends
	// on what the commit expects; each is true to the guard.
	sqlCreate = newVerdict("id,definition,data,token,status",
		`INSERT INTO executions(id,definition_id,data,version,commit_token,quorate_status,quorate_listed)`+
			` SELECT w.id,w.definition,w.data,1,w.token,w.status,1 FROM w WHERE true ON CONFLICT(id) DO NOTHING`,
		`INSERT INTO executions(id,definition_id,data,version,commit_token,quorate_status,quorate_listed)`+
			` VALUES(?1,?2,?3,1,?4,?5,1) ON CONFLICT(id) DO NOTHING`).
		listed(`INSERT INTO executions(id,definition_id,data,version,commit_token,quorate_status,quorate_listed) VALUES `, `(?,?,?,1,?,?,1)`, ` ON CONFLICT(id) DO NOTHING`).
		postgres("id,definition,data,token,status",
			`INSERT INTO executions(id,definition_id,data,version,commit_token,quorate_status,quorate_listed,quorate_tx)`+
				` SELECT w.id,w.definition,w.data,1,w.token,w.status,1,pg_current_xact_id() FROM w ON CONFLICT(id) DO NOTHING RETURNING id`,
			`INSERT INTO executions(id,definition_id,data,version,commit_token,quorate_status,quorate_listed,quorate_tx)`+
				` VALUES(?1,?2,?3,1,?4,?5,1,pg_current_xact_id()) ON CONFLICT(id) DO NOTHING`)

	sqlUpdate = newVerdict("id,at,data,token",
		`UPDATE executions SET data=w.data,version=executions.version+1,commit_token=w.token,quorate_listed=executions.version+1 FROM w WHERE `+isBase,
		`UPDATE executions SET data=?3,version=version+1,commit_token=?4,quorate_listed=version+1 WHERE `+isBaseSingle)

	// Assigning to an indexed column costs even if nothing changes, so status and
	// definition are assigned only where they may have changed. In PostgreSQL it
	// costs nothing, and one statement for all keeps the rows in one order: see
	// batch.addSorted.
	sqlRedefine = newVerdict("id,at,data,token,status,definition",
		`UPDATE executions SET definition_id=w.definition,data=w.data,version=executions.version+1,commit_token=w.token,quorate_status=w.status,quorate_listed=executions.version+1 FROM w WHERE `+isBase,
		`UPDATE executions SET definition_id=?6,data=?3,version=version+1,commit_token=?4,quorate_status=?5,quorate_listed=version+1 WHERE `+isBaseSingle).
		postgres("id,at,data,token,status,definition",
			`UPDATE executions SET definition_id=w.definition,data=w.data,version=executions.version+1,commit_token=w.token,quorate_status=w.status,quorate_listed=executions.version+1,quorate_tx=pg_current_xact_id()`+
				` FROM w WHERE `+isBasePostgres+` RETURNING executions.id`,
			`UPDATE executions SET definition_id=?6,data=?3,version=version+1,commit_token=?4,quorate_status=?5,quorate_listed=version+1,quorate_tx=pg_current_xact_id() WHERE `+isBasePostgresSingle)

	sqlDeleteTimer = newTemplate("id,path,fire_at",
		`DELETE FROM timers WHERE (execution_id,path,fire_at) IN (SELECT w.id,w.path,w.fire_at FROM w)`)

	sqlAppendTrace = newTemplate("id,entry,token",
		`INSERT INTO trace(execution_id,idx,entry,token) SELECT w.id,coalesce((SELECT max(t.idx)+1 FROM trace t WHERE t.execution_id=w.id),0),w.entry,w.token FROM w`+
			` WHERE NOT EXISTS(SELECT 1 FROM trace t WHERE t.execution_id=w.id AND t.token=w.token)`)

	sqlTrimAppended = newTemplate("id,keep",
		`DELETE FROM trace WHERE (execution_id,idx) IN (SELECT t.execution_id,t.idx FROM w JOIN trace t ON t.execution_id=w.id`+
			` AND t.idx<=(SELECT max(m.idx) FROM trace m WHERE m.execution_id=w.id)-w.keep)`)

	sqlAckOutbox = newTemplate("seq", `DELETE FROM outbox WHERE seq IN (SELECT w.seq FROM w)`).
			postgres("seq", `DELETE FROM outbox USING w WHERE outbox.seq=w.seq`, `DELETE FROM outbox WHERE seq=?1`)
	sqlAckSpawn = newTemplate("seq", `DELETE FROM spawns WHERE seq IN (SELECT w.seq FROM w)`).
			postgres("seq", `DELETE FROM spawns USING w WHERE spawns.seq=w.seq`, `DELETE FROM spawns WHERE seq=?1`)

	// For PostgreSQL only: see batch.emitInterleaved.
	sqlLock      = newTemplate("id", `SELECT e.id AS id FROM w JOIN executions e ON e.id=w.id ORDER BY e.id COLLATE "C" FOR NO KEY UPDATE OF e`)
	sqlLockTrace = newTemplate("bucket,alone", `SELECT count(CASE WHEN w.alone=1 THEN pg_advisory_xact_lock(w.bucket)::text ELSE pg_advisory_xact_lock_shared(w.bucket)::text END) AS n FROM w`)

	sqlPeek = newTemplate("id", `SELECT e.id AS id,e.version AS version,e.commit_token AS token FROM w JOIN executions e ON e.id=w.id`)

	// A load says whose row it is by the id: a number for each would make a list of
	// pairs of what is a list of ids, twice as long and slower to look up.
	sqlLoad = list(`SELECT e.id AS id,`+loaded+` FROM executions e WHERE e.id IN (`, `?`, `)`).
		postgres("id", `SELECT e.id AS id,`+loaded+` FROM w JOIN executions e ON e.id=w.id`, "")

	sqlLoadForEvent = newTemplate("n,id,event",
		`SELECT w.n AS n,`+loaded+`,`+
			`EXISTS(SELECT 1 FROM processed_events p WHERE p.execution_id=w.id AND p.event_id=w.event) AS processed FROM w JOIN executions e ON e.id=w.id`)

	sqlIsProcessed = newTemplate("n,id,event",
		`SELECT w.n AS n FROM w JOIN processed_events p ON p.execution_id=w.id AND p.event_id=w.event`)
)

// rows gathers the rows of one template, to be cut into statements.
type rows struct {
	t     *template
	args  []engine.Value
	first int // index of the first statement, set by emit
	count int // statements, set by emit
}

func (r *rows) len() int { return len(r.args) / r.t.cols }

// emit appends the statements for the rows to stmts.
func (r *rows) emit(stmts []engine.Statement, traits *engine.Traits) []engine.Statement {
	n := r.len()
	r.first, r.count = len(stmts), 0
	per := max(1, min(traits.RowsPerStatement, traits.MaxParams/r.t.cols))
	f := &r.t.forms[traits.Dialect]
	for i, k := 0, 0; i < n; i += k {
		k = min(per, n-i)
		if traits.Dialect == engine.PostgreSQL {
			// It keeps prepared statements, so there must not be a text for each
			// number of rows.
			k = 1 << (bits.Len(uint(k)) - 1)
		}
		stmts = append(stmts, engine.Statement{
			SQL:       r.t.text(k, traits.Dialect),
			Args:      r.args[i*r.t.cols : (i+k)*r.t.cols],
			Returning: k > 1 && f.returning || k == 1 && f.returningSingle,
		})
		r.count++
	}
	return stmts
}
