package store

import (
	"context"
	"errors"
	"fmt"

	"github.com/quorate/quorate/store/engine"
	"github.com/quorate/quorate/store/internal/retry"
)

// peeked is what a row says about the commits made to it.
type peeked struct {
	version int64 // NoVersion if there is no row
	token   string
	invalid bool // the version is not a number, so that no commit can win
}

// peek reads version and token of executions. Ids without a row are absent from
// the map.
func (s *Store) peek(ctx context.Context, ids []string) (map[string]peeked, error) {
	r := rows{t: sqlPeek, args: make([]engine.Value, 0, len(ids))}
	for _, id := range ids {
		r.args = append(r.args, engine.Text(id))
	}
	stmts := r.emit(nil, &s.traits)
	results, err := s.query(ctx, engine.Linearizable, stmts)
	if err != nil {
		return nil, err
	}
	found := make(map[string]peeked, len(ids))
	for i := range results {
		res := &results[i]
		cols, err := columns(res, "id", "version", "token")
		if err != nil {
			return nil, err
		}
		for r := range res.Len() {
			row := res.Row(r)
			id, _ := row[cols[0]].Bytes()
			version, ok := row[cols[1]].Int()
			token, _ := row[cols[2]].Bytes()
			found[id] = peeked{version: version, token: token, invalid: !ok}
		}
	}
	return found, nil
}

// judge finds out what became of writes that lost, or seem to have lost, their
// compare-and-swap. refusal is the error of the last send, if it was refused.
func (a *application) judge(index []int, refusal error) {
	ids := make([]string, 0, len(index))
	for _, at := range index {
		if a.all[at].IsCommit() {
			ids = append(ids, a.all[at].id)
		}
	}
	rows, err := a.s.peek(a.ctx, ids)
	var again []int
	for _, at := range index {
		w := a.all[at]
		if !w.IsCommit() {
			// Beside commits only a refusal leads here: an earlier send of this
			// write may have been applied.
			a.reportUnknown(at, UnknownError{}, refusal)
			continue
		}
		if err != nil {
			a.reportUnknown(at, UnknownError{}, errors.Join(refusal, err))
			continue
		}
		row, there := rows[w.id]
		if !there {
			row.version = NoVersion
		}
		switch v := w.verdict(row); {
		case v == verdictWon:
			a.s.counters.recovered.Add(1)
			a.report(at, nil)
		case row.invalid && !w.uncertain:
			a.report(at, &InvalidDataError{ID: w.id, Reason: invalidVersion})
		case row.invalid:
			a.reportUnknown(at, UnknownError{}, errors.Join(refusal, &InvalidDataError{ID: w.id, Reason: invalidVersion}))
		case refusal == nil && (v == verdictLost || !w.uncertain):
			// A definite answer that the CAS was lost stays one, whatever the
			// row says by now.
			a.s.counters.conflicts.Add(1)
			a.report(at, &ConflictError{ID: w.id, Expected: w.commit.base, Found: row.version})
		case v == verdictLost:
			a.s.counters.conflicts.Add(1)
			a.report(at, &ConflictError{ID: w.id, Expected: w.commit.base, Found: row.version})
		case v == verdictOpen && refusal == nil:
			again = append(again, at)
		default:
			a.reportUnknown(at, UnknownError{Found: row.version, Seen: true}, refusal)
		}
	}
	if len(again) > 0 {
		if !retry.Sleep(a.ctx, retry.Pauses().NextBackOff()) {
			for _, at := range again {
				row, there := rows[a.all[at].id]
				if !there {
					row.version = NoVersion
				}
				a.reportUnknown(at, UnknownError{Found: row.version, Seen: true}, nil)
			}
			return
		}
		a.run(again)
	}
}

const invalidVersion = "version is not an integer"

type verdict uint8

const (
	verdictUnclear verdict = iota
	verdictWon             // the row carries the commit's own token
	verdictLost            // another commit took its place
	verdictOpen            // the row is still as it was before: it may yet be applied
)

// verdict tells from the row what became of a commit whose answer was lost.
func (w *Write) verdict(row peeked) verdict {
	c := w.commit
	token, known := c.baseToken.Text()
	switch {
	case row.version != NoVersion && row.token == w.token:
		return verdictWon
	case row.invalid:
		return verdictUnclear
	case row.version == c.base+1:
		return verdictLost
	case row.version == c.base && c.base > 0 && known && row.token != token:
		return verdictLost
	case row.version == c.base && c.base > 0, row.version == NoVersion && c.base == 0:
		return verdictOpen
	}
	return verdictUnclear
}

// Resolution is what [Store.Resolve] finds out about a commit.
type Resolution uint8

const (
	// ResolutionUnclear: the execution has moved on by more than one version, or
	// is gone. The commit may have been applied and built upon, or not.
	ResolutionUnclear Resolution = iota
	// ResolutionCommitted: the commit was applied, and is the last one that was
	// made by this library.
	ResolutionCommitted
	// ResolutionLost: another commit took its place; it left nothing behind and
	// never will.
	ResolutionLost
	// ResolutionOpen: the execution is as it was before. The commit has not been
	// applied; as long as a request may still be on its way, it may yet be.
	// Committing again on the same version settles it: one of the two wins.
	ResolutionOpen
)

// String returns the resolution in a word.
func (r Resolution) String() string {
	switch r {
	case ResolutionCommitted:
		return "committed"
	case ResolutionLost:
		return "lost"
	case ResolutionOpen:
		return "open"
	}
	return "unclear"
}

// Resolve tells what became of a commit that ended with an [*UnknownError],
// whose Ref it takes. It blocks for one linearizable read. Errors:
// [ErrInvalid], [ErrUnavailable], [ErrClosed], the context's.
func (s *Store) Resolve(ctx context.Context, ref CommitRef) (Resolution, error) {
	if err := s.limits.name("CommitRef.ID", ref.ID); err != nil {
		return ResolutionUnclear, err
	}
	if len(ref.Token) != 32 || ref.Base < 0 {
		return ResolutionUnclear, &InvalidError{Field: "CommitRef", Reason: "is not one that a commit had"}
	}
	rows, err := s.peek(ctx, []string{ref.ID})
	if err != nil {
		return ResolutionUnclear, fmt.Errorf("resolve execution %q: %w", ref.ID, err)
	}
	row, there := rows[ref.ID]
	if !there {
		row.version = NoVersion
	}
	w := &Write{id: ref.ID, token: ref.Token, commit: &commitRows{base: ref.Base}}
	if ref.BaseToken != "" {
		w.commit.baseToken = engine.Text(ref.BaseToken)
	}
	switch w.verdict(row) {
	case verdictWon:
		return ResolutionCommitted, nil
	case verdictLost:
		return ResolutionLost, nil
	case verdictOpen:
		return ResolutionOpen, nil
	}
	return ResolutionUnclear, nil
}
