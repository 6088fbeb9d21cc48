package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quorate/quorate/client"
	"github.com/quorate/quorate/store/coordination"
	"github.com/quorate/quorate/store/engine"
	"github.com/quorate/quorate/store/sqlite"
)

// workerEnv makes the program a worker: it holds a [job].
const workerEnv = "QUORATE_CHAOSCOORD_WORKER"

// job is what a worker is told.
type job struct {
	Path     string   // of the SQLite file, or
	URLs     []string // of the cluster
	Locks    []string
	Lease    time.Duration
	Tick     time.Duration
	NoClock  bool
	Seed     uint64
	Identity string
}

func (j *job) open(ctx context.Context) (engine.Engine, error) {
	if len(j.URLs) > 0 {
		return client.Open(ctx, j.URLs)
	}
	return sqlite.Open(j.Path, sqlite.WithDurability(sqlite.Normal))
}

func (j *job) options() []coordination.Option {
	if j.NoClock {
		return []coordination.Option{coordination.WithoutSharedClock()}
	}
	return nil
}

// work is a worker's life. It ends when its standard input does.
func work(spec string, in io.Reader, out io.Writer) int {
	var j job
	if err := json.Unmarshal([]byte(spec), &j); err != nil {
		fmt.Fprintln(os.Stderr, "worker:", err)
		return exitFailed
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		defer cancel()
		for lines := bufio.NewScanner(in); lines.Scan(); {
		}
	}()
	w := &worker{job: j, teller: newTeller(out)}
	if err := w.run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "worker:", err)
		return exitFailed
	}
	return exitOK
}

type worker struct {
	job
	*teller
	eng    engine.Engine
	p      *coordination.Provider
	writes atomic.Int64
}

func (w *worker) run(ctx context.Context) (err error) {
	if w.eng, err = w.open(ctx); err != nil {
		return ignore(ctx, err)
	}
	defer func() { err = errors.Join(err, w.eng.Close()) }()
	if w.p, err = coordination.Open(ctx, w.eng, w.options()...); err != nil {
		return ignore(ctx, err)
	}
	defer func() {
		// What is held stays held: the run is over.
		closing, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		_ = w.p.Close(closing)
	}()
	var wg sync.WaitGroup
	for i, name := range w.Locks {
		rng := rand.New(rand.NewPCG(w.Seed, uint64(i)))
		wg.Go(func() { w.fight(ctx, name, rng) })
	}
	wg.Go(func() { w.campaign(ctx) })
	wg.Go(func() { w.claim(ctx) })
	wg.Wait()
	return nil
}

// ignore drops an error that came because the run is over.
func ignore(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}

func sleep(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

func (w *worker) trouble(name string, err error) {
	w.tell(event{Kind: "trouble", Name: name, At: now(), Err: err.Error()})
}

// fight acquires a lock, writes under it, and gives it back or lets it expire.
func (w *worker) fight(ctx context.Context, name string, rng *rand.Rand) {
	for ctx.Err() == nil {
		o := coordination.LockOptions{Lease: w.Lease, Retry: w.Lease / 40, KeepAlive: rng.IntN(2) == 0}
		l, err := w.p.Lock(name, o)
		if err != nil {
			w.trouble(name, err)
			return
		}
		sent := now()
		h, err := l.Acquire(ctx)
		if err != nil {
			if ctx.Err() == nil {
				w.trouble(name, err)
				sleep(ctx, w.Lease/10)
			}
			continue
		}
		w.tell(event{Kind: "grant", Name: name, Token: h.Token(), Sent: sent, At: now()})
		w.hold(ctx, name, h, o.KeepAlive, rng)
		sleep(ctx, rand.N(w.Lease/20))
	}
}

// hold writes under a handle for a while.
func (w *worker) hold(ctx context.Context, name string, h *coordination.Held, kept bool, rng *rand.Rand) {
	var seen atomic.Int64
	watching, stop := context.WithCancel(ctx)
	var watch sync.WaitGroup
	watch.Go(func() { w.watch(watching, name, h, &seen) })
	until := time.Now().Add(time.Duration(rng.Int64N(int64(w.Lease * 3 / 2))))
	for ctx.Err() == nil && time.Now().Before(until) {
		stale := !h.Valid()
		if stale && rng.IntN(2) > 0 {
			break // often it does as it should
		}
		w.write(ctx, name, h, stale)
		if !stale && rng.IntN(8) == 0 && h.Renew(ctx) != nil {
			break
		}
		sleep(ctx, time.Duration(rng.Int64N(int64(w.Lease/30))))
	}
	released := false
	if kept || rng.IntN(5) > 0 {
		released = h.Release(ctx) == nil
	} else {
		select {
		case <-h.Context().Done(): // it expires
			w.write(ctx, name, h, true)
		case <-ctx.Done():
		}
	}
	stop()
	watch.Wait()
	w.tell(event{Kind: "end", Name: name, Token: h.Token(), At: seen.Load(), OK: released})
}

// watch asks the handle again and again whether it is valid, and keeps the latest
// moment before it said yes.
func (w *worker) watch(ctx context.Context, name string, h *coordination.Held, seen *atomic.Int64) {
	told := now()
	for ctx.Err() == nil {
		before := now()
		if !h.Valid() {
			return
		}
		seen.Store(before)
		if before-told > int64(20*time.Millisecond) {
			told = before
			w.tell(event{Kind: "seen", Name: name, Token: h.Token(), At: before})
		}
		sleep(ctx, time.Millisecond)
	}
}

// write writes to the guarded row, which refuses tokens that are too small.
func (w *worker) write(ctx context.Context, name string, h *coordination.Held, stale bool) {
	id := fmt.Sprint(w.Identity, "-", w.writes.Add(1))
	wctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	e := event{Kind: "write", Name: name, Token: h.Token(), Sent: now(), Stale: stale, ID: id}
	res, err := w.eng.Exec(wctx, []engine.Statement{
		{SQL: guardedSQL, Args: []engine.Value{engine.Int(h.Token()), engine.Text(name), engine.Text(id)}},
		{SQL: journalSQL, Args: []engine.Value{engine.Text(name), engine.Text(id)}},
	})
	if err != nil {
		e.Err = err.Error()
	} else {
		e.OK = res[0].RowsAffected == 1
	}
	e.Valid, e.At = h.Valid(), now()
	w.tell(e)
}

var chaosDDL = []string{
	"CREATE TABLE IF NOT EXISTS chaos_guard (name TEXT NOT NULL PRIMARY KEY, token BIGINT NOT NULL, n BIGINT NOT NULL, writer TEXT NOT NULL)",
	"CREATE TABLE IF NOT EXISTS chaos_journal (name TEXT NOT NULL, n BIGINT NOT NULL, token BIGINT NOT NULL, writer TEXT NOT NULL, PRIMARY KEY (name, n))",
}

const (
	guardedSQL = `UPDATE chaos_guard SET token=?1,n=n+1,writer=?3 WHERE name=?2 AND token<=?1`
	journalSQL = `INSERT INTO chaos_journal(name,n,token,writer) SELECT name,n,token,writer FROM chaos_guard WHERE name=?1 AND writer=?2`
)

const (
	electionName = "election"
	scheduleName = "schedule"
)

// campaign stands in an election, steps down now and then, and watches itself.
func (w *worker) campaign(ctx context.Context) {
	e, err := w.p.Election(electionName, coordination.ElectionOptions{ID: w.Identity, Lease: w.Lease})
	if err != nil {
		w.trouble(electionName, err)
		return
	}
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() { _ = e.Campaign(ctx) })
	var term, seen, told int64
	end := func() {
		if term != 0 {
			w.tell(event{Kind: "end", Name: electionName, Token: term, At: seen})
			term = 0
		}
	}
	defer end()
	for ctx.Err() == nil {
		before := now()
		t, leads := e.Term()
		after := now()
		switch {
		case !leads:
			end()
		case t.Number != term:
			end()
			term, seen, told = t.Number, before, before
			w.tell(event{Kind: "grant", Name: electionName, Token: term, Sent: before, At: after})
		default:
			seen = before
			if before-told > int64(20*time.Millisecond) {
				told = before
				w.tell(event{Kind: "seen", Name: electionName, Token: term, At: before})
			}
			if rand.IntN(4000) == 0 {
				_ = e.Resign(ctx)
			}
		}
		sleep(ctx, time.Millisecond)
	}
}

// claim claims each tick of a schedule, as all the others do.
func (w *worker) claim(ctx context.Context) {
	s, err := w.p.Schedule(scheduleName)
	if err != nil {
		w.trouble(scheduleName, err)
		return
	}
	for ctx.Err() == nil {
		due := time.Now().Truncate(w.Tick)
		won, err := s.Claim(ctx, due)
		if err != nil && ctx.Err() == nil {
			w.trouble(scheduleName, err)
		}
		if won {
			w.tell(event{Kind: "claim", Name: scheduleName, Due: due.UnixNano(), OK: true, At: now()})
		}
		sleep(ctx, time.Until(due.Add(w.Tick)))
	}
}
