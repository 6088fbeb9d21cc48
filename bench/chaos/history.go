package main

import (
	"sync"
	"sync/atomic"
)

// clock orders the beginnings and ends of operations. A counter does that
// strictly, where two readings of a real clock may be equal.
type clock struct{ ticks atomic.Int64 }

func (c *clock) tick() int64 { return c.ticks.Add(1) }

// verdict is what an operation came back with.
type verdict uint8

const (
	verdictPending  verdict = iota
	verdictOK               // acknowledged, or read
	verdictConflict         // lost its compare-and-swap
	verdictRefused          // not applied, for another reason
	verdictUnknown          // nobody can tell
)

// String returns the verdict in a word.
func (v verdict) String() string {
	return [...]string{"pending", "ok", "conflict", "refused", "unknown"}[v]
}

// mark is a state of an execution as its readers see it: its version, and the
// number of the commit that made it. The zero mark is that of an execution that
// does not exist.
type mark struct {
	Version int64 `json:"version"`
	Commit  int64 `json:"commit"`
}

// unseen stands for a version that nobody looked at.
const unseen int64 = -2

// operation is one commit or load of an execution.
type operation struct {
	Caller  int     `json:"caller"`
	Commit  int64   `json:"commit,omitempty"` // number of the commit, 0 for a load
	Base    mark    `json:"base"`             // what a commit was built on
	Verdict verdict `json:"verdict"`
	Found   mark    `json:"found"` // what a load read; the version a conflict found
	Call    int64   `json:"call"`
	Return  int64   `json:"return"`

	lane int // for drawing
}

// history is what was done to one execution, and by whom.
type history struct {
	id string

	mu      sync.Mutex
	ops     []operation
	open    int  // operations that have not ended
	retired bool // no new ones will begin
	taken   bool // the checker has it
}

// begin notes that an operation is about to be asked for. It returns false if
// the execution takes no new ones.
func (h *history) begin() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.retired {
		return false
	}
	h.open++
	return true
}

// end records operations, of which refused ones left no trace to check, and lets
// go of what begin took. It returns true if the history is complete.
func (h *history) end(ops ...operation) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, op := range ops {
		if op.Verdict != verdictRefused {
			h.ops = append(h.ops, op)
		}
	}
	h.open--
	return h.complete()
}

// retire lets no new operation begin. It returns true if the history is complete.
func (h *history) retire() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.retired = true
	return h.complete()
}

// complete returns true once: the caller is then the history's only owner.
func (h *history) complete() bool {
	if !h.retired || h.open > 0 || h.taken {
		return false
	}
	h.taken = true
	return true
}

func (h *history) len() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.ops)
}
