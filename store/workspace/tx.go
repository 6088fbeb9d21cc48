package workspace

import (
	"context"
	"errors"
	"slices"

	"github.com/quorate/quorate/store"
	"github.com/quorate/quorate/store/engine"
)

// Tx is a transaction on one workspace, inside the function given to
// [Store.Transact], and for its goroutine alone. Every read sees the transaction's
// own writes. Writes are kept until the function returns, so they fail only for
// what can be told before: an error of such an operation leaves the transaction as
// it was, which may go on and commit. A failure of the database, in contrast, ends
// it.
//
// Operations that need the database block under the context they are given. After
// the function has returned, all give [ErrTxDone].
type Tx struct {
	s     *Store
	ref   Ref
	base  snapshot // the row as it was
	snap  snapshot // the row as it will be
	fetch func(ctx context.Context, stmts []engine.Statement) ([]engine.Result, error)

	done   bool
	failed error // of the database

	log         []logged
	inLog       map[string]int // id to place in log
	runs        overlay[Run]
	progress    overlay[Progress]
	schedules   overlay[int64]
	rules       overlay[StoredRule]
	states      map[string]*ruleStates
	stateOrder  []string
	deadLetters []positioned[DeadLetter]
}

// logged is an event of the transaction.
type logged struct {
	record
	envelope Envelope
	ts       int64
	clock    string
}

// snapshot is a workspace's row. A workspace that has none is all zero.
type snapshot struct {
	revision, seq, ts, position int64
}

func snapshotOf(results []engine.Result) (snapshot, error) {
	if len(results) == 0 {
		return snapshot{}, protocol("query", engine.NotApplied, "no result")
	}
	r := rows{res: &results[0]}
	if !r.next() {
		return snapshot{}, r.err
	}
	return snapshot{r.int("revision"), r.int("head_seq"), r.int("head_ts"), r.int("last_position")}, r.err
}

// positioned is a record with its place in the order of creation.
type positioned[T any] struct {
	value    T
	position int64
}

// overlay holds the records of one table that the transaction wrote, by key, and
// the positions of those it knows to be in the database.
type overlay[T any] struct {
	own   map[string]positioned[T]
	order []string         // of first writing
	known map[string]int64 // position by key; 0 if it is not in the database
}

func (o *overlay[T]) get(key string) (T, bool) {
	p, ok := o.own[key]
	return p.value, ok
}

func (o *overlay[T]) put(key string, value T, position int64) {
	if o.own == nil {
		o.own = make(map[string]positioned[T])
	}
	if _, ok := o.own[key]; !ok {
		o.order = append(o.order, key)
	}
	o.own[key] = positioned[T]{value, position}
}

// learn remembers where a key is in the database.
func (o *overlay[T]) learn(key string, position int64) {
	if o.known == nil {
		o.known = make(map[string]int64)
	}
	o.known[key] = position
}

func newTx(s *Store, ref Ref, snap snapshot, fetch func(context.Context, []engine.Statement) ([]engine.Result, error)) *Tx {
	return &Tx{s: s, ref: ref, base: snap, snap: snap, fetch: fetch}
}

// Ref returns the workspace.
func (t *Tx) Ref() Ref { return t.ref }

// usable refuses a transaction that is over or broken.
func (t *Tx) usable() error {
	if t.done {
		return ErrTxDone
	}
	return t.failed
}

// read asks the database, inside the transaction.
func (t *Tx) read(ctx context.Context, stmts ...engine.Statement) ([]engine.Result, error) {
	if err := t.usable(); err != nil {
		return nil, err
	}
	results, err := t.fetch(ctx, stmts)
	if err == nil && len(results) != len(stmts) {
		err = protocol("query", engine.NotApplied, "number of results differs from number of statements")
	}
	if err != nil && !errors.Is(err, ErrTxDone) {
		t.failed = err
	}
	return results, err
}

// broken remembers that what the database holds cannot be read.
func (t *Tx) broken(err error) error {
	if err != nil {
		t.failed = err
	}
	return err
}

// next takes the next position in the order of creation.
func (t *Tx) next() int64 {
	t.snap.position++
	return t.snap.position
}

// HeadSeq returns the position of the last event of the log, this transaction's
// own included, or 0 if there is none. It does not block.
func (t *Tx) HeadSeq() int64 { return t.snap.seq }

// Append adds entries to the end of the log, in order, and returns them as they
// will be there. An id that is in the log, or is given twice, is a
// [*DuplicateError]; the entries before it stay added, the rest is not. No entries
// are no error.
func (t *Tx) Append(ctx context.Context, entries ...Entry) ([]Envelope, error) {
	if err := t.usable(); err != nil {
		return nil, err
	}
	var out []Envelope
	there, err := t.find(ctx, entries)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		r, err := encode(e)
		if err != nil {
			return out, err
		}
		if i, ok := t.inLog[e.ID]; ok {
			own := &t.log[i]
			return out, &DuplicateError{ID: e.ID, Envelope: own.envelope, Same: own.typ == r.typ && own.meta == r.meta && own.event == r.event}
		}
		if old, ok := there[e.ID]; ok {
			return out, &DuplicateError{ID: e.ID, Envelope: old.Envelope, Same: old.same(&r)}
		}
		out = append(out, t.add(r))
	}
	return out, nil
}

// add puts a record at the end of the log.
func (t *Tx) add(r record) Envelope {
	clock := t.s.now()
	t.snap.seq++
	t.snap.ts = max(t.snap.ts, micros(clock))
	l := logged{record: r, ts: t.snap.ts, clock: clock.Format(layout)}
	l.envelope = r.envelope(t.ref, t.snap.seq, l.ts, clock)
	if t.inLog == nil {
		t.inLog = make(map[string]int)
	}
	t.inLog[r.entry.ID] = len(t.log)
	t.log = append(t.log, l)
	return l.envelope
}

// find looks up which of the entries are in the database.
func (t *Tx) find(ctx context.Context, entries []Entry) (map[string]stored, error) {
	if t.base.seq == 0 || len(entries) == 0 {
		return nil, nil
	}
	ids := make([]string, 0, len(entries))
	for _, e := range entries {
		if checkName("Entry.ID", e.ID) == nil {
			ids = append(ids, e.ID)
		}
	}
	if len(ids) == 0 {
		return nil, nil
	}
	results, err := t.read(ctx, byIDs(t.ref, ids)...)
	if err != nil {
		return nil, err
	}
	found, err := storedByID(t.ref, results)
	return found, t.broken(err)
}

// byIDs returns statements that read events by id.
func byIDs(ref Ref, ids []string) []engine.Statement {
	var stmts []engine.Statement
	for part := range slices.Chunk(ids, chunk) {
		a := args(ref)
		cond := oneOf(&a, part)
		stmts = append(stmts, selectOf(eventColumns+" AND event_id"+cond, a))
	}
	return stmts
}

func storedByID(ref Ref, results []engine.Result) (map[string]stored, error) {
	found := make(map[string]stored)
	for i := range results {
		r := rows{res: &results[i]}
		for r.next() {
			e := r.event(ref)
			found[e.ID] = e
		}
		if r.err != nil {
			return nil, r.err
		}
	}
	return found, nil
}

// Envelope returns the event of an id, and whether there is one.
func (t *Tx) Envelope(ctx context.Context, id string) (Envelope, bool, error) {
	if err := t.usable(); err != nil {
		return Envelope{}, false, err
	}
	if err := checkName("id", id); err != nil {
		return Envelope{}, false, err
	}
	if i, ok := t.inLog[id]; ok {
		return t.log[i].envelope, true, nil
	}
	found, err := t.find(ctx, []Entry{{ID: id}})
	e, ok := found[id]
	return e.Envelope, ok, err
}

// Read returns at most limit events behind position after, in order.
func (t *Tx) Read(ctx context.Context, after int64, limit int) ([]Envelope, error) {
	if err := t.usable(); err != nil {
		return nil, err
	}
	if after < 0 || limit < 0 {
		return nil, &store.InvalidError{Field: "Read", Reason: "has a negative bound"}
	}
	var out []Envelope
	if after < t.base.seq && limit > 0 {
		results, err := t.read(ctx, selectOf(eventColumns+" AND seq>?3 AND seq<=?4 ORDER BY seq LIMIT ?5",
			args(t.ref, engine.Int(after), engine.Int(t.base.seq), engine.Int(int64(limit)))))
		if err != nil {
			return nil, err
		}
		if out, err = envelopes(t.ref, results); err != nil {
			return nil, t.broken(err)
		}
	}
	for i := max(0, after-t.base.seq); i < int64(len(t.log)) && len(out) < limit; i++ {
		out = append(out, t.log[i].envelope)
	}
	return out, nil
}
