package store

import (
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/quorate/quorate/store/engine"
)

var postgresTraits = engine.Traits{Name: "fake", Dialect: engine.PostgreSQL, MaxParams: 32766, RowsPerStatement: 64, MaxBatchBytes: 1 << 20, Writers: 1, Readers: 1}

func TestTemplatesForPostgresBindEveryColumnOfEveryRow(t *testing.T) {
	for name, tmpl := range allTemplates {
		if tmpl == sqlUpdate {
			continue // not used there: see sqlRedefine
		}
		single := tmpl.forms[engine.PostgreSQL].single
		bound := 0
		for i := range tmpl.cols {
			if strings.Contains(single+" ", "?"+strconv.Itoa(i+1)) {
				bound++
			}
		}
		if bound != tmpl.cols {
			t.Errorf("%s: %d of %d columns in the statement for one row: %s", name, bound, tmpl.cols, single)
		}
		if row := "(VALUES (?" + strings.Repeat(",?", tmpl.cols-1) + "),("; !strings.Contains(tmpl.text(2, engine.PostgreSQL), row) {
			t.Errorf("%s: no %s in %s", name, row, tmpl.text(2, engine.PostgreSQL))
		}
		if strings.Contains(single, "w.") || strings.Contains(single, guard) || strings.Contains(tmpl.text(2, engine.PostgreSQL), guard) {
			t.Errorf("%s: %s", name, single)
		}
	}
}

// Where transactions interleave, the executions come first and in the order of
// their ids, and what belongs to them is guarded on the commit's own token.
func TestExecutionsComeFirstWhereTransactionsInterleave(t *testing.T) {
	s := fakeStore(&fakeEngine{traits: postgresTraits})
	trace := Object{}
	var writes []*Write
	for _, id := range []string{"d", "a", "c", "b"} {
		x := NewExecution("d")
		x.ID = id
		if id > "b" {
			x.Version, x.token, x.tokenKnown, x.baseDefinition, x.baseStatus = 3, newToken(), id == "d", "d", x.Status
		}
		w, err := s.PrepareCommit(&Commit{Execution: x, Emits: []Emit{{Event: Event{ID: "e"}}}, ProcessedEvent: "p", Timers: []TimerOp{{Path: "/a"}}, Trace: &trace})
		if err != nil {
			t.Fatal(err)
		}
		writes = append(writes, w)
	}
	ack, err := s.PrepareAckOutbox(9, 3, 9, 5)
	if err != nil {
		t.Fatal(err)
	}
	timer, err := s.PrepareDeleteTimer(Timer{ExecutionID: "bb", Path: "/a"})
	if err != nil {
		t.Fatal(err)
	}
	b := s.newBatch(append(writes, ack, timer), false)
	var got []string
	for _, st := range b.stmts {
		words := strings.FieldsFunc(st.SQL[strings.LastIndex(st.SQL, ") AS (VALUES")+1:], func(r rune) bool { return r == ' ' || r == '(' || r == ')' || r == '?' || r == ',' })
		for i, w := range words {
			if slices.Contains([]string{"INSERT", "UPDATE", "DELETE", "SELECT"}, w) {
				got = append(got, strings.Join(words[i:min(i+3, len(words))], " "))
				break
			}
		}
		guarded := strings.Contains(st.SQL, guardPostgres) || strings.Contains(st.SQL, "quorate_tx=pg_current_xact_id())")
		if guarded && !slices.ContainsFunc(st.Args, func(v engine.Value) bool { text, _ := v.Text(); return text == writes[0].token }) {
			t.Errorf("%s does not bind the commits' own tokens", st.SQL)
		}
	}
	want := []string{
		"DELETE FROM outbox", "DELETE FROM outbox", "SELECT count CASE", "INSERT INTO executions", "SELECT e.id AS", "SELECT e.id AS", "UPDATE executions SET",
		"DELETE FROM timers", "INSERT INTO outbox", "INSERT INTO processed_events", "INSERT INTO timers", "INSERT INTO trace", "DELETE FROM trace",
	}
	if !slices.Equal(got, want) {
		t.Errorf("statements\n%q\nwant\n%q", got, want)
	}
	ids := func(r *rows) (ids []string) {
		for i := 0; i < len(r.args); i += r.t.cols {
			v, _ := r.args[i].Text()
			ids = append(ids, v)
		}
		return ids
	}
	if !slices.Equal(ids(&b.creates.rows), []string{"a", "b"}) || !slices.Equal(ids(&b.redefines.rows), []string{"c", "d"}) || !slices.Equal(ids(&b.locked), []string{"bb", "c", "d"}) {
		t.Errorf("created %v, updated %v, locked %v", ids(&b.creates.rows), ids(&b.redefines.rows), ids(&b.locked))
	}
	if seqs := b.ackedOutbox.args; len(seqs) != 3 || seqs[0] != engine.Int(3) || seqs[2] != engine.Int(9) {
		t.Errorf("acknowledged %v", seqs)
	}
	// A column has one type, also where the base token is not known.
	for i := 1; i < len(b.redefines.args); i += b.redefines.t.cols {
		if b.redefines.args[i].Kind() != engine.KindText {
			t.Errorf("expectation %v", b.redefines.args[i])
		}
	}
}

func TestRowsAreCutIntoPowersOfTwoForPreparedStatements(t *testing.T) {
	r := rows{t: sqlOutbox, args: make([]engine.Value, 5*100)}
	var got []int
	for _, st := range r.emit(nil, &postgresTraits) {
		got = append(got, len(st.Args)/5)
		if !st.Returning || !strings.Contains(st.SQL, "RETURNING ") {
			t.Errorf("no numbers are returned by %s", st.SQL)
		}
	}
	if !slices.Equal(got, []int{64, 32, 4}) {
		t.Errorf("cut into %v", got)
	}
}

func TestNumbersThatDoNotFollowEachOtherStayUnknown(t *testing.T) {
	s := fakeStore(&fakeEngine{traits: postgresTraits})
	var writes []*Write
	for i := range 3 {
		x := NewExecution("d")
		x.ID = strconv.Itoa(i)
		w, err := s.PrepareCommit(&Commit{Execution: x, Emits: []Emit{{Event: Event{ID: "a"}}, {Event: Event{ID: "b"}}}})
		if err != nil {
			t.Fatal(err)
		}
		writes = append(writes, w)
	}
	b := s.newBatch(writes, false)
	results := make([]engine.Result, len(b.stmts))
	for i := range b.outbox.count {
		results[b.outbox.first+i].Columns = []string{"seq"}
	}
	for i, seq := range []int64{7, 8, 10, 12} {
		at := b.outbox.first
		if i >= 4 {
			at++
		}
		results[at].Values = append(results[at].Values, engine.Int(seq))
	}
	b.assignSeqs(results, []bool{true, false, true})
	if writes[0].commit.outboxSeqs != (SeqRange{First: 7, Len: 2}) || writes[1].commit.outboxSeqs != (SeqRange{}) || writes[2].commit.outboxSeqs != (SeqRange{}) {
		t.Errorf("numbers %+v, %+v, %+v", writes[0].commit.outboxSeqs, writes[1].commit.outboxSeqs, writes[2].commit.outboxSeqs)
	}
}
