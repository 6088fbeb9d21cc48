package store

import (
	"crypto/rand"
	"encoding/hex"
	"time"
)

// Commit is one atomic step of an execution: its new state, and everything that
// happens iff that state is stored.
//
// A commit wins if the execution is still at the version it was loaded with, or,
// for one with version 0, if there is none of its id yet. A commit that loses
// leaves nothing behind. A Commit is read by the call it is given to and may be
// changed or reused as soon as that call has returned. Committing changes nothing
// in the Execution, so the same one committed again conflicts with itself: go on
// with [Committed.Execution], or with Next of the future.
type Commit struct {
	// Execution is the new state, at the version it was loaded with. Committing
	// never changes it. Required.
	Execution *Execution

	// Emits are put into the outbox in the order given.
	Emits []Emit

	// ProcessedEvent is the id of the event that this step handles; it goes into
	// the dedupe ledger. Empty means none. Committing does not test the ledger: an
	// event that is in it already is no error, and the step is applied. Use
	// [Store.LoadForEvent] and skip the step if Processed is true; the version
	// then keeps two workers from both applying it.
	ProcessedEvent string

	// Timers schedules and cancels timers. Of several operations on one path the
	// last one counts.
	Timers []TimerOp

	// Spawns are put into the list of children to create, in the order given.
	Spawns []Spawn

	// Trace is a step for the execution's trace, or nil.
	Trace *Object
}

// Emit is an event for the outbox.
type Emit struct {
	// Target says whom the event is for, usually the id of an execution; empty
	// means nobody in particular. The store does not interpret it.
	Target string
	// Event is the event.
	Event Event
}

// TimerOp schedules or cancels the timer of one path of an execution.
type TimerOp struct {
	// Path names the timer within its execution; it may be empty.
	Path string
	// FireAt is when it is due, in seconds since the Unix epoch. Ignored if
	// Cancel is set. See [EpochSeconds].
	FireAt float64
	// Cancel removes the timer; it is no error if there is none.
	Cancel bool
}

// Schedule returns the operation that sets the timer of path, in place of one
// that may be there.
func Schedule(path string, at time.Time) TimerOp {
	return TimerOp{Path: path, FireAt: EpochSeconds(at)}
}

// CancelTimer returns the operation that removes the timer of path.
func CancelTimer(path string) TimerOp { return TimerOp{Path: path, Cancel: true} }

// Spawn is a child execution to create.
type Spawn struct {
	// ChildID is the id the child shall have.
	ChildID string
	// RootPath is the path within the parent that spawns it.
	RootPath string
	// Context is what the child starts with.
	Context Object
}

// Committed is what a won commit reports.
type Committed struct {
	// ID is the execution, Version its new version.
	ID      string
	Version int64
	// Token is the commit's random token, which the row now carries.
	Token string
	// Outbox and Spawns are the sequence numbers that the emits and spawns got,
	// in order. They are empty if there were none, or if the commit was won by a
	// request whose answer was lost.
	Outbox, Spawns SeqRange

	write *Write
}

// Ref returns the commit's identity.
func (c Committed) Ref() CommitRef {
	if c.write == nil {
		return CommitRef{}
	}
	return c.write.Ref()
}

// Execution returns the state as it was committed, at its new version, ready to
// build the next commit on. Each call returns a copy of its own. It returns nil
// for a zero Committed, which [Store.Update] returns for [ErrSkip].
func (c Committed) Execution() *Execution {
	if c.write == nil {
		return nil
	}
	return c.write.Next()
}

// SeqRange is a run of sequence numbers without gaps.
type SeqRange struct {
	// First is the first number.
	First int64
	// Len is how many there are.
	Len int
}

// At returns the i-th number.
func (r SeqRange) At(i int) int64 { return r.First + int64(i) }

// EpochSeconds converts a time to seconds since the Unix epoch, as timers use
// them. A float64 holds today's times to about a quarter of a microsecond.
func EpochSeconds(t time.Time) float64 {
	return float64(t.Unix()) + float64(t.Nanosecond())/1e9
}

// EpochTime converts seconds since the Unix epoch to a time.
func EpochTime(s float64) time.Time {
	sec := int64(s)
	return time.Unix(sec, int64((s-float64(sec))*1e9)).UTC()
}

// newToken returns 128 random bits in hex. They come from the system, because a
// generator of our own would repeat itself in every clone of a machine's
// snapshot.
func newToken() string {
	var random [16]byte
	rand.Read(random[:]) // never fails: see crypto/rand
	var digits [32]byte
	hex.Encode(digits[:], random[:])
	return string(digits[:])
}
