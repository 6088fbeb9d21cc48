package store

import (
	"context"
	"errors"
	"fmt"

	"github.com/quorate/quorate/store/internal/retry"
)

// ErrSkip, returned by the function given to [Store.Update], ends the update
// without a commit and without an error.
var ErrSkip = errors.New("skip this update")

// Updater is what [Update] works on: a [*Store], or another face of one.
type Updater interface {
	Load(ctx context.Context, id string) (*Execution, error)
	Commit(ctx context.Context, c *Commit) (Committed, error)
	UpdateAttempts() int
}

// UpdateAttempts is how often [Store.Update] tries: see [WithUpdateAttempts].
func (s *Store) UpdateAttempts() int { return s.retries }

// Update loads an execution, lets fn prepare a commit on it, commits, and begins
// again if another commit came in between, up to the number of attempts set by
// [WithUpdateAttempts]. The Commit that fn gets holds the loaded execution; fn
// changes it and adds what shall happen beside it. fn may be called several
// times and must not keep anything from one call to the next.
//
// Update returns fn's error as it is, except [ErrSkip]: then it returns a zero
// Committed and no error. Other errors are those of [Store.Load] and
// [Store.Commit].
func (s *Store) Update(ctx context.Context, id string, fn func(*Commit) error) (Committed, error) {
	return Update(ctx, s, id, fn)
}

// Update is the loop behind [Store.Update], for other faces of a store.
func Update(ctx context.Context, s Updater, id string, fn func(*Commit) error) (Committed, error) {
	pause := retry.Pauses()
	for attempt := 1; ; attempt++ {
		e, err := s.Load(ctx, id)
		if err != nil {
			return Committed{}, err
		}
		c := &Commit{Execution: e}
		if err := fn(c); errors.Is(err, ErrSkip) {
			return Committed{}, nil
		} else if err != nil {
			return Committed{}, err
		}
		done, err := s.Commit(ctx, c)
		if err == nil || !errors.Is(err, ErrConflict) || attempt >= s.UpdateAttempts() {
			return done, err
		}
		if !retry.Sleep(ctx, pause.NextBackOff()) {
			return Committed{}, fmt.Errorf("update execution %q: %w: %w", id, ctx.Err(), err)
		}
	}
}
