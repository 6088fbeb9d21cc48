package main

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"
)

// slot is an execution that all callers fight over.
type slot struct {
	exec   int32
	h      *history
	latest atomic.Int64 // number of a recent commit on it
}

// hotSet is the few executions that all callers fight over. Each is replaced
// after a while, so that its history stays short enough to check.
type hotSet struct {
	r     *run
	mu    sync.Mutex
	slots []*slot
}

func newHotSet(r *run, n int) *hotSet {
	s := &hotSet{r: r}
	for range n {
		s.slots = append(s.slots, r.newSlot())
	}
	return s
}

func (r *run) newSlot() *slot {
	exec, id := r.journal.execution("hot")
	return &slot{exec: exec, h: &history{id: id}}
}

// pick returns one of the executions and begins an operation on it.
func (s *hotSet) pick(rng *rand.Rand) *slot {
	i := rng.IntN(len(s.slots))
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.slots[i].h.len() >= s.r.cfg.idOps {
		s.r.retire(s.slots[i].h)
		s.slots[i] = s.r.newSlot()
	}
	s.slots[i].h.begin()
	return s.slots[i]
}

// close retires all.
func (s *hotSet) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, slot := range s.slots {
		s.r.retire(slot.h)
	}
}

// retire lets no more operations begin on an execution, and hands its history to
// the checker as soon as it is complete.
func (r *run) retire(h *history) {
	if h.retire() {
		r.checker.add(h)
	}
}
