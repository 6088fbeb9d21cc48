package main

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/quorate/quorate/store/engine"
	"github.com/quorate/quorate/store/sqlite"
)

// nullEngine answers at once, as a database would in which every write wins. It
// measures what the library itself costs. Executions that were created in it can
// be loaded, at version 1 for ever. What is not about executions, such as the
// making of the schema, it leaves to a SQLite database in memory.
type nullEngine struct {
	engine.Engine // the database

	docs   sync.Map // id -> document
	seq    atomic.Int64
	names  sync.Map // the end of a query's text -> its column names
	params sync.Map // the names of a statement's parameters -> parameters
}

func newNullEngine() (*nullEngine, error) {
	db, err := sqlite.Open(":memory:")
	if err != nil {
		return nil, err
	}
	return &nullEngine{Engine: db}, nil
}

func (e *nullEngine) Traits() engine.Traits {
	return engine.Traits{
		Name: "null", MaxParams: 32766, RowsPerStatement: 1024, MaxBatchBytes: 8 << 20, Writers: 2, Readers: 2,
	}
}

func (e *nullEngine) Exec(ctx context.Context, stmts []engine.Statement) ([]engine.Result, error) {
	if !isBatch(stmts) {
		return e.Engine.Exec(ctx, stmts)
	}
	results := make([]engine.Result, len(stmts))
	for i := range stmts {
		st := &stmts[i]
		p := e.parametersOf(st.SQL)
		rows := len(st.Args) / max(p.cols, 1)
		results[i].RowsAffected = int64(rows)
		results[i].LastInsertID = e.seq.Add(int64(rows))
		if p.creates {
			e.remember(p, st.Args)
		}
	}
	return results, nil
}

// isBatch reports whether statements are those of commits or loads: the rows of
// the last one are a list, by name or not, or, if there is one row only, its
// parameters are numbered.
func isBatch(stmts []engine.Statement) bool {
	if len(stmts) == 0 {
		return false
	}
	last := stmts[len(stmts)-1].SQL
	return strings.HasPrefix(last, rowsPrefix) || strings.Contains(last, listPrefix) || strings.Contains(last, idsPrefix) || strings.Contains(last, "?1")
}

const (
	rowsPrefix = "WITH w("
	listPrefix = "VALUES ("
	idsPrefix  = "e.id IN ("
)

// parameters says what the parameters of one row of a statement are, -1 for those
// that it does not have, and what that tells about the statement.
type parameters struct {
	cols, id, data int
	creates        bool // executions
}

// parametersOf reads it from the names in WITH w(...), or from the text up to the
// first of the rows, which are the same for any number of them, so it does so once
// for each kind of statement.
func (e *nullEngine) parametersOf(sql string) parameters {
	list, multi := strings.CutPrefix(sql, rowsPrefix)
	if multi {
		list, _, _ = strings.Cut(list, ")")
	} else if i := strings.Index(sql, listPrefix); i >= 0 {
		row := sql[i+len(listPrefix):]
		list = sql[:len(sql)-len(row)+strings.IndexByte(row, ')')]
	} else {
		list, _, _ = strings.Cut(sql, idsPrefix)
	}
	if p, ok := e.params.Load(list); ok {
		return p.(parameters)
	}
	names := strings.Split(list, ",")
	if !multi {
		names = strings.Split(unnamed(list), ",")
	}
	p := parameters{
		cols: len(names), id: slices.Index(names, "id"), data: slices.Index(names, "data"),
		creates: slices.Index(names, "definition") == 1,
	}
	e.params.Store(strings.Clone(list), p)
	return p
}

// unnamed names the parameters of statements whose rows have none, as far as they
// matter here.
func unnamed(sql string) string {
	for _, s := range [...]struct{ part, names string }{
		{"INSERT INTO executions(", "id,definition,data,token,status"},
		{"UPDATE executions SET definition_id", "id,at,data,token,status,definition"},
		{"UPDATE executions SET data", "id,at,data,token"},
		{" AS processed FROM executions", "n,id,event"},
		{" AS status FROM executions e", "id"},
	} {
		if strings.Contains(sql, s.part) {
			return s.names
		}
	}
	n := strings.Count(sql, "?")
	if strings.Contains(sql, "?1") { // each may be there several times
		for n = 1; strings.Contains(sql, "?"+strconv.Itoa(n+1)); n++ {
		}
	}
	return strings.Repeat("x,", n-1) + "x"
}

// remember keeps the documents of executions that are created.
func (e *nullEngine) remember(p parameters, args []engine.Value) {
	for ; len(args) >= p.cols; args = args[p.cols:] {
		id, _ := args[p.id].Text()
		doc, _ := args[p.data].Text()
		e.docs.Store(id, engine.Text(doc))
	}
}

func (e *nullEngine) Query(ctx context.Context, level engine.Consistency, stmts []engine.Statement) ([]engine.Result, error) {
	if !isBatch(stmts) {
		return e.Engine.Query(ctx, level, stmts)
	}
	results := make([]engine.Result, len(stmts))
	for i := range stmts {
		st := &stmts[i]
		res := &results[i]
		res.Columns = e.columnNames(st.SQL)
		number, data := res.Column("n"), res.Column("data")
		if data < 0 {
			continue // not a load: no rows
		}
		p := e.parametersOf(st.SQL)
		res.Values = make([]engine.Value, 0, len(st.Args)/p.cols*len(res.Columns))
		for r := 0; r+p.cols <= len(st.Args); r += p.cols {
			id, _ := st.Args[r+p.id].Text()
			doc, ok := e.docs.Load(id)
			if !ok {
				continue
			}
			for c, name := range res.Columns {
				switch {
				case c == number:
					res.Values = append(res.Values, st.Args[r])
				case name == "id":
					res.Values = append(res.Values, st.Args[r+p.id])
				case c == data:
					res.Values = append(res.Values, doc.(engine.Value))
				case name == "status":
					res.Values = append(res.Values, engine.Text(string(status)))
				case name == "definition":
					res.Values = append(res.Values, engine.Text(definition))
				case name == "version":
					res.Values = append(res.Values, engine.Int(1))
				case name == "token":
					res.Values = append(res.Values, engine.Text("00000000000000000000000000000000"))
				default:
					res.Values = append(res.Values, engine.Int(0))
				}
			}
		}
	}
	return results, nil
}

// columnNames returns the names that the select list, before or after the
// parameters, gives by AS. The text there is the same for any number of rows, so it is read once.
func (e *nullEngine) columnNames(sql string) []string {
	tail, _, _ := strings.Cut(sql, idsPrefix)
	if strings.HasPrefix(sql, rowsPrefix) {
		tail = sql[strings.LastIndex(sql, "?)")+1:]
	}
	if names, ok := e.names.Load(tail); ok {
		return names.([]string)
	}
	var names []string
	for _, part := range strings.Split(tail, " AS ")[1:] {
		names = append(names, part[:strings.IndexFunc(part+" ", func(r rune) bool { return r == ',' || r == ' ' })])
	}
	e.names.Store(tail, names)
	return names
}
