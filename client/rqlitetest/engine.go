package rqlitetest

import (
	"strings"
	"time"
)

// What the three /db endpoints do with a list of statements on one database.

// errQueryWrite is how a write on the read-only connection is reported.
const errQueryWrite = "attempt to change database via query operation"

// errorResult is a statement that failed; query tells the row-returning path.
func errorResult(err error, query bool) result {
	return result{shape: shapeError, err: err.Error(), queryErr: query}
}

type stmtFault string

func (e stmtFault) Error() string { return string(e) }

// run executes one statement on the connection, by the path that gives rows or
// by the one that gives counters.
func (c *connection) run(db *database, s *statement, rows, timings bool) (result, error) {
	if s.fail != "" {
		return result{}, stmtFault(s.fail)
	}
	if err := checkNames(s.params); err != nil {
		return result{}, err
	}
	var start time.Time
	if timings {
		start = time.Now()
	}
	var (
		res result
		err error
	)
	if rows {
		res, err = c.query(db, s.sql, s.params)
		if s.qualify && err == nil {
			c.qualify(s.sql, &res)
		}
	} else {
		res, err = c.exec(db, s.sql, s.params)
	}
	if timings {
		res.seconds = time.Since(start).Seconds()
	}
	return res, err
}

// qualify puts the names of their tables before column names.
func (c *connection) qualify(sql string, res *result) {
	p, err := c.prepare(sql)
	if err != nil || len(p.tables) != len(res.columns) {
		return
	}
	names := make([]string, len(res.columns))
	for i, name := range res.columns {
		if names[i] = name; p.tables[i] != "" {
			names[i] = p.tables[i] + "." + name
		}
	}
	res.columns = names
}

// begin starts a transaction on the write connection.
func (db *database) begin() error {
	_, err := db.write.exec(db, "BEGIN", nil)
	return err
}

// rollback ends the transaction, if one is still open.
func (db *database) rollback() {
	_, _ = db.write.exec(db, "ROLLBACK", nil) // fails if SQLite rolled back already
}

// commit ends the transaction; one that cannot be committed is rolled back.
func (db *database) commit() error {
	_, err := db.write.exec(db, "COMMIT", nil)
	if err != nil {
		db.rollback()
	}
	return err
}

// execute is /db/execute: each statement on the write connection. In a
// transaction the first error rolls back and ends the list.
func (db *database) execute(stmts []statement, transaction, timings bool) ([]result, error) {
	if transaction {
		if err := db.begin(); err != nil {
			return nil, err
		}
	}
	results := make([]result, 0, len(stmts))
	for i := range stmts {
		if stmts[i].sql == "" {
			continue
		}
		res, err := db.write.run(db, &stmts[i], stmts[i].returning, timings)
		if err != nil {
			results = append(results, errorResult(err, false))
			if transaction {
				db.rollback()
				return results, nil
			}
			continue
		}
		results = append(results, res)
	}
	if transaction {
		if err := db.commit(); err != nil {
			return nil, err
		}
	}
	return results, nil
}

// query is /db/query: each statement on the read-only connection. Errors do not
// end the list. The caller's lock makes the whole list one snapshot, transaction
// or not; what the list leaves open on the connection is rolled back.
func (db *database) query(stmts []statement, transaction, timings bool) ([]result, error) {
	c := db.read
	if transaction {
		if _, err := c.exec(db, "BEGIN", nil); err != nil {
			return nil, err
		}
	}
	results := make([]result, 0, len(stmts))
	for i := range stmts {
		if stmts[i].sql == "" {
			continue
		}
		res, err := c.run(db, &stmts[i], true, timings)
		if err != nil {
			res = errorResult(err, true)
			if e, ok := err.(*sqliteError); ok && e.readOnly {
				res.err = errQueryWrite
			}
		}
		results = append(results, res)
	}
	var err error
	if transaction {
		_, err = c.exec(db, "COMMIT", nil)
	}
	if !c.conn.GetAutocommit() {
		_, _ = c.exec(db, "ROLLBACK", nil) // cannot fail: a transaction is open
	}
	if err != nil {
		return nil, err
	}
	return results, nil
}

// request is /db/request through the log: reads and writes on the write
// connection. In a transaction an error while running rolls back and ends the
// list, but a statement that does not even compile is skipped and the rest commits.
func (db *database) request(stmts []statement, transaction, timings bool) ([]result, error) {
	if transaction {
		if err := db.begin(); err != nil {
			return nil, err
		}
	}
	results := make([]result, 0, len(stmts))
	for i := range stmts {
		s := &stmts[i]
		if s.sql == "" {
			continue
		}
		p, err := db.write.prepare(s.sql)
		if err != nil {
			results = append(results, errorResult(err, false))
			continue
		}
		read := p.readOnly
		res, err := db.write.run(db, s, read || s.returning, timings)
		if err != nil {
			results = append(results, errorResult(err, read))
			if transaction {
				db.rollback()
				return results, nil
			}
			continue
		}
		results = append(results, res)
	}
	if transaction {
		if err := db.commit(); err != nil {
			return nil, err
		}
	}
	return results, nil
}

// writes counts the statements that need the log: all that are not read-only on
// the read connection, including those that do not compile there.
func (db *database) writes(stmts []statement) (writes, reads int) {
	for i := range stmts {
		if stmts[i].sql == "" {
			continue
		}
		if p, err := db.read.prepare(stmts[i].sql); err != nil || !p.readOnly {
			writes++
		} else {
			reads++
		}
	}
	return writes, reads
}

// breakingPragma reports whether the text starts with a PRAGMA the server
// refuses because it would break its database layer.
func breakingPragma(sql string) bool {
	word := func(s string) (string, string) {
		n := 0
		for n < len(s) && wordByte(s[n]) {
			n++
		}
		return strings.ToLower(s[:n]), s[n:]
	}
	first, rest := word(strings.TrimLeft(sql, " \t\r\n\f\v"))
	if first != "pragma" {
		return false
	}
	trimmed := strings.TrimLeft(rest, " \t\r\n\f\v")
	if trimmed == rest {
		return false
	}
	name, rest := word(trimmed)
	schema := false
	if strings.HasPrefix(rest, ".") {
		schema = true
		name, rest = word(rest[1:])
	}
	if strings.HasPrefix(name, "wal_checkpoint") {
		return true
	}
	switch name {
	case "journal_mode", "synchronous", "query_only":
	case "wal_autocheckpoint":
		if schema {
			return false
		}
	default:
		return false
	}
	return strings.HasPrefix(strings.TrimLeft(rest, " \t\r\n\f\v"), "=")
}
