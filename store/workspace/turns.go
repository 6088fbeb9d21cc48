package workspace

import (
	"context"
	"sync"

	"github.com/quorate/quorate/store/internal/retry"
)

// turns lets one transaction at a time of this process work on a workspace, in
// order of arrival, so that they neither lose against each other nor hold a
// connection each while they wait for the row.
type turns struct {
	mu    sync.Mutex
	lines map[Ref]*line
}

// line is the queue of one workspace. Whoever is at its head has the turn.
type line struct {
	waiting []chan struct{}
}

// take waits for its turn, under ctx. The caller must call next when it is done.
func (t *turns) take(ctx context.Context, ref Ref) (next func(), err error) {
	if err := ctx.Err(); err != nil {
		return nil, retry.Ended(ctx)
	}
	next = func() { t.next(ref) }
	t.mu.Lock()
	l := t.lines[ref]
	if l == nil {
		if t.lines == nil {
			t.lines = make(map[Ref]*line)
		}
		t.lines[ref] = &line{}
		t.mu.Unlock()
		return next, nil
	}
	turn := make(chan struct{})
	l.waiting = append(l.waiting, turn)
	t.mu.Unlock()
	select {
	case <-turn:
		return next, nil
	case <-ctx.Done():
	}
	t.mu.Lock()
	for i, w := range l.waiting {
		if w == turn {
			l.waiting = append(l.waiting[:i:i], l.waiting[i+1:]...)
			t.mu.Unlock()
			return nil, retry.Ended(ctx)
		}
	}
	t.mu.Unlock()
	// The turn came at the same moment: pass it on.
	t.next(ref)
	return nil, retry.Ended(ctx)
}

func (t *turns) next(ref Ref) {
	t.mu.Lock()
	defer t.mu.Unlock()
	l := t.lines[ref]
	if len(l.waiting) == 0 {
		delete(t.lines, ref)
		return
	}
	close(l.waiting[0])
	l.waiting = l.waiting[1:]
}

// Waiting returns how many transactions of this store wait for their turn on a
// workspace, behind the one that has it. It does not block.
func (s *Store) Waiting(ref Ref) int {
	s.turns.mu.Lock()
	defer s.turns.mu.Unlock()
	if l := s.turns.lines[ref]; l != nil {
		return len(l.waiting)
	}
	return 0
}
