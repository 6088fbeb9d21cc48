package faults

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/quorate/quorate/client/rqlitetest"
	"github.com/quorate/quorate/store"
	"github.com/quorate/quorate/store/engine"
)

// answer is an answer as rqlite sends it.
type answer struct {
	Results []map[string]json.RawMessage `json:"results"`
}

// edit changes the results of an answer.
func edit(t *testing.T, change func(results []map[string]json.RawMessage)) rqlitetest.Action {
	return rqlitetest.Edit(func(r *rqlitetest.Response) {
		var a answer
		if err := json.Unmarshal(r.Body, &a); err != nil {
			t.Error(err)
			return
		}
		change(a.Results)
		body, err := json.Marshal(a)
		if err != nil {
			t.Error(err)
		}
		r.Body = body
	})
}

func raw(s string) json.RawMessage { return json.RawMessage(s) }

// CL-04: a commit that loses is a conflict, however the server leaves out or
// misplaces its count of rows.
func TestMissingCountIsAConflict(t *testing.T) {
	for name, change := range map[string]func(results []map[string]json.RawMessage){
		"nothing": func(r []map[string]json.RawMessage) { r[len(r)-1] = map[string]json.RawMessage{} },
		"last insert id": func(r []map[string]json.RawMessage) {
			r[len(r)-1] = map[string]json.RawMessage{"last_insert_id": raw("41")}
		},
		"zero": func(r []map[string]json.RawMessage) {
			r[len(r)-1] = map[string]json.RawMessage{"rows_affected": raw("0")}
		},
		"another's count": func(r []map[string]json.RawMessage) {
			r[len(r)-1] = map[string]json.RawMessage{}
			r[0] = map[string]json.RawMessage{"rows_affected": raw("1"), "last_insert_id": raw("7")}
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				w.create(t, "a")
				stale := w.load(t, "a")
				await(t, w.s.Save(t.Context(), w.load(t, "a")))
				before := w.dump(t)
				fault := w.c.Inject(rqlitetest.Match{Kind: rqlitetest.KindExecute}, edit(t, change))
				_, err := w.s.Commit(t.Context(), full(stale)).Await(t.Context())
				var conflict *store.ConflictError
				if !errors.As(err, &conflict) || conflict.Expected != 1 || conflict.Found != 2 {
					t.Errorf("got %v, want a conflict with version 2", err)
				}
				if fault.Hits() != 1 {
					t.Errorf("%d requests, want 1", fault.Hits())
				}
				if w.dump(t) != before {
					t.Error("the loser left something")
				}
			})
		})
	}
}

// CL-06: the version of a loaded execution is exact, or the load fails and says
// what is wrong with it.
func TestVersionOnTheWire(t *testing.T) {
	for _, c := range []struct {
		value string
		want  int64 // 0 if the load fails
		err   error
	}{
		{"1.7e12", 1_700_000_000_000, nil},
		{"3.0", 3, nil},
		{"9223372036854775807", math.MaxInt64, nil},
		{"9223372036854775808", 0, engine.ErrProtocol},
		{`"3"`, 0, store.ErrInvalidData},
		{"null", 0, store.ErrInvalidData},
		{"3.5", 0, store.ErrInvalidData},
		{"missing", 0, engine.ErrProtocol},
		{"reordered", 1, nil},
	} {
		t.Run(c.value, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				w.create(t, "a")
				w.c.Inject(rqlitetest.Match{Kind: rqlitetest.KindQuery, If: isLoad}, edit(t, func(results []map[string]json.RawMessage) {
					setVersion(t, results[0], c.value)
				}))
				e, err := w.s.Load(t.Context(), "a").Await(t.Context())
				if c.err != nil {
					wantErr(t, err, c.err)
					if err != nil && !strings.Contains(err.Error(), "version") {
						t.Errorf("%v does not name the column", err)
					}
					return
				}
				if err != nil || e.Version != c.want {
					t.Errorf("got %+v, %v, want version %d", e, err, c.want)
				}
			})
		})
	}
}

// isLoad tells loads from the client's own questions.
func isLoad(r *rqlitetest.Request) bool { return bytes.Contains(r.Body, []byte("e.data AS data")) }

// setVersion rewrites the column version of a result.
func setVersion(t *testing.T, result map[string]json.RawMessage, value string) {
	var columns, types []string
	var values [][]json.RawMessage
	for name, into := range map[string]any{"columns": &columns, "types": &types, "values": &values} {
		if err := json.Unmarshal(result[name], into); err != nil {
			t.Error(err)
			return
		}
	}
	at := -1
	for i, name := range columns {
		if name == "version" {
			at = i
		}
	}
	row := values[0]
	switch value {
	case "missing":
		columns = append(columns[:at:at], columns[at+1:]...)
		types = append(types[:at:at], types[at+1:]...)
		row = append(row[:at:at], row[at+1:]...)
	case "reordered":
		last := len(columns) - 1
		columns[at], columns[last] = columns[last], columns[at]
		types[at], types[last] = types[last], types[at]
		row[at], row[last] = row[last], row[at]
	default:
		row[at] = raw(value)
	}
	values[0] = row
	for name, from := range map[string]any{"columns": columns, "types": types, "values": values} {
		b, err := json.Marshal(from)
		if err != nil {
			t.Error(err)
		}
		result[name] = b
	}
}

// CL-07: values are stored as they are and null as null, in every one of many
// equal commits, and no value becomes a part of a statement's text.
func TestParametersAreNeverText(t *testing.T) {
	const odd = "o:x?1@a$b';\n'); DELETE FROM executions;--\"`\\"
	onEach(t, func(t *testing.T, w *world) {
		const n = 200
		for i := range n {
			e := execution(fmt.Sprint(odd, i))
			e.DefinitionID, e.Outcome, e.ActivePath = odd, "", odd
			if err := e.Context.Set("value", odd); err != nil {
				t.Fatal(err)
			}
			if err := e.Context.Set("nil", nil); err != nil {
				t.Fatal(err)
			}
			c := full(e)
			c.Emits[0].Target = odd
			await(t, w.s.Commit(t.Context(), c))
		}
		if w.consistent(t) != n {
			t.Error("not every commit is there")
		}
		for i := range n {
			id := fmt.Sprint(odd, i)
			e := w.load(t, id)
			var value string
			if found, err := e.Context.Get("value", &value); !found || err != nil || value != odd || e.ID != id || e.DefinitionID != odd || e.ActivePath != odd || e.Outcome != "" || e.ParentID != "" {
				t.Fatalf("loaded %+v", e)
			}
		}
		// Each commit has one entry with the target and one with null.
		if a, b := w.number(t, "SELECT count(*) FROM outbox WHERE target_id IS NULL"), w.number(t, "SELECT count(*) FROM outbox WHERE hex(target_id)='"+strings.ToUpper(fmt.Sprintf("%x", odd))+"'"); a != n || b != n {
			t.Errorf("%d entries without and %d with the target, want %d each", a, b, n)
		}
		if w.c == nil {
			return
		}
		checked := 0
		for _, r := range w.c.LogOf(rqlitetest.KindDB) {
			if len(r.Body) == 0 || string(r.Body) == `["SELECT 1"]` {
				continue
			}
			for _, s := range statementsOf(t, r.Body) {
				checked++
				for _, part := range []string{"DELETE FROM executions", "o:x", "@a", "$b", "--"} {
					if strings.Contains(s.SQL, part) {
						t.Fatalf("%q of a value is in the text %q", part, s.SQL)
					}
				}
			}
		}
		if checked < n {
			t.Errorf("only %d statements were seen", checked)
		}
	})
}

// CL-13: a connection that the server closes just as a commit is written costs no
// caller anything, and nothing is applied twice.
func TestCommitsOnConnectionsThatClose(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		e := execution("a")
		const n = 100
		doomed := 0
		for range n {
			e = await(t, w.s.Commit(t.Context(), full(e))).Execution()
			synctest.Wait() // until the node sees that the connection is idle
			doomed += w.c.Leader().DoomIdle()
		}
		if doomed < n/2 {
			t.Errorf("only %d connections were closed", doomed)
		}
		if got := w.consistent(t); got != n {
			t.Errorf("version %d, want %d", got, n)
		}
		if c := w.s.Stats().Outcomes; c.Conflicts != 0 {
			t.Errorf("%+v", c)
		}
	})
}

// The state travels once, however much goes with it.
func TestStateTravelsOnce(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		const size = 100 << 10
		e := execution("large")
		if err := e.Context.Set("mark", "the-state-"+strings.Repeat("x", size)); err != nil {
			t.Fatal(err)
		}
		w.c.ResetLog()
		for range 2 { // creating and updating
			c := full(e)
			for i := range 4 {
				c.Emits = append(c.Emits, store.Emit{Event: event(fmt.Sprint("more/", e.Version, i), e.ID)})
			}
			e = await(t, w.s.Commit(t.Context(), c)).Execution()
		}
		requests := w.c.LogOf(rqlitetest.KindExecute)
		if len(requests) != 2 {
			t.Fatalf("%d requests for two commits", len(requests))
		}
		for _, r := range requests {
			if n := strings.Count(string(r.Body), "the-state-"); n != 1 {
				t.Errorf("the state is in the request %d times", n)
			}
			if n := len(r.Body); n > size+8<<10 {
				t.Errorf("%d bytes for a state of %d", n, size)
			}
		}
	})
}
