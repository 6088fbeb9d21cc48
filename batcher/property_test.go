package batcher

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"
	"time"
)

var (
	seedFlag = flag.Uint64("batcher.seed", 0, "replay the random sequence of this seed; 0 draws new ones")
	runsFlag = flag.Int("batcher.runs", 150, "number of random sequences")
)

// TestRandomSequences lets many goroutines use a batcher at random and holds it
// to every promise it makes.
func TestRandomSequences(t *testing.T) {
	if *seedFlag != 0 {
		t.Run(fmt.Sprintf("seed=%d", *seedFlag), func(t *testing.T) {
			bubble(t, func(t *testing.T) { runSequence(t, *seedFlag) })
		})
		return
	}
	base := rand.Uint64()
	t.Logf("seeds from %d; replay one with -batcher.seed", base)
	for i := range uint64(*runsFlag) {
		t.Run(fmt.Sprintf("seed=%d", base+i), func(t *testing.T) {
			bubble(t, func(t *testing.T) { runSequence(t, base+i) })
		})
	}
}

// item is what the model knows of one submission.
type item struct {
	by, seq   int // which goroutine, and its how-manieth item
	ticket    Ticket[*item]
	refused   bool
	flushes   int
	drops     int
	dropErr   error
	overdue   int
	withdrawn bool // Withdraw said so
}

// model watches a batcher.
type model struct {
	t   *testing.T
	b   *Batcher[*item]
	cfg Config[*item]

	mu      sync.Mutex
	rnd     *rand.Rand
	items   []*item
	active  map[string]bool    // keys in flight
	flights int                // flushes under way
	lastSeq map[string][]int   // per key and goroutine, the last one flushed
	flying  map[*item]struct{} // in flight
	errWith map[*item]error    // what Withdraw was given
	panics  int                // flushes that panicked or ended their goroutine
	told    int                // calls of Panicked
	closed  bool               // Close has returned
	hang    bool               // some flushes last until Close gives up
}

func (m *model) intn(n int) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.rnd.IntN(n)
}

func runSequence(t *testing.T, seed uint64) {
	rnd := rand.New(rand.NewPCG(seed, 1))
	m := &model{
		t: t, rnd: rnd,
		active: make(map[string]bool), lastSeq: make(map[string][]int), flying: make(map[*item]struct{}), errWith: make(map[*item]error),
	}
	m.cfg = Config[*item]{
		MaxItems:        1 + rnd.IntN(8),
		MaxBytes:        50 + rnd.IntN(200),
		MaxPending:      1 + rnd.IntN(30),
		MaxPendingBytes: 80 + rnd.IntN(500),
		InFlight:        1 + rnd.IntN(4),
		Flush:           m.flush,
		Drop:            m.drop,
		Overdue:         m.overdue,
		Panicked: func(batch []*Ticket[*item], _ any) {
			m.mu.Lock()
			defer m.mu.Unlock()
			m.told++
		},
	}
	if rnd.IntN(3) == 0 {
		m.cfg.Limit = time.Duration(1+rnd.IntN(60)) * time.Millisecond
	}
	m.hang = rnd.IntN(4) == 0
	workers, each, keys := 1+rnd.IntN(20), 1+rnd.IntN(40), 1+rnd.IntN(12)
	closeEarly := rnd.IntN(3) == 0

	var err error
	if m.b, err = New(m.cfg); err != nil {
		t.Fatal(err)
	}
	for k := range keys {
		m.lastSeq[fmt.Sprint("k", k)] = make([]int, workers)
	}
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() { m.submitter(w, each, keys) })
	}
	closeCtx, cancel := context.WithCancel(context.Background())
	defer cancel()
	if m.hang || m.intn(2) == 0 {
		var stop context.CancelFunc
		closeCtx, stop = context.WithTimeout(closeCtx, time.Duration(m.intn(50))*time.Millisecond)
		defer stop()
	}
	if closeEarly {
		pass(time.Duration(m.intn(40)) * time.Millisecond)
		m.close(closeCtx)
		wg.Wait()
	} else if m.hang {
		// Without a close nothing would end the hanging flushes.
		pass(time.Second)
		m.close(closeCtx)
		wg.Wait()
	} else {
		wg.Wait()
		m.close(closeCtx)
	}
	m.check()
}

func (m *model) close(ctx context.Context) {
	var wg sync.WaitGroup
	for range 1 + m.intn(2) {
		wg.Go(func() {
			left, err := m.b.Close(ctx)
			if (err == nil) != (left == Leftover{}) || err != nil && !errors.Is(err, ctx.Err()) {
				m.t.Errorf("Close: left %+v, %v", left, err)
			}
			m.mu.Lock()
			defer m.mu.Unlock()
			if m.flights > 0 || len(m.flying) > 0 {
				m.t.Errorf("Close returned with %d flushes under way", m.flights)
			}
			m.closed = true
		})
	}
	wg.Wait()
	verify(m.t, m.b)
	if s := m.b.Stats(); s.Queued+s.InFlight+s.Flights+s.Waiting != 0 {
		m.t.Errorf("after Close: %+v", s)
	}
}

func (m *model) submitter(w, n, keys int) {
	for seq := 1; seq <= n; seq++ {
		it := &item{by: w, seq: seq}
		it.ticket.Item, it.ticket.Size = it, m.intn(120)
		if m.intn(5) > 0 {
			it.ticket.Key = fmt.Sprint("k", m.intn(keys))
		}
		if m.intn(25) == 0 {
			it.ticket.Size = 1000 // above every bound
		}
		m.mu.Lock()
		m.items = append(m.items, it)
		m.mu.Unlock()

		var err error
		switch m.intn(4) {
		case 0:
			err = m.b.TrySubmit(&it.ticket)
			if err != nil && err != ErrFull && err != ErrClosed {
				m.t.Errorf("TrySubmit: %v", err)
			}
		case 1:
			ctx, cancel := context.WithTimeout(context.Background(), time.Duration(m.intn(10))*time.Millisecond)
			err = m.b.Submit(ctx, &it.ticket)
			if err != nil && err != ErrClosed && !errors.Is(err, context.DeadlineExceeded) {
				m.t.Errorf("Submit: %v", err)
			}
			cancel()
		default:
			err = m.b.Submit(context.Background(), &it.ticket)
			if err != nil && err != ErrClosed {
				m.t.Errorf("Submit: %v", err)
			}
		}
		if err != nil {
			m.mu.Lock()
			it.refused = true
			m.mu.Unlock()
		} else if m.intn(6) == 0 {
			m.withdraw(it)
		}
		switch m.intn(6) {
		case 0:
			pass(time.Duration(m.intn(5)) * time.Millisecond)
		case 1:
			runtime.Gosched()
		case 2:
			verify(m.t, m.b)
		}
	}
}

func (m *model) withdraw(it *item) {
	reason := errors.New("withdrawn")
	m.mu.Lock()
	m.errWith[it] = reason
	m.mu.Unlock()
	if m.b.Withdraw(&it.ticket, reason) {
		m.mu.Lock()
		it.withdrawn = true
		m.mu.Unlock()
	}
}

func (m *model) flush(ctx context.Context, batch []*Ticket[*item]) {
	m.mu.Lock()
	bytes := 0
	if len(batch) == 0 || len(batch) > m.cfg.MaxItems {
		m.t.Errorf("batch of %d items", len(batch))
	}
	if m.flights++; m.flights > m.cfg.InFlight {
		m.t.Errorf("%d flushes at the same time", m.flights)
	}
	if m.closed {
		m.t.Error("flush after Close")
	}
	for _, tk := range batch {
		it := tk.Item
		bytes += tk.Size
		it.flushes++
		m.flying[it] = struct{}{}
		if tk.Key != "" {
			if m.active[tk.Key] {
				m.t.Errorf("key %q is in flight twice", tk.Key)
			}
			m.active[tk.Key] = true
			if last := m.lastSeq[tk.Key]; last[it.by] >= it.seq {
				m.t.Errorf("key %q: item %d of goroutine %d after item %d", tk.Key, it.seq, it.by, last[it.by])
			} else {
				last[it.by] = it.seq
			}
		}
		if m.cfg.Limit > 0 && !time.Now().Before(tk.deadline) {
			m.t.Error("flushed after its time limit")
		}
	}
	if bytes > m.cfg.MaxBytes && len(batch) > 1 {
		m.t.Errorf("batch of %d items with %d bytes", len(batch), bytes)
	}
	what, d := m.rnd.IntN(20), time.Duration(m.rnd.IntN(12))*time.Millisecond
	if what < 2 {
		m.panics++
	}
	m.mu.Unlock()
	verify(m.t, m.b)

	defer func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.flights--
		for _, tk := range batch {
			delete(m.active, tk.Key)
			delete(m.flying, tk.Item)
		}
	}()
	switch {
	case what == 0:
		panic("a panic in Flush")
	case what == 1:
		runtime.Goexit()
	case what == 2 && m.hang:
		<-ctx.Done()
		if context.Cause(ctx) != ErrClosed {
			m.t.Errorf("cause of the flush's context: %v", context.Cause(ctx))
		}
	case what < 15:
		pass(d)
	}
}

func (m *model) drop(tk *Ticket[*item], err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	it := tk.Item
	it.drops++
	it.dropErr = err
	if m.closed {
		m.t.Error("Drop after Close")
	}
	if err == ErrExpired && (m.cfg.Limit == 0 || time.Now().Before(tk.deadline)) {
		m.t.Error("expired before its time limit")
	}
}

func (m *model) overdue(tk *Ticket[*item]) {
	m.mu.Lock()
	defer m.mu.Unlock()
	it := tk.Item
	if it.overdue++; it.overdue > 1 || it.flushes != 1 && it.drops != 0 || time.Now().Before(tk.deadline) {
		m.t.Errorf("overdue %d times, flushed %d times, dropped %d times", it.overdue, it.flushes, it.drops)
	}
}

// check holds every item to its one way out.
func (m *model) check() {
	var flushed, dropped, refused uint64
	for _, it := range m.items {
		switch {
		case it.refused:
			refused++
			if it.flushes+it.drops > 0 {
				m.t.Errorf("refused, but flushed %d times and dropped %d times", it.flushes, it.drops)
			}
		case it.flushes+it.drops != 1:
			m.t.Errorf("flushed %d times and dropped %d times", it.flushes, it.drops)
		case it.flushes == 1:
			flushed++
			if it.withdrawn {
				m.t.Error("withdrawn, but flushed")
			}
		default:
			dropped++
			if it.dropErr != ErrExpired && it.dropErr != ErrClosed && it.dropErr != m.errWith[it] {
				m.t.Errorf("dropped with %v", it.dropErr)
			}
		}
	}
	s := m.b.Stats()
	if s.Items != flushed || s.Dropped != dropped {
		m.t.Errorf("%d flushed and %d dropped, but %+v", flushed, dropped, s)
	}
	if s.Rejected > refused {
		m.t.Errorf("%d refused, but %+v", refused, s)
	}
	if s.PendingBytes != 0 {
		m.t.Errorf("%d bytes on the books at the end", s.PendingBytes)
	}
	if m.told != m.panics {
		m.t.Errorf("Panicked was told %d times of %d", m.told, m.panics)
	}
}
