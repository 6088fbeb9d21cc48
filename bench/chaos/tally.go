package main

import (
	"context"
	"errors"
	"maps"
	"sync"
	"sync/atomic"

	"github.com/quorate/quorate/store"
	"github.com/quorate/quorate/store/engine"
)

// tally counts operations by their results.
type tally struct {
	ok, conflicts, refused, unknown atomic.Int64
	loads, failedLoads, acks        atomic.Int64

	mu      sync.Mutex
	reasons map[string]int
}

func (t *tally) commit(v verdict, err error) {
	switch v {
	case verdictOK:
		t.ok.Add(1)
	case verdictConflict:
		t.conflicts.Add(1)
	case verdictUnknown:
		t.unknown.Add(1)
		t.because("unknown: ", err)
	default:
		t.refused.Add(1)
		t.because("commit refused: ", err)
	}
}

func (t *tally) load(err error) {
	if t.loads.Add(1); err != nil {
		t.failedLoads.Add(1)
		t.because("load failed: ", err)
	}
}

// because counts the reason of an error. Those that faults explain are told in a
// word, others in full.
func (t *tally) because(what string, err error) {
	reason := err.Error()
	var ue *store.UnknownError
	if errors.As(err, &ue) && ue.Seen && ue.Err == nil {
		reason = "the answer was lost and the execution has moved on"
	}
	for _, known := range []struct {
		is   error
		name string
	}{
		{store.ErrOverloaded, "overloaded"},
		{store.ErrClosed, "closed"},
		{engine.ErrNoLeader, "no leader"},
		{store.ErrUnavailable, "unavailable, or queued for longer than the store's time limit"},
		{context.DeadlineExceeded, "the caller's time was up"},
	} {
		if errors.Is(err, known.is) {
			reason = known.name
			break
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.reasons == nil {
		t.reasons = make(map[string]int)
	}
	if key := what + reason; t.reasons[key] > 0 || len(t.reasons) < 30 {
		t.reasons[key]++
	} else {
		t.reasons[what+"other"]++
	}
}

func (t *tally) why() map[string]int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return maps.Clone(t.reasons)
}
