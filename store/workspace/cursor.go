package workspace

import (
	"context"
	"fmt"

	"github.com/quorate/quorate/store"
	"github.com/quorate/quorate/store/engine"
)

const (
	sqlCursor     = `SELECT seq AS seq FROM quorate_ws_cursors WHERE ` + ofWorkspace + ` AND name=?3`
	sqlSaveCursor = `INSERT INTO quorate_ws_cursors(tenant_id,workspace_id,name,seq) VALUES(?1,?2,?3,?4)` +
		` ON CONFLICT(tenant_id,workspace_id,name) DO UPDATE SET seq=excluded.seq WHERE quorate_ws_cursors.seq<excluded.seq`
)

// Cursor returns the position that a consumer of the log is done with, or 0. It
// blocks for one linearizable read.
func (s *Store) Cursor(ctx context.Context, ref Ref, name string) (int64, error) {
	if err := ref.check(); err != nil {
		return 0, err
	}
	if err := checkName("cursor name", name); err != nil {
		return 0, err
	}
	results, err := s.query(ctx, engine.Linearizable, selectOf(sqlCursor, args(ref, engine.Text(name))))
	if err != nil {
		return 0, fmt.Errorf("read cursor of workspace %v: %w", ref, err)
	}
	r := rows{res: &results[0]}
	if !r.next() {
		return 0, r.err
	}
	return r.int("seq"), r.err
}

// SaveCursor stores the position that a consumer is done with. A cursor never moves
// back: of several saves, in whatever order they arrive, the furthest stays. Save
// what was handled, not what was read. It is independent of transactions; one that
// must move with a transaction's writes belongs into it, as [Progress] does.
// Errors as for [Store.AcquireLease]; saving again is safe.
func (s *Store) SaveCursor(ctx context.Context, ref Ref, name string, seq int64) error {
	if err := ref.check(); err != nil {
		return err
	}
	if err := checkName("cursor name", name); err != nil {
		return err
	}
	if seq < 0 {
		return &store.InvalidError{Field: "seq", Reason: "is negative"}
	}
	_, err := s.write(ctx, "save cursor", ref, engine.Statement{SQL: sqlSaveCursor, Args: args(ref, engine.Text(name), engine.Int(seq))})
	return err
}
