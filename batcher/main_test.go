package batcher

import (
	"context"
	"maps"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// Batches of int tickets serve most tests.
type (
	ticket = Ticket[int]
	batch  = []*ticket
)

func mustNew(t testing.TB, cfg Config[int]) *Batcher[int] {
	t.Helper()
	b, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func mustSubmit(t testing.TB, b *Batcher[int], tickets ...*ticket) {
	t.Helper()
	for _, tk := range tickets {
		if err := b.Submit(t.Context(), tk); err != nil {
			t.Fatal(err)
		}
	}
}

// mustClose closes b and expects nothing to be left over.
func mustClose(t testing.TB, b *Batcher[int]) {
	t.Helper()
	if left, err := b.Close(context.Background()); err != nil || left != (Leftover{}) {
		t.Errorf("Close: left %+v, %v", left, err)
	}
	verify(t, b)
}

// pass lets fake time pass.
func pass(d time.Duration) { <-time.After(d) }

// gate holds flushes until it is opened, for good or for one flush at a time.
type gate struct{ ch chan struct{} }

func newGate() *gate { return &gate{ch: make(chan struct{})} }

func (g *gate) wait(ctx context.Context) {
	select {
	case <-g.ch:
	case <-ctx.Done():
	}
}
func (g *gate) open() { close(g.ch) }
func (g *gate) one()  { g.ch <- struct{}{} }

// log records what leaves a batcher.
type log struct {
	mu      sync.Mutex
	batches [][]int
	dropped map[int]error
	overdue map[int]int
}

func newLog() *log { return &log{dropped: make(map[int]error), overdue: make(map[int]int)} }

func (l *log) flushed(b batch) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var items []int
	for _, t := range b {
		items = append(items, t.Item)
	}
	l.batches = append(l.batches, items)
}

func (l *log) drop(t *ticket, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.dropped[t.Item] = err
}

func (l *log) late(t *ticket) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.overdue[t.Item]++
}

func (l *log) seen() [][]int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([][]int(nil), l.batches...)
}

// told returns what Drop and Overdue were told so far.
func (l *log) told() (dropped map[int]error, overdue map[int]int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return maps.Clone(l.dropped), maps.Clone(l.overdue)
}

// verify checks the inner books of a batcher, at any moment.
func verify[T any](t testing.TB, b *Batcher[T]) {
	t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()

	n, bytes, flying, queued, expired := 0, 0, 0, 0, 0
	perKey := make(map[string]int)
	for tk := b.age.head; tk != nil; tk = tk.ageNext {
		n++
		bytes += tk.Size
		switch tk.state {
		case inFlight:
			flying++
		case ready:
			queued++
			if b.cfg.Limit > 0 && !tk.deadline.After(time.Now()) {
				expired++
			}
		case blocked:
		default:
			t.Errorf("a pending item has state %d", tk.state)
		}
		if tk.Key == "" {
			continue
		}
		if perKey[tk.Key]++; perKey[tk.Key] > 1 && tk.state != blocked {
			t.Errorf("item %d of key %q has state %d", perKey[tk.Key], tk.Key, tk.state)
		}
	}
	if n != b.age.len || flying != b.flying || queued != b.queue.len {
		t.Errorf("pending %d (%d on the books), in flight %d (%d), ready %d (%d)", n, b.age.len, flying, b.flying, queued, b.queue.len)
	}
	if len(perKey) != len(b.keys) {
		t.Errorf("%d keys on the books, %d pending", len(b.keys), len(perKey))
	}
	carried := 0
	for _, f := range b.flights {
		carried += len(f.batch)
	}
	if carried != flying {
		t.Errorf("%d items in batches in flight, %d in flight", carried, flying)
	}
	// Room may be granted to a caller that has not put its item in yet.
	if b.adm.items < n || b.adm.bytes < bytes {
		t.Errorf("admitted %d items of %d bytes, pending %d of %d", b.adm.items, b.adm.bytes, n, bytes)
	}
	if b.adm.items > b.cfg.MaxPending || b.adm.bytes > b.cfg.MaxPendingBytes && b.adm.items > 1 {
		t.Errorf("admitted %d items of %d bytes, above the limits", b.adm.items, b.adm.bytes)
	}
	if w := b.adm.head; w != nil && b.adm.fits(w.size) {
		t.Errorf("somebody waits for %d bytes although there is room", w.size)
	}
	if len(b.flights)+b.between > b.cfg.InFlight {
		t.Errorf("%d flights and %d about to start, of %d", len(b.flights), b.between, b.cfg.InFlight)
	}
	if queued > expired && len(b.flights)+b.between == 0 {
		t.Errorf("%d items wait although nothing is in flight", queued-expired)
	}
	if len(b.resting)+len(b.flights)+b.between > b.cfg.InFlight {
		t.Errorf("%d workers rest", len(b.resting))
	}
}

// bubble runs f in fake time.
func bubble(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	synctest.Test(t, f)
}
