package rqlitetest

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"

	"github.com/ncruces/go-sqlite3"
	"github.com/ncruces/go-sqlite3/vfs/memdb"
)

// database is one SQLite database in memory with the two connections a node has:
// one that writes, whose leftovers (counters, temporary tables, an open BEGIN)
// everybody shares, and one that may only read. It is not safe for concurrent use.
type database struct {
	name        string
	write, read *connection
}

var databases atomic.Uint64

// openDatabase creates an empty database.
func openDatabase(foreignKeys bool) (*database, error) {
	db := &database{name: fmt.Sprintf("/rqlitetest-%d", databases.Add(1))}
	memdb.Create(db.name[1:], nil)
	var err error
	if db.write, err = openConnection(db.name, foreignKeys, false); err == nil {
		db.read, err = openConnection(db.name, foreignKeys, true)
	}
	if err != nil {
		return nil, errors.Join(err, db.close())
	}
	return db, nil
}

// copy returns a database with the same committed content.
func (db *database) copy(foreignKeys bool) (*database, error) {
	dst := &database{name: fmt.Sprintf("/rqlitetest-%d", databases.Add(1))}
	memdb.Create(dst.name[1:], nil)
	err := db.read.conn.Backup("main", "file:"+dst.name+"?vfs=memdb")
	if err == nil {
		if dst.write, err = openConnection(dst.name, foreignKeys, false); err == nil {
			dst.read, err = openConnection(dst.name, foreignKeys, true)
		}
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("copying the database: %w", err), dst.close())
	}
	return dst, nil
}

func (db *database) close() error {
	err := errors.Join(db.read.close(), db.write.close())
	memdb.Delete(db.name[1:])
	return err
}

// flush forgets prepared statements, whose columns a change of schema may alter.
func (db *database) flush() {
	db.read.flush()
	db.write.flush()
}

// cacheSize bounds the prepared statements of a connection.
const cacheSize = 512

// connection is a SQLite connection with its prepared statements.
type connection struct {
	conn  *sqlite3.Conn
	cache map[string]*prepared
}

// prepared is the first statement of a SQL text.
type prepared struct {
	stmt     *sqlite3.Stmt // nil for white space and comments
	tail     string        // the rest of the text, trimmed
	inputs   int
	readOnly bool
	schema   bool // may change the schema
	columns  []string
	types    []string // declared types in lower case, "" for expressions
	tables   []string // tables the columns come from, "" for expressions
}

func openConnection(name string, foreignKeys, readOnly bool) (*connection, error) {
	c, err := sqlite3.Open("file:" + name + "?vfs=memdb")
	if err != nil {
		return nil, fmt.Errorf("opening the database: %w", err)
	}
	cn := &connection{conn: c, cache: make(map[string]*prepared)}
	setup := "PRAGMA busy_timeout=0; PRAGMA journal_mode=MEMORY; PRAGMA synchronous=OFF; PRAGMA foreign_keys=OFF;"
	if foreignKeys {
		setup += "PRAGMA foreign_keys=ON;"
	}
	if readOnly {
		setup += "PRAGMA query_only=ON;"
	}
	err = c.Exec(setup)
	// The server's SQLite takes "text" for a string when no column has that name.
	for _, op := range []sqlite3.DBConfig{sqlite3.DBCONFIG_DQS_DML, sqlite3.DBCONFIG_DQS_DDL} {
		if err == nil {
			_, err = c.Config(op, true)
		}
	}
	if err == nil {
		err = c.SetAuthorizer(authorize)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("setting up the database: %w", err), cn.close())
	}
	return cn, nil
}

// missingFunctions are functions the embedded SQLite has and the server's has not.
var missingFunctions = map[string]bool{
	"acos": true, "acosh": true, "asin": true, "asinh": true, "atan": true, "atan2": true, "atanh": true,
	"ceil": true, "ceiling": true, "cos": true, "cosh": true, "degrees": true, "exp": true, "floor": true,
	"ln": true, "log": true, "log10": true, "log2": true, "mod": true, "pi": true, "pow": true, "power": true,
	"radians": true, "sin": true, "sinh": true, "sqrt": true, "tan": true, "tanh": true, "trunc": true,
}

const notAuthorized = "not authorized to use function: "

func authorize(action sqlite3.AuthorizerActionCode, _, name, _, _ string) sqlite3.AuthorizerReturnCode {
	if action == sqlite3.AUTH_FUNCTION && missingFunctions[strings.ToLower(name)] {
		return sqlite3.AUTH_DENY
	}
	return sqlite3.AUTH_OK
}

func (c *connection) close() error {
	if c == nil {
		return nil
	}
	c.flush()
	return c.conn.Close()
}

func (c *connection) flush() {
	for _, p := range c.cache {
		p.stmt.Close()
	}
	clear(c.cache)
}

// prepare compiles the first statement of sql. The result is valid until the next
// call of prepare or flush.
func (c *connection) prepare(sql string) (*prepared, error) {
	if p := c.cache[sql]; p != nil {
		return p, nil
	}
	if len(c.cache) >= cacheSize {
		c.flush()
	}
	stmt, tail, err := c.conn.PrepareFlags(sql, sqlite3.PREPARE_PERSISTENT)
	if err != nil {
		return nil, sqlError(err)
	}
	p := &prepared{stmt: stmt, tail: strings.TrimSpace(tail), readOnly: true}
	if stmt != nil {
		p.inputs = stmt.BindCount()
		p.readOnly = stmt.ReadOnly()
		p.schema = !dataStatement(sql)
		if n := stmt.ColumnCount(); n > 0 {
			p.columns, p.types, p.tables = make([]string, n), make([]string, n), make([]string, n)
			for i := range n {
				p.tables[i] = stmt.ColumnTableName(i)
				p.columns[i] = stmt.ColumnName(i)
				p.types[i] = strings.ToLower(stmt.ColumnDeclType(i))
			}
		}
	}
	c.cache[sql] = p
	return p, nil
}

// exec is the path of statements that answer with counters: all statements of
// the text run in order, each is stepped once, the last one's counters count.
func (c *connection) exec(db *database, sql string, params []parameter) (result, error) {
	res := result{shape: shapeCounters}
	start := 0
	for len(sql) > 0 {
		p, err := c.prepare(sql)
		if err != nil {
			return res, err
		}
		res.lastID, res.affected = 0, 0
		tail := p.tail
		if p.stmt != nil {
			// Without any value every parameter is NULL; with some, all are wanted.
			if len(params) > 0 {
				if len(params)-start < p.inputs {
					return res, fmt.Errorf("not enough args to execute query: want %d got %d", p.inputs, len(params))
				}
				if err := p.bind(params, start); err != nil {
					p.release()
					return res, err
				}
				start += p.inputs
			}
			p.stmt.Step()
			res.lastID, res.affected = c.conn.LastInsertRowID(), c.conn.Changes()
			schema := p.schema
			if err := p.release(); err != nil {
				return res, err
			}
			if schema {
				db.flush()
			}
		}
		sql = tail
	}
	return res, nil
}

// query is the path of statements that answer with rows: of several statements
// in one text only the last runs.
func (c *connection) query(db *database, sql string, params []parameter) (res result, err error) {
	res = result{shape: shapeRows}
	start := 0
	for {
		p, err := c.prepare(sql)
		if err != nil {
			return res, err
		}
		if p.stmt == nil {
			if p.tail == "" {
				return res, nil
			}
			sql = p.tail
			continue
		}
		if len(params)-start < p.inputs {
			return res, fmt.Errorf("not enough args to execute query: want %d got %d", p.inputs, len(params)-start)
		}
		if p.tail != "" {
			start += p.inputs
			sql = p.tail
			continue
		}
		err = p.bind(params, start)
		if err == nil {
			p.collect(&res)
		}
		schema := p.schema
		if rerr := p.release(); err == nil {
			err = rerr
		}
		if schema {
			db.flush()
		}
		return res, err
	}
}

// release ends a run and returns its error.
func (p *prepared) release() error {
	err := p.stmt.Reset()
	if p.inputs > 0 {
		p.stmt.ClearBindings()
	}
	if err != nil {
		return sqlError(err)
	}
	return nil
}

// sqliteError is an error of SQLite by its message alone, as the server reports it.
type sqliteError struct {
	text     string
	readOnly bool
}

func (e *sqliteError) Error() string { return e.text }

// sqlError strips from an error what the driver adds to SQLite's own message.
func sqlError(err error) error {
	var e *sqlite3.Error
	if !errors.As(err, &e) {
		return &sqliteError{text: strings.TrimPrefix(err.Error(), "sqlite3: "), readOnly: errors.Is(err, sqlite3.READONLY)}
	}
	text := e.Error()
	code := e.ExtendedCode().Error()
	if rest, ok := strings.CutPrefix(text, code+": "); ok {
		text = rest
	} else {
		text = strings.TrimPrefix(text, "sqlite3: ")
	}
	if name, ok := strings.CutPrefix(text, notAuthorized); ok {
		text = "no such function: " + name
	}
	return &sqliteError{text: text, readOnly: e.Code() == sqlite3.READONLY}
}
