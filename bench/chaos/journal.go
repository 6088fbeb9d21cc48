package main

import (
	"fmt"
	"sync"

	"github.com/quorate/quorate/store"
)

// record is one commit that was asked for. Its number, which is its position in
// the journal plus one, is in its state and in each of its side writes, so that
// the database tells of every row which commit it came with.
type record struct {
	exec    int32 // position of the execution's id
	base    mark
	sides   sides
	verdict verdict
	acked   verdict // of the acknowledgement of its first event, if one was sent
}

// sides are the side writes of a commit, as a set.
type sides uint16

const (
	sideSecondEmit sides = 1 << iota // each commit has one emit at least
	sideProcessed
	sideTimerA // schedules the timer of path "a"
	sideTimerB
	sideCancelA
	sideCancelB
	sideSpawn
	sideTrace
)

func (s sides) has(side sides) bool { return s&side != 0 }

// emits is how many events the commit puts into the outbox.
func (s sides) emits() int {
	if s.has(sideSecondEmit) {
		return 2
	}
	return 1
}

// journal keeps all commits of a run, and what was asked beside them.
type journal struct {
	mu       sync.Mutex
	ids      []string
	commits  []record
	unknown  map[int64]store.CommitRef
	lookups  []lookup
	byID     map[string]int32
	prefixed string
}

// lookup is the answer to whether an execution had processed the event of a
// commit, and the state it was seen with.
type lookup struct {
	exec      int32
	commit    int64
	seen      mark
	processed bool
}

func newJournal(prefix string) *journal {
	return &journal{unknown: make(map[int64]store.CommitRef), byID: make(map[string]int32), prefixed: prefix}
}

// execution makes up a new execution.
func (j *journal) execution(kind string) (exec int32, id string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	exec = int32(len(j.ids))
	id = fmt.Sprintf("%s-%s-%d", j.prefixed, kind, exec)
	j.ids = append(j.ids, id)
	j.byID[id] = exec
	return exec, id
}

// begin enters a commit that is about to be asked for, and returns its number.
func (j *journal) begin(exec int32, base mark, s sides) int64 {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.commits = append(j.commits, record{exec: exec, base: base, sides: s})
	return int64(len(j.commits))
}

// end enters what a commit came back with.
func (j *journal) end(n int64, v verdict, ref store.CommitRef) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.commits[n-1].verdict = v
	if v == verdictUnknown {
		j.unknown[n] = ref
	}
}

// ack enters what the acknowledgement of a commit's first event came back with.
func (j *journal) ack(n int64, v verdict) {
	j.mu.Lock()
	j.commits[n-1].acked = v
	j.mu.Unlock()
}

func (j *journal) looked(l lookup) {
	j.mu.Lock()
	j.lookups = append(j.lookups, l)
	j.mu.Unlock()
}

// The names of side writes. Those of commit 7 are e7.0, e7.1, p7, s7.
func eventID(n int64, k int) string { return fmt.Sprintf("e%d.%d", n, k) }
func processedID(n int64) string    { return fmt.Sprintf("p%d", n) }
func childID(n int64) string        { return fmt.Sprintf("s%d", n) }
func parse(s, f string, v ...any) bool {
	k, err := fmt.Sscanf(s, f, v...)
	return err == nil && k == len(v)
}

// build makes the commit of that number: its state on e, and its side writes.
func build(e *store.Execution, n int64, s sides) (*store.Commit, error) {
	if err := e.Context.Set("n", n); err != nil {
		return nil, err
	}
	e.Status = store.StatusRunning
	c := &store.Commit{Execution: e}
	for k := range s.emits() {
		c.Emits = append(c.Emits, store.Emit{Target: e.ID, Event: store.Event{ID: eventID(n, k), Kind: "chaos"}})
	}
	if s.has(sideProcessed) {
		c.ProcessedEvent = processedID(n)
	}
	for _, t := range [...]struct {
		set, cancel sides
		path        string
	}{{sideTimerA, sideCancelA, "a"}, {sideTimerB, sideCancelB, "b"}} {
		if s.has(t.cancel) {
			c.Timers = append(c.Timers, store.CancelTimer(t.path))
		}
		if s.has(t.set) { // the last operation on a path counts
			c.Timers = append(c.Timers, store.TimerOp{Path: t.path, FireAt: float64(n)})
		}
	}
	step, err := store.NewObject(map[string]int64{"n": n})
	if err != nil {
		return nil, err
	}
	if s.has(sideSpawn) {
		c.Spawns = append(c.Spawns, store.Spawn{ChildID: childID(n), RootPath: "r", Context: step})
	}
	if s.has(sideTrace) {
		c.Trace = &step
	}
	return c, nil
}

// markOf reads the mark out of a loaded execution.
func markOf(e *store.Execution) (mark, error) {
	m := mark{Version: e.Version}
	found, err := e.Context.Get("n", &m.Commit)
	if err == nil && !found {
		err = fmt.Errorf("execution %s at version %d holds no commit number", e.ID, e.Version)
	}
	return m, err
}
