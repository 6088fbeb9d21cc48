package storetest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/quorate/quorate/store/engine"
	"github.com/quorate/quorate/store/workspace"
)

// follower reads a subscription in a goroutine of its own.
type follower struct {
	events chan workspace.Envelope
	err    chan error // what ended it
	cancel context.CancelFunc
}

func (w *wsEnv) follow(ws *workspace.Store, ref workspace.Ref, after int64) *follower {
	ctx, cancel := context.WithCancel(w.ctx)
	f := &follower{events: make(chan workspace.Envelope), err: make(chan error, 1), cancel: cancel}
	var wg sync.WaitGroup
	wg.Go(func() {
		for e, err := range ws.Subscribe(ctx, ref, after) {
			if err != nil {
				f.err <- err
				return
			}
			select {
			case f.events <- e:
			case <-ctx.Done():
			}
		}
		f.err <- errors.New("ended by itself")
	})
	w.Cleanup(func() { cancel(); wg.Wait() })
	return f
}

// expect waits for the next event.
func (w *wsEnv) expect(f *follower, seq int64, id string) {
	w.Helper()
	select {
	case e := <-f.events:
		if e.Seq != seq || id != "" && e.ID != id {
			w.Fatalf("got event %q at %d, want %q at %d", e.ID, e.Seq, id, seq)
		}
	case err := <-f.err:
		w.Fatalf("waiting for event %d: %v", seq, err)
	case <-w.ctx.Done():
		w.Fatalf("event %d does not come", seq)
	}
}

var wsSubscribeCases = []workspaceCase{
	{promise: "a subscription shows what is there, then what comes, from its position on", run: func(w *wsEnv) {
		w.append(ws1, entries("a", "b", "c")...)
		f := w.follow(w.ws, ws1, 1)
		w.expect(f, 2, "b")
		w.expect(f, 3, "c")
		for i := range 5 {
			if i%2 == 0 {
				w.append(ws1, entry(workspaceID(i)))
			} else {
				_, err := w.ws.Append(w.ctx, ws1, entry(workspaceID(i)))
				w.must(err)
			}
			w.expect(f, int64(4+i), workspaceID(i))
		}
		f.cancel()
		w.is(<-f.err, context.Canceled)
	}},
	{promise: "a subscription sees what another store appends, in order", run: func(w *wsEnv) {
		other := w.another()
		f, beyond := w.follow(w.ws, ws1, 0), w.follow(w.ws, ws1, 7)
		for i := range 10 {
			_, err := other.Append(w.ctx, ws1, entry(workspaceID(i)))
			w.must(err)
			w.expect(f, int64(i+1), workspaceID(i))
		}
		for seq := int64(8); seq <= 10; seq++ {
			w.expect(beyond, seq, workspaceID(int(seq-1)))
		}
	}},
	{promise: "notifications wake the subscriptions of other stores long before they poll", run: func(w *wsEnv) {
		if _, ok := w.db.Engine.(engine.Notifier); !ok || w.hidden {
			w.Skip("the engine does not notify")
		}
		// With an interval of an hour, the case's limit passes before a poll.
		listener := w.another(workspace.WithNotifications(), workspace.WithPollInterval(time.Hour))
		writer := w.another(workspace.WithNotifications())
		fs := []*follower{w.follow(listener, ws1, 0), w.follow(listener, wsRef("w2"), 0)}
		for i := range 10 {
			for k, ref := range []workspace.Ref{ws1, wsRef("w2")} {
				id := workspaceID(i)
				if i%2 == 0 {
					_, err := writer.Append(w.ctx, ref, entry(id))
					w.must(err)
				} else {
					w.must(writer.Transact(w.ctx, ref, func(ctx context.Context, tx *workspace.Tx) error {
						_, err := tx.Append(ctx, entry(id))
						return err
					}))
				}
				w.expect(fs[k], int64(i+1), id)
			}
		}
	}},
	{promise: "pages follow each other without a gap while the log grows", run: func(w *wsEnv) {
		const n = 1600
		var ids []string
		for i := range n {
			ids = append(ids, workspaceID(i))
		}
		w.append(ws1, entries(ids[:700]...)...)
		slow, fast := w.follow(w.ws, ws1, 0), w.follow(w.ws, ws1, 0)
		for i := range 300 {
			w.expect(fast, int64(i+1), ids[i])
		}
		w.append(ws1, entries(ids[700:]...)...)
		for i := 300; i < n; i++ {
			w.expect(fast, int64(i+1), ids[i])
		}
		for i := range n {
			w.expect(slow, int64(i+1), ids[i])
		}
	}},
	{promise: "many subscriptions wait at the cost of one query per interval", run: func(w *wsEnv) {
		const n = 60
		var fs []*follower
		for i := range n {
			fs = append(fs, w.follow(w.ws, wsRef(fmt.Sprint("w", i%20)), 0))
		}
		// Two intervals after everybody has begun to wait.
		for before := w.ws.Counters().Polls; w.ws.Counters().Polls < before+2; {
			<-time.After(time.Millisecond)
		}
		if w.tap != nil {
			// All joined by now; from here on one query per poll, whatever their number.
			polls, queries := w.ws.Counters().Polls, w.tap.traffic().queries
			for w.ws.Counters().Polls < polls+10 {
				<-time.After(time.Millisecond)
			}
			if made := w.tap.traffic().queries - queries; made > 20 {
				w.Errorf("%d queries during 10 polls", made)
			}
		}
		other := w.another()
		for i := range 20 {
			_, err := other.Append(w.ctx, wsRef(fmt.Sprint("w", i)), entry("a"))
			w.must(err)
		}
		for _, f := range fs {
			w.expect(f, 1, "a")
		}
	}},
	{promise: "a subscription ends with its context, its consumer, or the store", run: func(w *wsEnv) {
		w.append(ws1, entries("a", "b")...)
		for e, err := range w.ws.Subscribe(w.ctx, ws1, 0) {
			w.must(err)
			w.equal("first", e.Seq, 1)
			break
		}
		for _, err := range w.ws.Subscribe(w.ctx, ws1, -1) {
			w.is(err, workspace.ErrInvalid)
		}
		ended, cancel := context.WithCancel(w.ctx)
		cancel()
		n := 0
		for _, err := range w.ws.Subscribe(ended, ws1, 0) {
			n++
			w.is(err, context.Canceled)
		}
		w.equal("yields of one that has ended", n, 1)
		f := w.follow(w.ws, ws1, 2)
		w.must(w.ws.Close())
		w.is(<-f.err, workspace.ErrClosed)
		for _, err := range w.ws.Subscribe(w.ctx, ws1, 0) {
			w.is(err, workspace.ErrClosed)
		}
		w.append(ws1, entry("c"))
	}},
}
