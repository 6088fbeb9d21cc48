package main

import (
	"context"
	"encoding/json"
	"fmt"
	"time"
)

// snapshot is all that the database holds of a run's executions, as plain SQL
// tells it.
type snapshot struct {
	executions map[string]row
	outbox     []sideRow // by seq
	processed  []sideRow
	spawns     []sideRow // by seq
	trace      []sideRow // by execution and index
	timers     []timerRow
}

// row is an execution's row: version by its column and by its document.
type row struct {
	mark
	document int64
}

// sideRow is a row that a commit left beside its state.
type sideRow struct {
	exec   string // the execution it belongs to
	text   string // the event's, the child's or the step's name
	number int64  // its sequence number or index
}

type timerRow struct {
	exec, path string
	fireAt     float64
}

// page is how many rows are asked for at a time.
const page = 5000

// settled takes a snapshot while nothing changes. A request that a client has
// given up may still be on its way when the run is over, so this looks again
// until nothing has changed meanwhile.
func settled(ctx context.Context, cl cluster) (*snapshot, error) {
	print := func() (string, error) {
		rows, err := cl.query(ctx, `SELECT count(*), coalesce(sum(version),0), (SELECT count(*) FROM outbox) FROM executions`)
		return fmt.Sprint(rows), err
	}
	for range 20 {
		before, err := print()
		if err != nil {
			return nil, err
		}
		pause(ctx, 300*time.Millisecond)
		s, err := take(ctx, cl)
		if err != nil {
			return nil, err
		}
		if after, err := print(); err != nil {
			return nil, err
		} else if before == after {
			return s, nil
		}
	}
	return nil, fmt.Errorf("the database does not come to rest")
}

// take reads all tables, page by page.
func take(ctx context.Context, cl cluster) (*snapshot, error) {
	s := &snapshot{executions: make(map[string]row)}
	for _, t := range []struct {
		sql string
		add func(r []any) error
	}{
		{`SELECT id, version, json_extract(data,'$.context.n'), json_extract(data,'$.version') FROM executions ORDER BY id LIMIT ? OFFSET ?`, func(r []any) error {
			s.executions[text(r[0])] = row{mark{integer(r[1]), integer(r[2])}, integer(r[3])}
			return nil
		}},
		{`SELECT seq, target_id, event FROM outbox ORDER BY seq LIMIT ? OFFSET ?`, func(r []any) error {
			var e struct {
				ID string `json:"id"`
			}
			err := json.Unmarshal([]byte(text(r[2])), &e)
			s.outbox = append(s.outbox, sideRow{text(r[1]), e.ID, integer(r[0])})
			return err
		}},
		{`SELECT execution_id, event_id FROM processed_events ORDER BY execution_id, event_id LIMIT ? OFFSET ?`, func(r []any) error {
			s.processed = append(s.processed, sideRow{exec: text(r[0]), text: text(r[1])})
			return nil
		}},
		{`SELECT seq, parent_id, child_id FROM spawns ORDER BY seq LIMIT ? OFFSET ?`, func(r []any) error {
			s.spawns = append(s.spawns, sideRow{text(r[1]), text(r[2]), integer(r[0])})
			return nil
		}},
		{`SELECT execution_id, idx, json_extract(entry,'$.n') FROM trace ORDER BY execution_id, idx LIMIT ? OFFSET ?`, func(r []any) error {
			s.trace = append(s.trace, sideRow{text(r[0]), fmt.Sprintf("t%d", integer(r[2])), integer(r[1])})
			return nil
		}},
		{`SELECT execution_id, path, fire_at FROM timers ORDER BY execution_id, path LIMIT ? OFFSET ?`, func(r []any) error {
			s.timers = append(s.timers, timerRow{text(r[0]), text(r[1]), decimal(r[2])})
			return nil
		}},
	} {
		for offset := 0; ; offset += page {
			rows, err := cl.query(ctx, t.sql, page, offset)
			if err != nil {
				return nil, fmt.Errorf("read the database: %w", err)
			}
			for _, r := range rows {
				if err := t.add(r); err != nil {
					return nil, fmt.Errorf("read the database: %w", err)
				}
			}
			if len(rows) < page {
				break
			}
		}
	}
	return s, nil
}

func text(v any) string {
	s, _ := v.(string)
	return s
}

func integer(v any) int64 {
	switch v := v.(type) {
	case int64:
		return v
	case float64:
		return int64(v)
	}
	return -1
}

func decimal(v any) float64 {
	switch v := v.(type) {
	case int64:
		return float64(v)
	case float64:
		return v
	}
	return -1
}
