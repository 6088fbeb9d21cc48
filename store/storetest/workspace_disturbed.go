package storetest

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/quorate/quorate/actor"
	"github.com/quorate/quorate/store/workspace"
)

// RunWorkspaceDisturbed has callers append, in all ways and through two engines,
// and read, while disturb runs, which breaks the database and mends it again. Then
// it checks the history: each append that was acknowledged is in the log once, at
// the position that was told, in an order that real time allows; reads showed what
// was acknowledged before; and nothing was torn.
func RunWorkspaceDisturbed(t *testing.T, db Database, disturb func(ctx context.Context)) {
	t.Helper()
	w := newWsEnv(t, Harness{Open: func(testing.TB) Database { return db }}, false, wsFaces[0])
	stores := []*workspace.Store{w.ws, w.another()}
	l, err := actor.NewLog(w.ws)
	w.must(err)
	follower := w.follow(stores[1], ws1, 0)
	followed := make(chan []string, 1)
	go func() {
		defer close(followed)
		var ids []string
		for {
			select {
			case e := <-follower.events:
				if ids = append(ids, e.ID); e.ID == "last" {
					followed <- ids
					return
				}
			case err := <-follower.err:
				t.Error("the subscription ended:", err)
				return
			case <-w.ctx.Done():
				return
			}
		}
	}()

	h := &history{}
	counted := wsRef("counted")
	var over atomic.Bool
	var counts atomic.Int64
	var wg sync.WaitGroup
	for c := range 6 {
		wg.Go(func() {
			for r := 0; !over.Load(); r++ {
				<-time.After(5 * time.Millisecond)
				id := fmt.Sprintf("%d-%d", c, r)
				switch c {
				case 0, 1:
					h.append(w, ws1, id, func() ([]workspace.Envelope, error) {
						return l.Append(w.ctx, ws1, entry(id), entry(id+"+")).Await(w.ctx)
					})
				case 2, 3:
					h.append(w, ws1, id, func() ([]workspace.Envelope, error) {
						return stores[c%2].Append(w.ctx, ws1, entry(id), entry(id+"+"))
					})
				case 4:
					h.read(w, stores[r%2], ws1)
				case 5:
					w.retry(func() error {
						return stores[r%2].Transact(w.ctx, counted, func(ctx context.Context, tx *workspace.Tx) error { return count(ctx, tx, id) })
					})
					counts.Add(1)
				}
			}
		})
	}
	disturb(w.ctx)
	over.Store(true)
	wg.Wait()
	_, err = l.Close(w.ctx)
	w.must(err)

	h.check(w, ws1)
	w.counted(counted, int(counts.Load()))
	log := w.dense(ws1)
	w.Logf("%d events, %d transactions, %+v", len(log), counts.Load(), w.ws.Counters())
	if len(log) == 0 || counts.Load() == 0 {
		w.Error("nothing was done")
	}
	// A subscription through all of this has seen everything in the end.
	w.append(ws1, entry("last"))
	w.equal("followed", <-followed, append(log, "last"))
}
