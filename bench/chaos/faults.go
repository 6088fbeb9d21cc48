package main

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/quorate/quorate/client"
)

// cluster is what a run goes against, and what makes it fail.
type cluster interface {
	name() string
	urls() []string
	options() []client.Option
	// lanes returns sources of faults that are independent of each other.
	lanes() []lane
	// heal makes the cluster whole and waits until it is.
	heal(ctx context.Context) error
	// query asks the database itself, past the library under test.
	query(ctx context.Context, sql string, args ...any) ([][]any, error)
	close() error
}

// lane inflicts one fault, chosen by rng, and makes it good again before it
// returns. When ctx ends it makes haste.
type lane func(ctx context.Context, rng *rand.Rand) fault

// fault is one that was inflicted.
type fault struct {
	kind     string
	kill     bool          // the leader was killed, and the gap has a limit
	at       time.Time     // when it struck
	elected  time.Time     // when a new leader was first seen; zero if none was, or nobody looked
	writable time.Time     // when a new leader first answered a write; zero if none did, or nobody looked
	over     time.Time     // when it was made good
	hits     int           // requests that met it, if it is one that waits for them
	err      error         // it could not be inflicted, or not be made good
	held     time.Duration // how long it was meant to last
}

// carryOut inflicts a fault, lets it last, and makes it good. One that
// could be inflicted only in part is made good as well: a node that had to be
// killed because it would not stop would be missing in all later faults.
func carryOut(do, last, undo func() error) error {
	err := do()
	if err == nil {
		err = last()
	}
	return errors.Join(err, undo())
}

// faultLog keeps the faults of a run.
type faultLog struct {
	mu   sync.Mutex
	list []fault
}

func (l *faultLog) add(f fault) {
	l.mu.Lock()
	l.list = append(l.list, f)
	l.mu.Unlock()
}

func (l *faultLog) all() []fault {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]fault(nil), l.list...)
}

func (l *faultLog) len() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.list)
}

// between returns a random duration.
func between(rng *rand.Rand, lo, hi time.Duration) time.Duration {
	return lo + time.Duration(rng.Int64N(int64(hi-lo)))
}

// deck deals kinds of faults in random order, all of them before any again, so
// that a short run meets each.
type deck struct{ left []int }

func (d *deck) draw(rng *rand.Rand, kinds int) int {
	if len(d.left) == 0 {
		d.left = rng.Perm(kinds)
	}
	kind := d.left[0]
	d.left = d.left[1:]
	return kind
}
