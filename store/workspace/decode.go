package workspace

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/quorate/quorate/store/engine"
)

// rows walks over a result whose columns are known. The first thing that is not as
// it should be is kept as its error.
type rows struct {
	res *engine.Result
	row []engine.Value
	at  int // of the next row
	err error
}

func (r *rows) next() bool {
	if r.err != nil || r.at >= r.res.Len() {
		return false
	}
	r.row = r.res.Row(r.at)
	r.at++
	return true
}

func (r *rows) value(name string) engine.Value {
	i := r.res.Column(name)
	if i < 0 {
		r.fail(name)
		return engine.Null()
	}
	return r.row[i]
}

func (r *rows) fail(name string) {
	if r.err == nil {
		r.err = protocol("query", engine.NotApplied, fmt.Sprintf("column %q is missing or of another kind", name))
	}
}

func (r *rows) int(name string) int64 {
	n, ok := r.value(name).Int()
	if !ok {
		r.fail(name)
	}
	return n
}

func (r *rows) text(name string) string {
	s, ok := r.value(name).Text()
	if !ok {
		r.fail(name)
	}
	return s
}

// document decodes a JSON column.
func (r *rows) document(name string, into any) {
	s := r.text(name)
	if r.err != nil {
		return
	}
	if err := json.Unmarshal([]byte(s), into); err != nil {
		r.err = fmt.Errorf("stored document %q: %w", name, err)
	}
}

// stored is an event as it is in the database.
type stored struct {
	Envelope
	token string
	meta  string
}

func (r *rows) event(ref Ref) stored {
	e := stored{token: r.text("token"), meta: r.text("entry")}
	e.Seq, e.WorkspaceID = r.int("seq"), ref.Workspace
	e.ID, e.Type = r.text("event_id"), r.text("event_type")
	e.Event = json.RawMessage(r.text("event"))
	var meta entryMeta
	r.document("entry", &meta)
	e.Actor, e.Causation, e.CorrelationID, e.TraceParent = meta.Actor, meta.Causation, meta.CorrelationID, meta.TraceParent
	ts, clock := r.int("ts"), r.text("clock")
	if r.err != nil {
		return e
	}
	at, err := time.Parse(layout, clock)
	if err != nil {
		r.err = fmt.Errorf("time of event %q: %w", e.ID, err)
		return e
	}
	e.TS = stamp(ts, at)
	return e
}

// envelopes reads the events of results.
func envelopes(ref Ref, results []engine.Result) ([]Envelope, error) {
	n := 0
	for i := range results {
		n += results[i].Len()
	}
	if n == 0 {
		return nil, nil
	}
	out := make([]Envelope, 0, n)
	for i := range results {
		r := rows{res: &results[i]}
		for r.next() {
			out = append(out, r.event(ref).Envelope)
		}
		if r.err != nil {
			return nil, r.err
		}
	}
	return out, nil
}

// same reports whether what is stored is the record's event, its time aside.
func (e *stored) same(r *record) bool {
	return e.Type == r.typ && e.meta == r.meta && string(e.Event) == r.event
}
