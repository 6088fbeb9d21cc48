package store

import (
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/quorate/quorate/store/engine"
)

var allTemplates = map[string]*template{
	"outbox": sqlOutbox, "processed": sqlProcessed, "cancel": sqlCancel, "schedule": sqlSchedule, "spawn": sqlSpawn, "trace": sqlTrace, "trim": sqlTrim,
	"create": sqlCreate, "update": sqlUpdate, "redefine": sqlRedefine, "delete timer": sqlDeleteTimer, "append trace": sqlAppendTrace, "trim appended": sqlTrimAppended,
	"ack outbox": sqlAckOutbox, "ack spawn": sqlAckSpawn, "peek": sqlPeek, "load": sqlLoad, "load for event": sqlLoadForEvent, "is processed": sqlIsProcessed,
}

func TestTemplatesBindEveryColumnOfEveryRow(t *testing.T) {
	for name, tmpl := range allTemplates {
		for i := range tmpl.cols {
			if n := strconv.Itoa(i + 1); !strings.Contains(tmpl.forms[engine.SQLite].single+" ", "?"+n) {
				t.Errorf("%s: the statement for one row lacks ?%s: %s", name, n, tmpl.forms[engine.SQLite].single)
			}
		}
		if strings.Contains(tmpl.forms[engine.SQLite].single, "w.") || strings.Contains(tmpl.forms[engine.SQLite].single, " w ") || strings.HasSuffix(tmpl.forms[engine.SQLite].single, " w") {
			t.Errorf("%s: the statement for one row names the list: %s", name, tmpl.forms[engine.SQLite].single)
		}
		for _, n := range []int{2, 7, 100} {
			text := tmpl.text(n, engine.SQLite)
			if got := strings.Count(text, "?"); got != n*tmpl.cols {
				t.Errorf("%s: %d parameters for %d rows of %d columns", name, got, n, tmpl.cols)
			}
			if strings.Count(text, "(") != strings.Count(text, ")") || strings.Count(text, "'")%2 != 0 {
				t.Errorf("%s: unbalanced: %s", name, text)
			}
		}
		// Time and chance are always parameters.
		for _, f := range []string{"random", "datetime", "CURRENT_", "strftime", "unixepoch", "julianday", "date(", "time("} {
			if strings.Contains(strings.ToLower(tmpl.forms[engine.SQLite].single), strings.ToLower(f)) {
				t.Errorf("%s uses %s", name, f)
			}
		}
	}
	for _, tmpl := range []*template{sqlCreate, sqlUpdate, sqlRedefine} {
		if !strings.Contains(tmpl.text(2, engine.SQLite), "RETURNING id") {
			t.Error("rqlite finds RETURNING by the space after it")
		}
	}
}

func TestRowsAreCutByTheEnginesLimits(t *testing.T) {
	for _, c := range []struct {
		name   string
		traits engine.Traits
		tmpl   *template
		rows   int
		want   []int // rows of each statement
	}{
		{"one each", engine.Traits{MaxParams: 100, RowsPerStatement: 1}, sqlOutbox, 3, []int{1, 1, 1}},
		{"all in one", engine.Traits{MaxParams: 100, RowsPerStatement: 64}, sqlOutbox, 16, []int{16}},
		{"by parameters", engine.Traits{MaxParams: 15, RowsPerStatement: 64}, sqlOutbox, 8, []int{3, 3, 2}},
		{"by rows", engine.Traits{MaxParams: 32766, RowsPerStatement: 5}, sqlOutbox, 11, []int{5, 5, 1}},
		{"fewer parameters than a row has", engine.Traits{MaxParams: 2, RowsPerStatement: 5}, sqlOutbox, 2, []int{1, 1}},
		{"none", engine.Traits{MaxParams: 100, RowsPerStatement: 5}, sqlOutbox, 0, nil},
		{"verdicts", engine.Traits{MaxParams: 32766, RowsPerStatement: 4}, sqlUpdate, 9, []int{4, 4, 1}},
	} {
		r := rows{t: c.tmpl}
		for i := range c.rows * c.tmpl.cols {
			r.args = append(r.args, engine.Int(int64(i)))
		}
		before := []engine.Statement{{SQL: "before"}}
		stmts := r.emit(before, &c.traits)
		if r.first != 1 || r.count != len(stmts)-1 {
			t.Errorf("%s: statements %d and %d of %d", c.name, r.first, r.count, len(stmts))
		}
		var got []int
		next := int64(0)
		for _, st := range stmts[1:] {
			got = append(got, len(st.Args)/c.tmpl.cols)
			if len(st.Args) > c.tmpl.cols && strings.Count(st.SQL, "?") != len(st.Args) {
				t.Errorf("%s: %d arguments for %d parameters", c.name, len(st.Args), strings.Count(st.SQL, "?"))
			}
			if st.Returning != (c.tmpl == sqlUpdate && len(st.Args) > c.tmpl.cols) || st.Returning != strings.Contains(st.SQL, "RETURNING ") {
				t.Errorf("%s: returning %t: %s", c.name, st.Returning, st.SQL)
			}
			for _, a := range st.Args {
				if v, _ := a.Int(); v != next {
					t.Fatalf("%s: argument %d, want %d", c.name, v, next)
				}
				next++
			}
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: rows %v, want %v", c.name, got, c.want)
		}
	}
}

// The guarded writes come before the executions, which change what they test.
func TestExecutionsComeLast(t *testing.T) {
	s := fakeStore(&fakeEngine{traits: fakeTraits})
	trace := Object{}
	var writes []*Write
	for _, base := range []string{"create", "create", "update", "update", "redefine", "redefine"} {
		x := NewExecution("d")
		if base != "create" {
			x.Version, x.token, x.tokenKnown, x.baseDefinition, x.baseStatus = 3, newToken(), true, "d", x.Status
		}
		if base == "redefine" {
			x.DefinitionID = "other"
		}
		w, err := s.PrepareCommit(&Commit{
			Execution: x, Emits: []Emit{{Event: Event{ID: "e"}}}, ProcessedEvent: "p", Timers: []TimerOp{{Path: "/a"}, CancelTimer("/b")}, Spawns: []Spawn{{ChildID: "c"}}, Trace: &trace,
		})
		if err != nil {
			t.Fatal(err)
		}
		writes = append(writes, w)
	}
	b := s.newBatch(writes)
	if len(b.stmts) != 10 {
		t.Fatalf("%d statements for full commits, want one for each table, the trim, and three for the executions", len(b.stmts))
	}
	for i, st := range b.stmts[:7] {
		if !strings.Contains(st.SQL, guard) {
			t.Errorf("statement %d is not guarded: %s", i, st.SQL)
		}
	}
	for i, want := range []string{"INSERT INTO executions", "UPDATE executions SET data", "UPDATE executions SET definition_id"} {
		if st := b.stmts[7+i]; !strings.Contains(st.SQL, want) || !st.Returning || i > 0 && !strings.Contains(st.SQL, isBase) {
			t.Errorf("statement %d: %s", 7+i, st.SQL)
		}
	}
}
