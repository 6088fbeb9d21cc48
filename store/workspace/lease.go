package workspace

import (
	"context"
	"time"

	"github.com/quorate/quorate/store"
	"github.com/quorate/quorate/store/engine"
)

const (
	sqlAcquire = `INSERT INTO quorate_ws_leases(tenant_id,workspace_id,name,holder,expires_at) VALUES(?1,?2,?3,?4,?5)` +
		` ON CONFLICT(tenant_id,workspace_id,name) DO UPDATE SET holder=excluded.holder,expires_at=excluded.expires_at` +
		` WHERE quorate_ws_leases.holder=?4 OR quorate_ws_leases.expires_at<=?6`
	sqlRelease = `DELETE FROM quorate_ws_leases WHERE ` + ofWorkspace + ` AND name=?3 AND holder=?4`
)

// AcquireLease makes holder the holder of a lease for ttl, by the store's clock, and
// reports whether it is: nobody held it, or holder did (which renews it, and may
// shorten it), or its time was over. It waits for nobody, and no transaction waits
// for it.
//
// A lease is no fence: its holder may be slower than it thinks, so what is done
// under it must be checked again in a transaction. The clocks of processes are
// trusted to be about equal. For mutual exclusion with fencing tokens there is
// package coordination.
//
// It blocks for one request. Errors: [ErrInvalid], [ErrNested], [ErrUnavailable],
// [ErrClosed], the context's, [ErrOutcomeUnknown]: acquiring again is safe.
func (s *Store) AcquireLease(ctx context.Context, ref Ref, name, holder string, ttl time.Duration) (bool, error) {
	if err := leaseNames(ref, name, holder); err != nil {
		return false, err
	}
	if ttl <= 0 {
		return false, &store.InvalidError{Field: "ttl", Reason: "is not positive"}
	}
	now := s.now()
	n, err := s.write(ctx, "acquire lease", ref, engine.Statement{SQL: sqlAcquire, Args: args(ref, engine.Text(name), engine.Text(holder),
		engine.Int(micros(now.Add(ttl))), engine.Int(micros(now)))})
	return n == 1, err
}

// ReleaseLease gives a lease back. It is no error if holder does not hold it. Errors
// as for [Store.AcquireLease]; after [ErrOutcomeUnknown], release again before you
// acquire again, since a late request may give the new lease back.
func (s *Store) ReleaseLease(ctx context.Context, ref Ref, name, holder string) error {
	if err := leaseNames(ref, name, holder); err != nil {
		return err
	}
	_, err := s.write(ctx, "release lease", ref, engine.Statement{SQL: sqlRelease, Args: args(ref, engine.Text(name), engine.Text(holder))})
	return err
}

func leaseNames(ref Ref, name, holder string) error {
	if err := ref.check(); err != nil {
		return err
	}
	if err := checkName("lease name", name); err != nil {
		return err
	}
	return checkName("holder", holder)
}
