package main

import (
	"context"
	"fmt"
)

// pageSize is how many entries of the outbox, spawns or due timers are taken at
// a time.
const pageSize = 512

// relay delivers a page of the outbox: each event to its target, then the
// acknowledgement of all. If it is interrupted in between, the events are
// delivered again by the next relay, and the ledger lets them take effect once.
// It returns how many entries it found.
func (f *fleet) relay(ctx context.Context) (int, error) {
	entries, err := f.db.PendingOutbox(ctx, pageSize)
	if err != nil {
		return 0, fmt.Errorf("read the outbox: %w", err)
	}
	messages := make([]*message, len(entries))
	seqs := make([]int64, len(entries))
	for i, entry := range entries {
		m := &message{target: entry.Target}
		if err := entry.Event.Data.Decode(&m.event); err != nil {
			return 0, fmt.Errorf("outbox entry %d: %w", entry.Seq, err)
		}
		m.event.ID, m.event.Kind = entry.Event.ID, entry.Event.Kind
		messages[i], seqs[i] = m, entry.Seq
	}
	if err := f.workAll(ctx, messages); err != nil {
		return 0, fmt.Errorf("deliver the outbox: %w", err)
	}
	if err := f.db.AckOutbox(ctx, seqs...); err != nil {
		return 0, fmt.Errorf("acknowledge the outbox: %w", err)
	}
	f.count.delivered.Add(int64(len(entries)))
	return len(entries), nil
}
