package workspace

import (
	"context"
	"fmt"
	"time"

	"github.com/quorate/quorate/store"
)

// An append outside of a transaction needs no snapshot: its SQL takes the
// positions from the workspace's row. Behind the statement that locks the row, the
// first moves it on by as many positions as there are entries, if none of the ids
// is in the log; the others put the entries at these positions, under the condition
// that the row carries the token of that move. So appends to the same or different
// workspaces share a request; and one that is sent twice finds its ids in the log,
// each with the token of its append.
//
// Appends to one workspace that travel together move its row once, all of them. If
// one of their ids is in the log, none of them lands, and those that are left do so
// one by one.
const (
	appendMove = `UPDATE quorate_ws_workspaces SET token=?3,revision=quorate_ws_workspaces.revision+1,head_seq=quorate_ws_workspaces.head_seq+?4,` +
		`head_ts=CASE WHEN quorate_ws_workspaces.head_ts>?5 THEN quorate_ws_workspaces.head_ts ELSE ?5 END WHERE ` + ofWorkspace +
		` AND NOT EXISTS(SELECT 1 FROM quorate_ws_events e WHERE e.tenant_id=?1 AND e.workspace_id=?2 AND e.event_id`
	appendMoved   = `) RETURNING head_seq,head_ts`
	appendColumns = `INSERT INTO quorate_ws_events(tenant_id,workspace_id,seq,ts,token,event_id,event_type,clock,entry,event)`
	appendEvent   = appendColumns + ` SELECT ?1,?2,w.head_seq-?4,w.head_ts,?5,?6,?7,?8,?9,?10` + guard + ` ON CONFLICT DO NOTHING`
	appendEvents  = `) ` + appendColumns + ` SELECT ?1,?2,w.head_seq-q.back,w.head_ts,q.token,q.event_id,q.event_type,q.clock,q.entry,q.event` +
		` FROM q CROSS JOIN quorate_ws_workspaces w WHERE w.tenant_id=?1 AND w.workspace_id=?2 AND w.token=?3 ON CONFLICT DO NOTHING`
)

// Append is entries on their way to the end of a log, checked and encoded. It holds
// no reference to what the caller passed in. Make one with [Store.PrepareAppend]
// and send it with [Store.Apply], once.
type Append struct {
	ref     Ref
	token   string
	records []record
	size    int
	clock   time.Time

	// uncertain is set when a request that carried it ended without a definite
	// answer.
	uncertain bool
	head, ts  int64 // once it is applied
}

// PrepareAppend checks and encodes entries. Errors: [ErrInvalid], and [ErrDuplicate] for an id given twice.
func (s *Store) PrepareAppend(ref Ref, entries ...Entry) (*Append, error) {
	if err := ref.check(); err != nil {
		return nil, err
	}
	if len(entries) > MaxEntries {
		return nil, &store.InvalidError{Field: "entries", Reason: fmt.Sprintf("are %d, above the limit of %d", len(entries), MaxEntries)}
	}
	a := &Append{ref: ref, token: newToken(), records: make([]record, len(entries))}
	for i, e := range entries {
		r, err := encode(e)
		if err != nil {
			return nil, err
		}
		a.records[i] = r
		a.size += r.size() + len(ref.Tenant) + len(ref.Workspace)
	}
	if len(entries) > 1 {
		seen := make(map[string]struct{}, len(entries))
		for _, e := range entries {
			if _, twice := seen[e.ID]; twice {
				return nil, &DuplicateError{ID: e.ID}
			}
			seen[e.ID] = struct{}{}
		}
	}
	return a, nil
}

// Ref returns the workspace.
func (a *Append) Ref() Ref { return a.ref }

// Size is about how many bytes it takes on its way to the database.
func (a *Append) Size() int { return a.size }

// Envelopes returns the entries as they are in the log, in order. It is to be
// called after Apply has reported success.
func (a *Append) Envelopes() []Envelope {
	out := make([]Envelope, len(a.records))
	for i := range a.records {
		out[i] = a.records[i].envelope(a.ref, a.head-int64(len(a.records)-1-i), a.ts, a.clock)
	}
	return out
}

// appendIDs appends the ids of the events.
func (a *Append) appendIDs(ids []string) []string {
	for i := range a.records {
		ids = append(ids, a.records[i].entry.ID)
	}
	return ids
}

// Append adds entries to the end of a log, in order and all or none, and returns
// them as they are there. It is one request, without a transaction around it, and
// never conflicts with others. All entries get one time, that of the sending. No
// entries are no error.
//
// An id that is in the log already is a [*DuplicateError], which says where, and
// whether it is the same event; so after an unknown outcome, appending the same
// entries again settles it. Other errors: [ErrInvalid], [ErrNested],
// [ErrUnavailable], [ErrClosed], the context's, an [engine.StatementError], an
// [*UnknownError].
func (s *Store) Append(ctx context.Context, ref Ref, entries ...Entry) ([]Envelope, error) {
	if err := s.Outside(ctx); err != nil {
		return nil, err
	}
	a, err := s.PrepareAppend(ref, entries...)
	if err != nil || len(entries) == 0 {
		return nil, err
	}
	s.Apply(ctx, []*Append{a}, func(_ int, e error) { err = e })
	if err != nil {
		return nil, err
	}
	return a.Envelopes(), nil
}

// Apply sends appends in one transaction and reports the verdict of each through
// report, by its position: nil if it was applied. It reports every one exactly
// once, on the calling goroutine, and returns when all are. Appends to one
// workspace land in their order.
//
// They fail one by one: a duplicate is that append's alone, and one that the
// database refuses is found by halving the batch. When a request ends without a
// definite answer it is sent again until there is one. If ctx ends or the store's
// limit passes before that, the error is an [*UnknownError].
func (s *Store) Apply(ctx context.Context, appends []*Append, report func(i int, err error)) {
	ctx, cancel := context.WithTimeoutCause(ctx, s.limit, errLimit)
	defer cancel()
	a := application{s: s, ctx: ctx, all: appends, report: report, rows: min(s.eng.Traits().RowsPerStatement, maxAppendRows)}
	index := make([]int, 0, len(appends))
	clock := s.now()
	for i, ap := range appends {
		if len(ap.records) == 0 {
			report(i, nil)
			continue
		}
		ap.clock = clock
		index = append(index, i)
	}
	a.run(index, true)
}
