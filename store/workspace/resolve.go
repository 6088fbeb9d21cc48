package workspace

import (
	"context"
	"errors"
	"fmt"

	"github.com/quorate/quorate/store"
	"github.com/quorate/quorate/store/engine"
	"github.com/quorate/quorate/store/internal/retry"
)

// CommitRef identifies one commit of a transaction: it is what a caller keeps in
// order to ask later what became of a commit whose outcome was unknown.
type CommitRef struct {
	Ref
	// Base is the revision that the transaction was built on.
	Base int64
	// Token is the commit's random token.
	Token string
}

// kept is for how many revisions of a workspace their makers are on record.
const kept = 4096

// Resolve tells what became of a transaction that ended with an [*UnknownError],
// whose Commit it takes. An open one was not applied, and may yet be as long as a
// request is on its way; any other write to the workspace settles it. It blocks for
// one linearizable read. Errors: [ErrInvalid], [ErrUnavailable], [ErrClosed], the
// context's.
func (s *Store) Resolve(ctx context.Context, ref CommitRef) (store.Resolution, error) {
	if err := ref.check(); err != nil {
		return store.ResolutionUnclear, err
	}
	if ref.Base < 0 || ref.Token == "" {
		return store.ResolutionUnclear, &store.InvalidError{Field: "CommitRef", Reason: "is not one that a commit had"}
	}
	results, err := s.query(ctx, engine.Linearizable, ref.ask())
	if err != nil {
		return store.ResolutionUnclear, fmt.Errorf("resolve a commit to workspace %v: %w", ref.Ref, err)
	}
	return ref.verdict(&results[0])
}

func (c *CommitRef) ask() engine.Statement {
	return engine.Statement{SQL: sqlAsk, Args: args(c.Ref, engine.Int(c.Base+1))}
}

func (c *CommitRef) verdict(res *engine.Result) (store.Resolution, error) {
	r := rows{res: res}
	if !r.next() {
		return store.ResolutionOpen, nil
	}
	revision, maker := r.int("revision"), r.value("token")
	if r.err != nil {
		return store.ResolutionUnclear, r.err
	}
	token, made := maker.Text()
	switch {
	case made && token == c.Token:
		return store.ResolutionCommitted, nil
	case made:
		return store.ResolutionLost, nil
	case revision <= c.Base:
		return store.ResolutionOpen, nil
	case revision-c.Base >= kept:
		return store.ResolutionUnclear, nil
	}
	return store.ResolutionLost, nil // to an append, which is not on record
}

var errLimit = errors.New("the store's time limit for a write passed")

// joined is why an outcome stayed unknown.
func joined(ctx context.Context, errs ...error) error {
	err := errors.Join(errs...)
	if ctx.Err() == nil {
		return err
	}
	if errors.Is(err, context.Cause(ctx)) && errors.Is(err, ctx.Err()) {
		return err
	}
	return errors.Join(retry.Ended(ctx), err)
}
