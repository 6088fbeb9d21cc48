package sqlite

import (
	"fmt"

	"github.com/ncruces/go-sqlite3"

	"github.com/quorate/quorate/store/engine"
)

// Limits of what one connection keeps prepared. A statement's weight estimates
// the memory that SQLite holds for it: its text, and a slot for each parameter.
const (
	maxPrepared       = 256
	maxPreparedWeight = 16 << 20
	parameterWeight   = 128
)

// boundLimit is the size of bound texts from which on they are released after
// use, so that a statement that is kept does not keep a large document.
const boundLimit = 16 << 10

// prepared is a statement that SQLite has compiled.
type prepared struct {
	stmt     *sqlite3.Stmt
	sql      string
	columns  []string
	params   int
	weight   int
	rows     int // of the last run, and likely of the next
	readOnly bool

	prev, next *prepared // in order of use
}

// statements keeps the statements of one connection prepared, the most recently
// used ones.
type statements struct {
	db     *sqlite3.Conn
	byText map[string]*prepared
	used   prepared // root of the ring: used.next was used last
	weight int
	limit  int // of weight
}

func (c *statements) init(db *sqlite3.Conn) {
	c.db = db
	c.byText = make(map[string]*prepared)
	c.limit = maxPreparedWeight
	c.used.next, c.used.prev = &c.used, &c.used
}

// get returns the compiled form of sql, from the cache if it is there.
func (c *statements) get(sql string) (*prepared, error) {
	// A batch repeats one text many times; the same string is found without
	// hashing it.
	if last := c.used.next; last != &c.used && last.sql == sql {
		return last, nil
	}
	if p, ok := c.byText[sql]; ok {
		c.unlink(p)
		c.link(p)
		return p, nil
	}
	p, err := compile(c.db, sql, sqlite3.PREPARE_PERSISTENT)
	if err != nil {
		return nil, err
	}
	c.byText[sql] = p
	c.weight += p.weight
	c.link(p)
	for len(c.byText) > 1 && (len(c.byText) > maxPrepared || c.weight > c.limit) {
		c.drop(c.used.prev)
	}
	return p, nil
}

func (c *statements) link(p *prepared) {
	p.prev, p.next = &c.used, c.used.next
	p.prev.next, p.next.prev = p, p
}

func (c *statements) unlink(p *prepared) {
	p.prev.next, p.next.prev = p.next, p.prev
}

// drop forgets p.
func (c *statements) drop(p *prepared) {
	c.unlink(p)
	delete(c.byText, p.sql)
	c.weight -= p.weight
	_ = p.stmt.Close() // reports the last run's error once more
}

// compile compiles sql, which must be one statement.
func compile(db *sqlite3.Conn, sql string, flags sqlite3.PrepareFlag) (*prepared, error) {
	stmt, tail, err := db.PrepareFlags(sql, flags)
	if err != nil {
		return nil, err
	}
	if stmt == nil {
		return nil, refusal("empty statement")
	}
	if tail != "" {
		// SQLite would silently ignore what follows, unless it is a comment.
		more, _, err := db.Prepare(tail)
		if more != nil || err != nil {
			_ = more.Close()
			_ = stmt.Close()
			return nil, refusal("more than one statement in a text")
		}
	}
	p := &prepared{stmt: stmt, sql: sql, params: stmt.BindCount(), readOnly: stmt.ReadOnly()}
	p.weight = len(sql) + p.params*parameterWeight
	p.nameColumns()
	return p, nil
}

func (p *prepared) nameColumns() {
	p.columns = nil
	if n := p.stmt.ColumnCount(); n > 0 {
		p.columns = make([]string, n)
		for i := range p.columns {
			p.columns[i] = p.stmt.ColumnName(i)
		}
	}
}

// refusal is the engine's own reason to refuse a statement.
type refusal string

func (r refusal) Error() string { return string(r) }

// run runs one statement to its end into res and leaves it reset.
func (p *prepared) run(db *sqlite3.Conn, args []engine.Value, m *moment, res *engine.Result) error {
	if len(args) != p.params {
		return refusal(fmt.Sprintf("the statement has %d parameters, but %d values are given", p.params, len(args)))
	}
	size, err := bind(p.stmt, args, m)
	if err == nil {
		if p.columns == nil {
			err = p.stmt.Exec()
		} else {
			err = p.collect(res)
		}
	}
	if size > boundLimit {
		_ = p.stmt.ClearBindings() // cannot fail on a statement that is reset
	}
	if err != nil {
		return err
	}
	if !p.readOnly {
		if res.RowsAffected = db.Changes(); res.RowsAffected > 0 {
			res.LastInsertID = db.LastInsertRowID()
		}
	}
	return nil
}

// rowsHintLimit bounds the memory that is set aside for rows before they come.
const rowsHintLimit = 1024

// collect runs a statement that has columns. The names are shared by all results
// of the statement; nobody may change them.
func (p *prepared) collect(res *engine.Result) error {
	more := p.stmt.Step()
	if p.stmt.Status(sqlite3.STMTSTATUS_REPREPARE, true) > 0 {
		// The schema had changed, and with it what * stands for.
		p.nameColumns()
	}
	n, rows := len(p.columns), 0
	res.Columns = p.columns[:n:n]
	if more {
		res.Values = make([]engine.Value, 0, n*max(1, min(p.rows, rowsHintLimit)))
	}
	for ; more; more = p.stmt.Step() {
		rows++
		for i := range n {
			res.Values = append(res.Values, column(p.stmt, i))
		}
	}
	p.rows = rows
	err := p.stmt.Err() // before Reset, which forgets an interrupt
	if rerr := p.stmt.Reset(); err == nil {
		err = rerr
	}
	return err
}
