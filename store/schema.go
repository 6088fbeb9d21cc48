package store

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/quorate/quorate/store/engine"
	"github.com/quorate/quorate/store/internal/retry"
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
	{"quorate_lost", `CREATE TABLE IF NOT EXISTS quorate_lost(id TEXT NOT NULL PRIMARY KEY) WITHOUT ROWID`},
}

// PostgreSQL's differ in what has to do with JSON: it has a function that reads a
// field of a text which may not be JSON, and triggers call functions. Its lists
// need the byte order of ids, whatever the collation of a table that others made;
// one of ours has it already: see sqlSchemaObjectsPostgres. What keeps commits
// apart from an earlier send of themselves is the number of the transaction that
// wrote the row: see guardPostgres.
var schemaPostgres = append(slices.Clone(schema[:11]), []object{
	{"executions.quorate_tx", `ALTER TABLE executions ADD COLUMN quorate_tx xid8`},
	{"quorate_json", quorateJSON},
	{"quorate_list", `CREATE OR REPLACE FUNCTION quorate_list() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS
$$BEGIN NEW.quorate_status:=quorate_json(NEW.data,'status'); NEW.quorate_listed:=NEW.version; RETURN NEW; END$$`},
	{"quorate_list_inserted", `CREATE OR REPLACE TRIGGER quorate_list_inserted BEFORE INSERT` + listTriggerPostgres},
	{"quorate_list_updated", `CREATE OR REPLACE TRIGGER quorate_list_updated BEFORE UPDATE` + listTriggerPostgres},
	{"executions.quorate_executions_id", `CREATE INDEX IF NOT EXISTS quorate_executions_id ON executions(id COLLATE "C")`},
	{"quorate_executions_status", `CREATE INDEX IF NOT EXISTS quorate_executions_status ON executions(quorate_status,id COLLATE "C")`},
	{"quorate_executions_definition", `CREATE INDEX IF NOT EXISTS quorate_executions_definition ON executions(definition_id,id COLLATE "C")`},
	{"quorate_timers_due", `CREATE INDEX IF NOT EXISTS quorate_timers_due ON timers(fire_at,execution_id COLLATE "C",path COLLATE "C")`},
}...)

const listTriggerPostgres = ` ON executions FOR EACH ROW WHEN (NEW.quorate_listed<>NEW.version) EXECUTE FUNCTION quorate_list()`

// quorateJSON defines quorate_json(data, field): the field as text, null if there
// is none, or if data is not JSON, since others write it and must not fail for
// that. PostgreSQL refuses escapes that stand for no character, which JSON may
// hold; they are replaced before it looks, in the escaped text, where an escaped
// backslash is put out of the way first.
const quorateJSON = `CREATE OR REPLACE FUNCTION quorate_json(data text,field text) RETURNS text LANGUAGE plpgsql STABLE AS
$$DECLARE v json; t text;
BEGIN
	BEGIN
		v:=data::json->field;
		t:=v#>>'{}';
	EXCEPTION WHEN others THEN
		BEGIN
			t:=replace(data,'\\','\u005c');
			t:=regexp_replace(t,'\\u(0000|[dD][89abAB][0-9a-fA-F]{2}(?!\\u[dD][c-fC-F]))','\ufffd','g');
			t:=regexp_replace(t,'(?<!\\u[dD][89abAB][0-9a-fA-F]{2})\\u[dD][c-fC-F][0-9a-fA-F]{2}','\ufffd','g');
			v:=t::json->field;
			t:=v#>>'{}';
		EXCEPTION WHEN others THEN
			RETURN NULL;
		END;
	END;
	RETURN t;
END$$`

// schemaOf returns the objects of a dialect.
func schemaOf(d engine.Dialect) []object {
	if d == engine.PostgreSQL {
		return schemaPostgres
	}
	return schema
}

const (
	sqlSchemaObjectsPostgres = `SELECT c.relname::text AS name FROM pg_class c WHERE c.relkind IN ('r','p','i','I') AND pg_table_is_visible(c.oid)` +
		` UNION ALL SELECT 'executions.'||a.attname FROM pg_attribute a WHERE a.attrelid=to_regclass('executions') AND a.attnum>0 AND NOT a.attisdropped` +
		` UNION ALL SELECT 'trace.'||a.attname FROM pg_attribute a WHERE a.attrelid=to_regclass('trace') AND a.attnum>0 AND NOT a.attisdropped` +
		` UNION ALL SELECT t.tgname::text FROM pg_trigger t WHERE t.tgrelid=to_regclass('executions') AND NOT t.tgisinternal` +
		` UNION ALL SELECT p.proname::text FROM pg_proc p WHERE p.proname IN ('quorate_json','quorate_list') AND pg_function_is_visible(p.oid)` +
		// The primary key orders by bytes, if its column does.
		` UNION ALL SELECT 'executions.quorate_executions_id' FROM pg_attribute a JOIN pg_collation l ON l.oid=a.attcollation` +
		` WHERE a.attrelid=to_regclass('executions') AND a.attname='id' AND l.collname='C'` +
		` UNION ALL SELECT 'executions.quorate_executions_id' WHERE to_regclass('quorate_executions_id') IS NOT NULL`
	sqlListOthersPostgres = `UPDATE executions SET quorate_status=quorate_json(data,'status'),quorate_listed=version WHERE quorate_listed<>version` +
		` AND NOT EXISTS(SELECT 1 FROM quorate_schema s WHERE s.id=1 AND s.version>=?)`
)

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
	pause := retry.Pauses()
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
			!retry.Sleep(ctx, pause.NextBackOff()):
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
	listOthers := sqlListOthers
	if s.traits.Dialect == engine.PostgreSQL {
		listOthers = sqlListOthersPostgres
	}
	pause := retry.Pauses()
	for {
		_, err := s.eng.Exec(ctx, []engine.Statement{{SQL: listOthers, Args: []engine.Value{engine.Int(unless)}}, {SQL: sqlSchemaRecord, Args: []engine.Value{engine.Int(schemaVersion)}}})
		if err == nil {
			return nil
		}
		if engine.OutcomeOf(err) == engine.NotApplied || !retry.Sleep(ctx, pause.NextBackOff()) {
			return fmt.Errorf("record schema version: %w", err)
		}
	}
}

// missingObjects returns the parts of the schema that are not there, and the
// version on record, 0 if none.
func (s *Store) missingObjects(ctx context.Context) ([]object, int64, error) {
	objects := sqlSchemaObjects
	if s.traits.Dialect == engine.PostgreSQL {
		objects = sqlSchemaObjectsPostgres
	}
	results, err := s.query(ctx, engine.Linearizable, []engine.Statement{{SQL: objects}})
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
	for _, o := range schemaOf(s.traits.Dialect) {
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
