package store

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/quorate/quorate/store/engine"
)

// schemaVersion grows when this library changes what it adds to the tables in a
// way that older versions of it must not write to.
const schemaVersion = 1

// object is a table, column or index that the store needs, and how to make it.
// Tables that others made are adopted as they are; what they lack is added.
type object struct {
	name string // "table", "table.column" or the index's name
	ddl  string
}

// Lists by status need an index on it, yet services in other languages write
// only the JSON, and an index on a column computed from the JSON costs each commit
// two passes over the state, the old one and the new one, and a page of the
// index. So our commits write the status beside the JSON, only when it changes,
// together with the version that it is of. Where a row's version moves without
// that, others wrote it, and a trigger looks into the JSON for them.
const (
	statusColumn = `quorate_status TEXT`
	listedColumn = `quorate_listed INTEGER NOT NULL DEFAULT -1`
	setListed    = `UPDATE executions SET quorate_status=CASE WHEN json_valid(data) THEN json_extract(data,'$.status') END,quorate_listed=version`
	listTrigger  = ` ON executions WHEN new.quorate_listed<>new.version BEGIN ` + setListed + ` WHERE id=new.id; END`
)

// AUTOINCREMENT matters: a sequence number is never given twice, so a late
// acknowledgement cannot remove somebody else's entry. A new table comes with all
// its columns; the ones added by themselves are for tables that were there.
var schema = []object{
	{"quorate_schema", `CREATE TABLE IF NOT EXISTS quorate_schema(id INTEGER NOT NULL PRIMARY KEY CHECK(id=1),version INTEGER NOT NULL)`},
	{"executions", `CREATE TABLE IF NOT EXISTS executions(id TEXT NOT NULL PRIMARY KEY,definition_id TEXT NOT NULL,data TEXT NOT NULL,version INTEGER NOT NULL,commit_token TEXT NOT NULL DEFAULT '',` + statusColumn + `,` + listedColumn + `)`},
	{"outbox", `CREATE TABLE IF NOT EXISTS outbox(seq INTEGER PRIMARY KEY AUTOINCREMENT,target_id TEXT,event TEXT NOT NULL)`},
	{"processed_events", `CREATE TABLE IF NOT EXISTS processed_events(execution_id TEXT NOT NULL,event_id TEXT NOT NULL,PRIMARY KEY(execution_id,event_id)) WITHOUT ROWID`},
	{"timers", `CREATE TABLE IF NOT EXISTS timers(execution_id TEXT NOT NULL,path TEXT NOT NULL,fire_at REAL NOT NULL,PRIMARY KEY(execution_id,path)) WITHOUT ROWID`},
	{"spawns", `CREATE TABLE IF NOT EXISTS spawns(seq INTEGER PRIMARY KEY AUTOINCREMENT,parent_id TEXT NOT NULL,child_id TEXT NOT NULL,root_path TEXT NOT NULL,context TEXT NOT NULL)`},
	{"trace", `CREATE TABLE IF NOT EXISTS trace(execution_id TEXT NOT NULL,idx INTEGER NOT NULL,entry TEXT NOT NULL,token TEXT,PRIMARY KEY(execution_id,idx)) WITHOUT ROWID`},

	{"executions.commit_token", `ALTER TABLE executions ADD COLUMN commit_token TEXT NOT NULL DEFAULT ''`},
	{"trace.token", `ALTER TABLE trace ADD COLUMN token TEXT`},
	{"executions.quorate_status", `ALTER TABLE executions ADD COLUMN ` + statusColumn},
	{"executions.quorate_listed", `ALTER TABLE executions ADD COLUMN ` + listedColumn},

	{"quorate_executions_status", `CREATE INDEX IF NOT EXISTS quorate_executions_status ON executions(quorate_status,id)`},
	{"quorate_executions_definition", `CREATE INDEX IF NOT EXISTS quorate_executions_definition ON executions(definition_id,id)`},
	{"quorate_list_inserted", `CREATE TRIGGER IF NOT EXISTS quorate_list_inserted AFTER INSERT` + listTrigger},
	{"quorate_list_updated", `CREATE TRIGGER IF NOT EXISTS quorate_list_updated AFTER UPDATE` + listTrigger},
	{"quorate_timers_due", `CREATE INDEX IF NOT EXISTS quorate_timers_due ON timers(fire_at,execution_id,path)`},
}

const (
	sqlSchemaObjects = `SELECT name AS name FROM sqlite_master WHERE type IN ('table','index','trigger')` +
		` UNION ALL SELECT 'executions.'||name FROM pragma_table_xinfo('executions')` +
		` UNION ALL SELECT 'trace.'||name FROM pragma_table_xinfo('trace')`
	// Of many workers that find the same tables without a version on record, the
	// first does the work and the others find the version there.
	sqlListOthers = setListed + ` WHERE id IN (SELECT e.id FROM (SELECT 1 WHERE NOT EXISTS(SELECT 1 FROM quorate_schema WHERE id=1 AND version>=?))` +
		` CROSS JOIN executions e WHERE e.quorate_listed<>e.version)`
	sqlSchemaVersion = `SELECT version AS version FROM quorate_schema WHERE id=1`
	sqlSchemaRecord  = `INSERT INTO quorate_schema(id,version) VALUES(1,?) ON CONFLICT(id) DO UPDATE SET version=excluded.version WHERE excluded.version>quorate_schema.version`
)

// ensureSchema creates what is missing. It reads first, so that a worker that
// starts beside a thousand others writes nothing when all is there; each
// statement is idempotent, so that those who start at once do not disturb each
// other. Afterwards it looks again: others may have made a table meanwhile,
// without the columns that ours would have had.
func (s *Store) ensureSchema(ctx context.Context) error {
	const passes = 8
	created := false
	pause := newPause()
	for pass := 1; ; pass++ {
		missing, version, err := s.missingObjects(ctx)
		switch {
		case err != nil:
			return fmt.Errorf("read schema: %w", err)
		case version > schemaVersion:
			return fmt.Errorf("%w: version %d was made by a newer release, this one knows up to %d", ErrSchema, version, schemaVersion)
		case len(missing) == 0:
			return s.recordVersion(ctx, version, created)
		case pass > passes:
			return fmt.Errorf("create schema: %w: %s is missing after it was made", ErrSchema, missing[0].name)
		}
		ddl := make([]string, len(missing))
		for i, o := range missing {
			ddl[i] = o.ddl
		}
		created = true
		var refused *engine.StatementError
		err = s.eng.Define(ctx, ddl)
		switch {
		case err == nil:
			s.log.Debug("quorate: schema created or completed", "engine", s.traits.Name, "objects", len(missing))
		case pass == passes || !errors.As(err, &refused) && engine.OutcomeOf(err) == engine.NotApplied,
			!sleep(ctx, pause.NextBackOff()):
			return fmt.Errorf("create schema: %w", err)
		}
	}
}

// recordVersion stores the version of the schema and brings the rows that were
// there before the triggers into the lists, unless both were done before.
func (s *Store) recordVersion(ctx context.Context, version int64, created bool) error {
	if version == schemaVersion && !created {
		return nil
	}
	unless := int64(schemaVersion)
	if version == schemaVersion {
		unless = math.MaxInt64 // something was repaired
	}
	pause := newPause()
	for {
		_, err := s.eng.Exec(ctx, []engine.Statement{{SQL: sqlListOthers, Args: []engine.Value{engine.Int(unless)}}, {SQL: sqlSchemaRecord, Args: []engine.Value{engine.Int(schemaVersion)}}})
		if err == nil {
			return nil
		}
		if engine.OutcomeOf(err) == engine.NotApplied || !sleep(ctx, pause.NextBackOff()) {
			return fmt.Errorf("record schema version: %w", err)
		}
	}
}

// missingObjects returns the parts of the schema that are not there, and the
// version on record, 0 if none.
func (s *Store) missingObjects(ctx context.Context) ([]object, int64, error) {
	results, err := s.query(ctx, engine.Linearizable, []engine.Statement{{SQL: sqlSchemaObjects}})
	if err != nil {
		return nil, 0, err
	}
	col, err := columns(&results[0], "name")
	if err != nil {
		return nil, 0, err
	}
	there := make(map[string]bool)
	for i := range results[0].Len() {
		name, _ := results[0].Row(i)[col[0]].Bytes()
		there[name] = true
	}
	var missing []object
	for _, o := range schema {
		table, _, isColumn := strings.Cut(o.name, ".")
		if !there[o.name] && (!isColumn || there[table]) {
			missing = append(missing, o)
		}
	}
	if !there["quorate_schema"] {
		return missing, 0, nil
	}
	results, err = s.query(ctx, engine.Linearizable, []engine.Statement{{SQL: sqlSchemaVersion}})
	if err != nil || results[0].Len() == 0 {
		return missing, 0, err
	}
	version, ok := results[0].Row(0)[0].Int()
	if !ok {
		return nil, 0, fmt.Errorf("%w: version is not a number", ErrSchema)
	}
	return missing, version, nil
}
