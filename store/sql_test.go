package store

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/quorate/quorate/store/engine"
)

var allTemplates = map[string]*template{
	"lost":   sqlLost,
	"outbox": sqlOutbox, "processed": sqlProcessed, "cancel": sqlCancel, "schedule": sqlSchedule, "spawn": sqlSpawn, "trace": sqlTrace, "trim": sqlTrim,
	"create": sqlCreate, "update": sqlUpdate, "redefine": sqlRedefine, "delete timer": sqlDeleteTimer, "append trace": sqlAppendTrace, "trim appended": sqlTrimAppended,
	"ack outbox": sqlAckOutbox, "ack spawn": sqlAckSpawn, "peek": sqlPeek, "load": sqlLoad, "load for event": sqlLoadForEvent, "is processed": sqlIsProcessed,
}

func TestTemplatesBindEveryColumnOfEveryRow(t *testing.T) {
	all := maps.Clone(allTemplates)
	for name, tmpl := range allTemplates {
		if tmpl.sifted != nil {
			all["sifted "+name] = tmpl.sifted
		}
		if tmpl.unanimous != nil {
			all["unanimous "+name] = tmpl.unanimous
		}
	}
	for name, tmpl := range all {
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

// fullCommits prepares commits with side writes of every kind: two that create,
// two that update, two that change the definition.
func fullCommits(t *testing.T, s *Store) []*Write {
	t.Helper()
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
	return writes
}

// What is guarded comes before the executions, which change what the guard tests.
func TestExecutionsComeLast(t *testing.T) {
	decisions := []string{"INSERT INTO executions", "UPDATE executions SET data", "UPDATE executions SET definition_id"}
	t.Run("sifted", func(t *testing.T) {
		s := fakeStore(&fakeEngine{traits: fakeTraits})
		b := s.newBatch(fullCommits(t, s), false)
		if len(b.stmts) != 12 {
			t.Fatalf("%d statements for full commits, want two that sift, one for each table, the trim, and three for the executions", len(b.stmts))
		}
		if st := b.stmts[0]; st.SQL != sqlForgetLost {
			t.Errorf("first statement: %s", st.SQL)
		}
		if st := b.stmts[1]; !strings.Contains(st.SQL, guard) || !st.Returning || len(st.Args) != 2*6 {
			t.Errorf("second statement, of %d arguments: %s", len(st.Args), st.SQL)
		}
		for i, st := range b.stmts[2:] {
			if !strings.Contains(st.SQL, isNotLost) || strings.Contains(st.SQL, guard) || strings.Contains(st.SQL, "w.at") || st.Returning {
				t.Errorf("statement %d is not for a sifted batch: %s", 2+i, st.SQL)
			}
		}
		for i, want := range decisions {
			if st := b.stmts[9+i]; !strings.Contains(st.SQL, want) {
				t.Errorf("statement %d: %s", 9+i, st.SQL)
			}
		}
	})
	t.Run("each row for itself", func(t *testing.T) {
		traits := fakeTraits
		traits.RowsPerStatement = 1
		s := fakeStore(&fakeEngine{traits: traits})
		b := s.newBatch(fullCommits(t, s), false)
		if len(b.stmts) != 6*8 {
			t.Fatalf("%d statements, want eight for each commit", len(b.stmts))
		}
		for i, st := range b.stmts {
			if strings.Contains(st.SQL, "quorate_lost") {
				t.Errorf("statement %d: %s", i, st.SQL)
			}
			if decides := i >= 6*7; decides != strings.Contains(st.SQL, "INTO executions") && decides != strings.Contains(st.SQL, "UPDATE executions") {
				t.Errorf("statement %d: %s", i, st.SQL)
			}
		}
	})
}

// The verdicts of a sifted batch are those ids that it does not return, and the
// counts have to bear them out.
func TestVerdictsOfASiftedBatch(t *testing.T) {
	s := fakeStore(&fakeEngine{traits: fakeTraits})
	writes := fullCommits(t, s)
	b := s.newBatch(writes, false)
	answer := func(lost []string, affected ...int64) []engine.Result {
		results := make([]engine.Result, len(b.stmts))
		var values []engine.Value
		for _, id := range lost {
			values = append(values, engine.Text(id))
		}
		results[1] = engine.Result{Columns: []string{"id"}, Values: values}
		for i, n := range affected {
			results[9+i].RowsAffected = n
		}
		return results
	}
	for _, c := range []struct {
		name string
		res  []engine.Result
		want []bool // nil: the results do not tell
	}{
		{"all win", answer(nil, 2, 2, 2), []bool{true, true, true, true, true, true}},
		{"one of each loses", answer([]string{writes[0].id, writes[3].id, writes[4].id}, 1, 1, 1), []bool{false, true, true, false, false, true}},
		{"in another order", answer([]string{writes[4].id, writes[0].id}, 1, 2, 1), []bool{false, true, true, true, false, true}},
		{"all lose", answer([]string{writes[5].id, writes[4].id, writes[3].id, writes[2].id, writes[1].id, writes[0].id}, 0, 0, 0), make([]bool, 6)},
		{"fewer written than won", answer(nil, 2, 1, 2), nil},
		{"more written than won", answer([]string{writes[2].id}, 2, 2, 2), nil},
		{"a stranger loses", answer([]string{"somebody"}, 2, 2, 2), nil},
		{"one loses twice", answer([]string{writes[0].id, writes[0].id}, 1, 2, 2), nil},
	} {
		got, ok := b.winners(c.res)
		if ok != (c.want != nil) || ok && !slices.Equal(got, c.want) {
			t.Errorf("%s: %v %t, want %v", c.name, got, ok, c.want)
		}
	}
}

// Sifting costs a statement and a look at each execution, which few side writes do
// not bring in.
func TestWhatIsWorthSifting(t *testing.T) {
	s := fakeStore(&fakeEngine{traits: fakeTraits})
	full := fullCommits(t, s)
	plain := func() *Write {
		w, err := s.PrepareCommit(&Commit{Execution: NewExecution("d")})
		if err != nil {
			t.Fatal(err)
		}
		return w
	}
	one, postgres := fakeTraits, fakeTraits
	one.RowsPerStatement, postgres.Dialect = 1, engine.PostgreSQL
	for _, c := range []struct {
		name   string
		writes []*Write
		traits engine.Traits
		want   bool
	}{
		{"full commits", full, fakeTraits, true},
		{"a single one", full[:1], fakeTraits, false},
		{"without side writes", []*Write{plain(), plain()}, fakeTraits, false},
		{"side writes of one among many", []*Write{full[0], plain(), plain(), plain(), plain(), plain(), plain()}, fakeTraits, false},
		{"one row a statement", full, one, false},
		{"where transactions interleave", full, postgres, false},
		{"nothing", nil, fakeTraits, false},
	} {
		if got := worthSifting(c.writes, &c.traits); got != c.want {
			t.Errorf("%s: %t, want %t", c.name, got, c.want)
		}
	}
}
