package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/quorate/quorate/actor"
	"github.com/quorate/quorate/client"
	"github.com/quorate/quorate/store"
)

// config is what a run is made of.
type config struct {
	seed       uint64
	duration   time.Duration
	callers    int
	processes  int
	hot        int           // executions that all callers fight over at a time
	idOps      int           // operations on one execution, then another takes its place
	faultEvery time.Duration // from the start of one fault to the next
	limit      time.Duration // the stores' time limit
	slack      time.Duration // beyond the limit a future may take
	impatient  float64       // share of calls whose context ends early
	checkTime  time.Duration // for porcupine, per history
	think      time.Duration // pause of a caller between actions
	gapOver    time.Duration // gaps beyond the election by more than this are told
	verbose    bool          // tell of each fault
	out        string
	progress   io.Writer // nil for none
	every      time.Duration
}

// process is one client of the cluster, with connections and futures of its own,
// as a process of its own would have.
type process struct {
	engine *client.Engine
	sync   *store.Store
	async  *actor.Store
	acks   chan ack
}

// run is a run under way.
type run struct {
	cfg     config
	clock   clock
	journal *journal
	bad     *violations
	checker *checker
	gaps    gaps
	tally   tally
	procs   []*process
	hot     *hotSet
	began   time.Time
	faults  faultLog
}

func openProcess(ctx context.Context, cl cluster, cfg config) (*process, error) {
	eng, err := client.Open(ctx, cl.urls(), cl.options()...)
	if err != nil {
		return nil, err
	}
	st, err := store.Open(ctx, eng, store.WithTimeLimit(cfg.limit), store.WithTraceMax(0), store.WithLogger(slog.New(slog.DiscardHandler)))
	if err != nil {
		return nil, errors.Join(err, eng.Close())
	}
	as, err := actor.New(st)
	if err != nil {
		return nil, errors.Join(err, st.Close())
	}
	return &process{engine: eng, sync: st, async: as, acks: make(chan ack, 1024)}, nil
}

// execute runs the callers against the cluster while it fails, and judges what
// came of it. The error says that the run itself could not be carried out.
func execute(ctx context.Context, cl cluster, cfg config) (*result, error) {
	r := &run{cfg: cfg, bad: &violations{}, journal: newJournal(fmt.Sprintf("x%x", cfg.seed))}
	r.checker = newChecker(cfg.checkTime, cfg.out, r.bad)
	defer r.checker.stop()
	for range cfg.processes {
		p, err := openProcess(ctx, cl, cfg)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("open a store: %w", err), r.closeProcesses())
		}
		r.procs = append(r.procs, p)
	}
	r.hot = newHotSet(r, cfg.hot)
	r.load(ctx, cl)
	// A run that was interrupted is judged as well.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Minute)
	defer cancel()
	return r.judge(ctx, cl)
}

// load is the time under fire: callers, faults, progress. It returns when all
// callers and acknowledgements are done and the cluster is whole again.
func (r *run) load(ctx context.Context, cl cluster) {
	r.began = time.Now()
	r.gaps.start(r.began)
	ctx, cancel := context.WithTimeout(ctx, r.cfg.duration)
	defer cancel()
	var callers, ackers, others sync.WaitGroup
	for _, p := range r.procs {
		ackers.Go(func() { r.acknowledge(p) })
	}
	for i := range r.cfg.callers {
		c := &caller{r: r, p: r.procs[i%len(r.procs)], number: i, rng: rand.New(rand.NewPCG(r.cfg.seed, uint64(i)+1000))}
		callers.Go(func() { c.run(ctx) })
	}
	for lane, inject := range cl.lanes() {
		rng := rand.New(rand.NewPCG(r.cfg.seed, uint64(lane)+1))
		others.Go(func() { r.inject(ctx, inject, rng) })
	}
	if r.cfg.progress != nil {
		others.Go(func() { r.reportProgress(ctx) })
	}
	callers.Wait()
	for _, p := range r.procs {
		close(p.acks)
	}
	ackers.Wait()
	others.Wait()
}

// inject inflicts one fault after the other, with some quiet in between, since a
// cluster that always fails answers nothing that could be wrong.
func (r *run) inject(ctx context.Context, lane lane, rng *rand.Rand) {
	for pause(ctx, r.cfg.faultEvery/2); ctx.Err() == nil; {
		began := time.Now()
		r.faults.add(lane(ctx, rng))
		pause(ctx, max(r.cfg.faultEvery-time.Since(began), r.cfg.faultEvery/4))
	}
}

// pause waits for d, or until ctx ends.
func pause(ctx context.Context, d time.Duration) {
	if d <= 0 {
		return
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

func (r *run) closeProcesses() error {
	var errs []error
	for _, p := range r.procs {
		ctx, cancel := context.WithTimeout(context.Background(), r.cfg.limit+r.cfg.slack)
		if _, err := p.async.Close(ctx); err != nil {
			errs = append(errs, fmt.Errorf("close the asynchronous store: %w", err))
		}
		cancel()
		if err := p.sync.Close(); err != nil {
			errs = append(errs, fmt.Errorf("close the store: %w", err))
		}
	}
	return errors.Join(errs...)
}
