package workspace

import (
	"context"
	"errors"
	"fmt"

	"github.com/quorate/quorate/store/engine"
	"github.com/quorate/quorate/store/internal/retry"
)

// write sends one statement that does no harm when it is applied twice, again until
// its outcome is definite, and returns how many rows it affected.
func (s *Store) write(ctx context.Context, what string, ref Ref, stmt engine.Statement) (int64, error) {
	if err := s.Outside(ctx); err != nil {
		return 0, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, s.limit, errLimit)
	defer cancel()
	uncertain := false
	pause := retry.Pauses()
	for {
		results, err := s.eng.Exec(ctx, []engine.Statement{stmt})
		if err == nil && len(results) != 1 {
			err = protocol("exec", engine.Unknown, "number of results differs from number of statements")
		}
		if err == nil {
			return results[0].RowsAffected, nil
		}
		definite := engine.OutcomeOf(err) == engine.NotApplied
		if definite && !uncertain {
			return 0, fmt.Errorf("%s of workspace %v: %w", what, ref, err)
		}
		if !definite {
			s.counters.unknown.Add(1)
			uncertain = true
		}
		if refused(err) || errors.Is(err, ErrClosed) || !retry.Sleep(ctx, pause.NextBackOff()) {
			return 0, &UnknownError{Ref: ref, Err: joined(ctx, err)}
		}
	}
}
