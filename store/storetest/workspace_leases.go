package storetest

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/quorate/quorate/store/workspace"
)

// acquire reports whether holder got the lease.
func (w *wsEnv) acquire(ref workspace.Ref, name, holder string, ttl time.Duration) bool {
	w.Helper()
	got, err := w.ws.AcquireLease(w.ctx, ref, name, holder, ttl)
	w.must(err)
	return got
}

var wsLeaseCases = []workspaceCase{
	{promise: "a lease has one holder, who may renew it, until its time is over", run: func(w *wsEnv) {
		w.equal("first", w.acquire(ws1, "l", "me", time.Minute), true)
		w.equal("another", w.acquire(ws1, "l", "you", time.Minute), false)
		w.equal("another name", w.acquire(ws1, "l2", "you", time.Minute), true)
		w.equal("another workspace", w.acquire(wsRef("w2"), "l", "you", time.Minute), true)
		w.equal("another tenant", w.acquire(workspace.Ref{Tenant: "t2", Workspace: "w1"}, "l", "you", time.Minute), true)
		w.clock.advance(50 * time.Second)
		w.equal("renewed", w.acquire(ws1, "l", "me", time.Minute), true)
		w.clock.advance(59 * time.Second)
		w.equal("while renewed", w.acquire(ws1, "l", "you", time.Minute), false)
		w.clock.set(w.clock.now().In(time.FixedZone("", 7200)).Add(time.Second))
		w.equal("at its end", w.acquire(ws1, "l", "you", time.Minute), true)
		w.equal("the old holder", w.acquire(ws1, "l", "me", time.Minute), false)
		w.clock.advance(time.Hour)
		w.equal("renewed after its end", w.acquire(ws1, "l", "you", time.Second), true)
		w.clock.advance(time.Second)
		w.equal("shortened by that", w.acquire(ws1, "l", "me", time.Minute), true)
	}},
	{promise: "a lease is free after its holder released it, and nobody else can", run: func(w *wsEnv) {
		w.equal("first", w.acquire(ws1, "l", "me", time.Minute), true)
		w.must(w.ws.ReleaseLease(w.ctx, ws1, "l", "you"))
		w.must(w.ws.ReleaseLease(w.ctx, ws1, "nobody", "me"))
		w.equal("after foreign releases", w.acquire(ws1, "l", "you", time.Minute), false)
		w.must(w.ws.ReleaseLease(w.ctx, ws1, "l", "me"))
		w.equal("after the release", w.acquire(ws1, "l", "you", time.Minute), true)
		_, err := w.ws.AcquireLease(w.ctx, ws1, "l", "you", 0)
		w.is(err, workspace.ErrInvalid)
		_, err = w.ws.AcquireLease(w.ctx, ws1, "", "you", time.Second)
		w.is(err, workspace.ErrInvalid)
	}},
	{promise: "of many who want a lease at once one gets it", run: func(w *wsEnv) {
		other := w.another()
		for range 5 {
			var got atomic.Int32
			var wg sync.WaitGroup
			for i := range 8 {
				ws := w.ws
				if i%2 == 1 {
					ws = other
				}
				wg.Go(func() {
					ok, err := ws.AcquireLease(w.ctx, ws1, "l", workspaceID(i), time.Minute)
					if err != nil {
						w.Error(err)
					}
					if ok {
						got.Add(1)
					}
				})
			}
			wg.Wait()
			w.equal("holders", got.Load(), 1)
			w.clock.advance(time.Hour)
		}
	}},
	{promise: "a cursor only moves forward, by its name and workspace", run: func(w *wsEnv) {
		cursor := func(ref workspace.Ref, name string) int64 {
			seq, err := w.ws.Cursor(w.ctx, ref, name)
			w.must(err)
			return seq
		}
		w.equal("at first", cursor(ws1, "c"), 0)
		for _, seq := range []int64{5, 3, 5, 0} {
			w.must(w.ws.SaveCursor(w.ctx, ws1, "c", seq))
			w.equal("saved", cursor(ws1, "c"), 5)
		}
		w.equal("another name", cursor(ws1, "d"), 0)
		w.equal("another workspace", cursor(wsRef("w2"), "c"), 0)
		w.is(w.ws.SaveCursor(w.ctx, ws1, "c", -1), workspace.ErrInvalid)
		other := w.another()
		var wg sync.WaitGroup
		for i := range 8 {
			ws := w.ws
			if i%2 == 1 {
				ws = other
			}
			wg.Go(func() {
				if err := ws.SaveCursor(w.ctx, ws1, "c", int64(10+(i*5)%8)); err != nil {
					w.Error(err)
				}
			})
		}
		wg.Wait()
		w.equal("the furthest", cursor(ws1, "c"), 17)
	}},
}
