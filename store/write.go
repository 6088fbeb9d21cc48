package store

import (
	"errors"
	"fmt"
	"math"
	"unicode/utf8"

	"github.com/quorate/quorate/store/engine"
)

// Write is a validated and encoded write, ready to be sent: a commit, or one of
// the writes beside commits. It holds no reference to what the caller may change.
// Make one with the Prepare methods of [Store] and send it with [Store.Apply],
// once.
type Write struct {
	kind writeKind
	// uncertain is set when a request that carried this write ended without a
	// definite answer. From then on a lost compare-and-swap may be this write's
	// own doing, and is looked into before it is called a conflict.
	uncertain bool
	// sameIndexes says that the row already has the definition and the status, if
	// this is a commit and it is won.
	sameIndexes bool

	id    string // the execution, empty for acknowledgements
	size  int
	token string // of a commit or an appended trace step

	commit *commitRows
	*plainRow
}

type writeKind uint8

const (
	writeCommit writeKind = iota
	writeAckOutbox
	writeAckSpawn
	writeDeleteTimer
	writeAppendTrace
)

// plainRow is the content of a write that is not a commit: one of the three.
type plainRow struct {
	seqs  []int64
	timer timerRow
	entry string
}

// commitRows is the content of a commit as rows of the tables.
type commitRows struct {
	*sideRows              // what goes beside the state: noSideRows, or its own
	base      int64        // the version it was built on
	baseToken engine.Value // the token of that version, or null if unknown
	data      string
	// state is what data says. A copy costs less than decoding data would: its
	// texts and Objects are immutable, so it shares them with the caller's.
	state Execution
}

type sideRows struct {
	processed string
	emits     []emitRow
	cancels   []string
	timers    []timerRow
	children  []spawnRow
	trace     string

	outboxSeqs, spawnSeqs SeqRange // what emits and children got, if the commit won
}

// noSideRows is shared by all commits that have none. Nobody writes to it.
var noSideRows = &sideRows{}

// own returns the side rows for writing to them.
func (r *commitRows) own() *sideRows {
	if r.sideRows == noSideRows {
		r.sideRows = &sideRows{}
	}
	return r.sideRows
}

type emitRow struct {
	target engine.Value
	event  string
}

type timerRow struct {
	path   string
	fireAt float64
}

type spawnRow struct{ child, rootPath, context string }

// Key returns the execution whose writes keep their order, or "" for writes
// that have none.
func (w *Write) Key() string { return w.id }

// Size returns about how many bytes the write takes on the way to the database.
func (w *Write) Size() int { return w.size }

// IsCommit reports whether the write is a commit.
func (w *Write) IsCommit() bool { return w.kind == writeCommit }

// Ref returns the identity of a commit.
func (w *Write) Ref() CommitRef {
	r := CommitRef{ID: w.id, Token: w.token}
	if w.commit != nil {
		r.Base = w.commit.base
		r.BaseToken, _ = w.commit.baseToken.Text()
	}
	return r
}

// Next returns the execution as it will be once this commit is won, to build
// the next commit on without waiting for the outcome. The compare-and-swap of
// that next commit tests the token of this one beside the version: if this one
// loses, the next one loses too, whatever the winner wrote. Next must be called
// on a commit.
func (w *Write) Next() *Execution {
	e := w.commit.state
	e.Version++
	e.token, e.tokenKnown, e.baseDefinition, e.baseStatus = w.token, true, e.DefinitionID, e.Status
	return &e
}

// Committed returns the result of a commit that was reported as won.
func (w *Write) Committed() Committed {
	return Committed{ID: w.id, Version: w.commit.base + 1, Token: w.token, Outbox: w.commit.outboxSeqs, Spawns: w.commit.spawnSeqs, write: w}
}

// PrepareCommit validates and encodes a commit. It does not block. The errors
// are [*InvalidError].
func (s *Store) PrepareCommit(c *Commit) (*Write, error) {
	if c == nil {
		return nil, &InvalidError{Field: "Commit", Reason: "is nil"}
	}
	e, l := c.Execution, &s.limits
	if e == nil {
		return nil, &InvalidError{Field: "Execution", Reason: "is nil"}
	}
	if err := l.checkExecution(e); err != nil {
		return nil, err
	}
	// One allocation for both.
	both := &struct {
		w Write
		r commitRows
	}{}
	w, r := &both.w, &both.r
	w.kind, w.id, w.token, w.commit = writeCommit, e.ID, newToken(), r
	r.sideRows, r.base, r.state = noSideRows, e.Version, *e
	if e.tokenKnown && e.Version > 0 {
		r.baseToken = engine.Text(e.token)
		// Only a token of ours tells one row from every other.
		w.sameIndexes = e.token != "" && e.baseDefinition == e.DefinitionID && e.baseStatus == e.Status
	}
	var err error
	if r.data, err = encodeExecution(e, e.Version+1, l.MaxState); err != nil {
		return nil, err
	}
	w.size = len(r.data) + 2*len(w.id) + len(e.DefinitionID) + 160
	if c.ProcessedEvent != "" {
		if err := l.text("ProcessedEvent", c.ProcessedEvent); err != nil {
			return nil, err
		}
		r.own().processed = c.ProcessedEvent
		w.size += len(w.id) + len(r.processed) + 64
	}
	if n := len(c.Emits) + len(c.Timers) + len(c.Spawns); n > l.MaxRows {
		return nil, tooLarge("number of side writes", n, l.MaxRows)
	}
	if err := w.addEmits(l, c.Emits); err != nil {
		return nil, err
	}
	if err := w.addTimers(l, c.Timers); err != nil {
		return nil, err
	}
	if err := w.addSpawns(l, c.Spawns); err != nil {
		return nil, err
	}
	if c.Trace != nil {
		r.own().trace = c.Trace.Raw()
		if err := document("Trace", r.trace, l.MaxState); err != nil {
			return nil, err
		}
		w.size += len(r.trace) + len(w.id) + 64
	}
	if w.size > l.MaxCommit {
		return nil, tooLarge("commit", w.size, l.MaxCommit)
	}
	return w, nil
}

func (l *Limits) checkExecution(e *Execution) error {
	if err := l.name("Execution.ID", e.ID); err != nil {
		return err
	}
	if err := l.name("Execution.DefinitionID", e.DefinitionID); err != nil {
		return err
	}
	if e.Version < 0 || e.Version == math.MaxInt64 {
		return &InvalidError{Field: "Execution.Version", Reason: "is out of range"}
	}
	if !e.Status.Valid() {
		return &InvalidError{Field: "Execution.Status", Reason: "is not one of the statuses"}
	}
	for _, f := range [...]struct{ name, text string }{
		{"DefinitionFQN", e.DefinitionFQN}, {"RootPath", e.RootPath}, {"Outcome", e.Outcome}, {"Error", e.Error},
		{"ActivePath", e.ActivePath}, {"ParentID", e.ParentID}, {"ChildID", e.ChildID},
	} {
		if !utf8.ValidString(f.text) {
			return &InvalidError{Field: "Execution." + f.name, Reason: "is not valid UTF-8"}
		}
	}
	if e.Priority < 0 || e.Priority > 4 {
		return &InvalidError{Field: "Execution.Priority", Reason: "is not within 0 to 4"}
	}
	return nil
}

// encodeExecution returns the execution's JSON with the given version in it.
func encodeExecution(e *Execution, version int64, limit int) (string, error) {
	buf := encodeBuffers.get()
	defer encodeBuffers.put(buf)
	b, err := e.appendJSON((*buf)[:0], version)
	if err != nil {
		return "", &InvalidError{Field: "Execution", Reason: "cannot be encoded: " + err.Error()}
	}
	*buf = b
	data := string(b)
	if err := document("Execution", data, limit); err != nil {
		return "", err
	}
	return data, nil
}

func (w *Write) addEmits(l *Limits, emits []Emit) error {
	if len(emits) == 0 {
		return nil
	}
	rows := make([]emitRow, len(emits))
	w.commit.own().emits = rows
	buf := encodeBuffers.get()
	defer encodeBuffers.put(buf)
	for i := range emits {
		em, row := &emits[i], &rows[i]
		if err := em.encode(l, row, buf); err != nil {
			return inList("Emits", i, err)
		}
		w.size += len(row.event) + len(em.Target) + len(w.id) + 80
	}
	return nil
}

func (em *Emit) encode(l *Limits, row *emitRow, buf *[]byte) error {
	if em.Target != "" {
		if err := l.text("Target", em.Target); err != nil {
			return err
		}
		row.target = engine.Text(em.Target)
	}
	if err := l.name("Event.ID", em.Event.ID); err != nil {
		return err
	}
	if !utf8.ValidString(em.Event.Kind) {
		return &InvalidError{Field: "Event.Kind", Reason: "is not valid UTF-8"}
	}
	b, err := em.Event.appendJSON((*buf)[:0])
	if err != nil {
		return &InvalidError{Field: "Event", Reason: "cannot be encoded: " + err.Error()}
	}
	*buf, row.event = b, string(b)
	return document("Event", row.event, l.MaxState)
}

// inList says that err is about an entry of a list. The name of the field is put
// together only here, when something is wrong.
func inList(list string, i int, err error) error { return within(fmt.Sprintf("%s[%d]", list, i), err) }

func within(field string, err error) error {
	var invalid *InvalidError
	if errors.As(err, &invalid) {
		invalid.Field = field + "." + invalid.Field
	}
	return err
}

// addTimers folds the operations per path, the last one winning.
func (w *Write) addTimers(l *Limits, ops []TimerOp) error {
	if len(ops) == 0 {
		return nil
	}
	rows := w.commit.own()
	var last map[string]int
	if len(ops) > 1 {
		last = make(map[string]int, len(ops))
		for i := range ops {
			last[ops[i].Path] = i
		}
	}
	for i := range ops {
		op := &ops[i]
		fireAt, err := l.checkTimer(op)
		if err != nil {
			return inList("Timers", i, err)
		}
		if last != nil && last[op.Path] != i {
			continue
		}
		if op.Cancel {
			rows.cancels = append(rows.cancels, op.Path)
		} else {
			rows.timers = append(rows.timers, timerRow{path: op.Path, fireAt: fireAt})
		}
		w.size += len(op.Path) + len(w.id) + 64
	}
	return nil
}

func (l *Limits) checkTimer(op *TimerOp) (float64, error) {
	if err := l.text("Path", op.Path); err != nil {
		return 0, err
	}
	if op.Cancel {
		return 0, nil
	}
	if math.IsNaN(op.FireAt) || math.IsInf(op.FireAt, 0) {
		return 0, &InvalidError{Field: "FireAt", Reason: "is not a finite number"}
	}
	return op.FireAt + 0, nil // adding zero turns -0 into 0
}

func (w *Write) addSpawns(l *Limits, spawns []Spawn) error {
	if len(spawns) == 0 {
		return nil
	}
	rows := make([]spawnRow, len(spawns))
	w.commit.own().children = rows
	for i := range spawns {
		row := &rows[i]
		if err := spawns[i].encode(l, row); err != nil {
			return inList("Spawns", i, err)
		}
		w.size += len(row.child) + len(row.rootPath) + len(row.context) + len(w.id) + 80
	}
	return nil
}

func (sp *Spawn) encode(l *Limits, row *spawnRow) error {
	if err := l.name("ChildID", sp.ChildID); err != nil {
		return err
	}
	if err := l.text("RootPath", sp.RootPath); err != nil {
		return err
	}
	*row = spawnRow{child: sp.ChildID, rootPath: sp.RootPath, context: sp.Context.Raw()}
	return document("Context", row.context, l.MaxState)
}

// PrepareAckOutbox validates the acknowledgement of outbox entries. It does not
// block. The errors are [*InvalidError].
func (s *Store) PrepareAckOutbox(seqs ...int64) (*Write, error) {
	return s.prepareAck(writeAckOutbox, seqs)
}

// PrepareAckSpawn validates the acknowledgement of spawns. It does not block.
// The errors are [*InvalidError].
func (s *Store) PrepareAckSpawn(seqs ...int64) (*Write, error) {
	return s.prepareAck(writeAckSpawn, seqs)
}

func (s *Store) prepareAck(kind writeKind, seqs []int64) (*Write, error) {
	if len(seqs) > s.limits.MaxRows {
		return nil, tooLarge("number of acknowledgements", len(seqs), s.limits.MaxRows)
	}
	return &Write{kind: kind, plainRow: &plainRow{seqs: append([]int64(nil), seqs...)}, size: 64 + 12*len(seqs)}, nil
}

// PrepareDeleteTimer validates the removal of a timer. It does not block. The
// errors are [*InvalidError].
func (s *Store) PrepareDeleteTimer(t Timer) (*Write, error) {
	if err := s.limits.name("Timer.ExecutionID", t.ExecutionID); err != nil {
		return nil, err
	}
	fireAt, err := s.limits.checkTimer(&TimerOp{Path: t.Path, FireAt: t.FireAt})
	if err != nil {
		return nil, within("Timer", err)
	}
	return &Write{kind: writeDeleteTimer, id: t.ExecutionID, plainRow: &plainRow{timer: timerRow{path: t.Path, fireAt: fireAt}}, size: 128 + len(t.ExecutionID) + len(t.Path)}, nil
}

// PrepareAppendTrace validates a trace step. It does not block. The errors are
// [*InvalidError].
func (s *Store) PrepareAppendTrace(id string, step Object) (*Write, error) {
	if err := s.limits.name("id", id); err != nil {
		return nil, err
	}
	entry := step.Raw()
	if err := document("step", entry, s.limits.MaxState); err != nil {
		return nil, err
	}
	return &Write{kind: writeAppendTrace, id: id, token: newToken(), plainRow: &plainRow{entry: entry}, size: 128 + len(id) + len(entry)}, nil
}
