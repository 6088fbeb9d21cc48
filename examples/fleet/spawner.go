package main

import (
	"context"
	"fmt"
)

// spawn creates a page of the children that orders have asked for, then
// acknowledges them. A child that is there already was created by a spawner that
// did not come to acknowledge it. It returns how many entries it found.
func (f *fleet) spawn(ctx context.Context) (int, error) {
	entries, err := f.db.PendingSpawns(ctx, pageSize)
	if err != nil {
		return 0, fmt.Errorf("read the spawns: %w", err)
	}
	messages := make([]*message, len(entries))
	seqs := make([]int64, len(entries))
	for i, entry := range entries {
		m := &message{target: entry.ChildID}
		if err := entry.Context.Decode(&m.event); err != nil {
			return 0, fmt.Errorf("spawn %d: %w", entry.Seq, err)
		}
		messages[i], seqs[i] = m, entry.Seq
	}
	if err := f.workAll(ctx, messages); err != nil {
		return 0, fmt.Errorf("create children: %w", err)
	}
	if err := f.db.AckSpawn(ctx, seqs...); err != nil {
		return 0, fmt.Errorf("acknowledge the spawns: %w", err)
	}
	return len(entries), nil
}
