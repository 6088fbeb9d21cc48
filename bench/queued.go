package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"
)

// queuedMode posts each commit to the leader's write queue and waits until the
// queue was flushed. The server merges what is queued, by default 128 requests or
// 50 ms, and throws the results away: a lost compare-and-swap goes unnoticed, and
// a commit is no transaction unless the node was told so by a flag.
type queuedMode struct {
	*handwritten
	setup  *connection
	url    string
	http   *http.Client
	counts counts
}

func queuedLacks(o op, contended bool) string {
	if o.reads() {
		return "can only write"
	}
	return uncontended(o, contended)
}

func openQueued(ctx context.Context, env *environment) (target, error) {
	setup, err := env.backend.connect(ctx, 0)
	if err != nil {
		return nil, err
	}
	t := &queuedMode{handwritten: newHandwritten(env), setup: setup}
	if err := t.populate(ctx, setup.eng); err != nil {
		return nil, errors.Join(err, setup.close())
	}
	leader, _, err := env.backend.cluster.leader(ctx)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("queued writes: %w", err), setup.close())
	}
	t.url = leader + "/db/execute?queue&wait&timeout=30s"
	t.http = &http.Client{Transport: &http.Transport{
		MaxIdleConnsPerHost: env.callers, IdleConnTimeout: 25 * time.Second, DisableCompression: true,
	}}
	return t, nil
}

func (t *queuedMode) steps(o op, callers int) ([]step, error) {
	out := make([]step, callers)
	for i := range out {
		w := t.hand(i, callers)
		var body bytes.Buffer
		out[i] = func(ctx context.Context) (int, time.Duration, error) {
			rows := w.batch(o, 1)
			d, err := took(func() error { return t.commit(ctx, &rows[0], &body) })
			if err != nil {
				return 0, 0, err
			}
			w.won(rows)
			return 1, d, nil
		}
	}
	return out, nil
}

func (t *queuedMode) commit(ctx context.Context, r *row, body *bytes.Buffer) error {
	var stmts [][]any
	for _, s := range r.statements(t.env.data) {
		t.counts.bytes.Add(uint64(len(s.sql) + sizeOf(s.args)))
		stmts = append(stmts, append([]any{s.sql}, s.args...))
	}
	body.Reset()
	if err := json.NewEncoder(body).Encode(stmts); err != nil {
		return err
	}
	t.counts.writes.Add(1)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, t.url, bytes.NewReader(body.Bytes()))
	if err != nil {
		return withoutURL(err)
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := t.http.Do(req)
	if err != nil {
		return fmt.Errorf("queued write: %w", withoutURL(err))
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if err != nil {
		return fmt.Errorf("queued write: %w", err)
	}
	var decoded struct {
		Error string `json:"error"`
	}
	if resp.StatusCode != http.StatusOK || json.Unmarshal(answer, &decoded) != nil || decoded.Error != "" {
		return fmt.Errorf("queued write: HTTP %d: %.200s", resp.StatusCode, answer)
	}
	return nil
}

func (t *queuedMode) traffic() traffic                 { return t.counts.snapshot() }
func (t *queuedMode) verify(ctx context.Context) error { return t.handwritten.verify(ctx, t.setup.eng) }

func (t *queuedMode) close(context.Context) error {
	t.http.CloseIdleConnections()
	return t.setup.close()
}
