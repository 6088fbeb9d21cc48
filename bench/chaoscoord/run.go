package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/quorate/quorate/client/rqlited"
	"github.com/quorate/quorate/store/engine"
)

// run is a run under way.
type run struct {
	cfg     config
	job     job
	cluster *rqlited.Cluster // nil on SQLite
	workers []*process

	mu     sync.Mutex
	events []told
	faults tally
}

// tally counts what was done to the processes and nodes.
type tally struct{ pauses, kills, leaders int }

// report is the outcome of a run.
type report struct {
	on string
	tally
	*verdict
}

// execute runs the workers and the faults, and judges.
func execute(ctx context.Context, cfg config) (rep *report, err error) {
	r := &run{cfg: cfg, job: job{Lease: cfg.lease, Tick: cfg.lease / 5, NoClock: cfg.noClock, Seed: cfg.seed}}
	for i := range cfg.locks {
		r.job.Locks = append(r.job.Locks, fmt.Sprint("lock-", i))
	}
	on := "a SQLite file"
	if cfg.binary != "" {
		on = "3 nodes of rqlite"
		if r.cluster, err = rqlited.Start(ctx, rqlited.Options{Binary: cfg.binary, Nodes: 3}); err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, r.cluster.Close()) }()
		r.job.URLs = r.cluster.URLs()
	} else {
		dir, err := os.MkdirTemp("", "chaoscoord")
		if err != nil {
			return nil, err
		}
		defer os.RemoveAll(dir)
		r.job.Path = filepath.Join(dir, "chaos.db")
	}
	eng, err := r.job.open(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, eng.Close()) }()
	if err := r.prepare(ctx, eng); err != nil {
		return nil, err
	}
	fmt.Fprintf(cfg.progress, "chaoscoord: %d processes on %s, lease %v, seed %d, %v\n", cfg.processes, on, cfg.lease, cfg.seed, cfg.duration)

	for i := range cfg.processes {
		p, err := r.spawn(i, 0)
		if err != nil {
			r.stop()
			return nil, err
		}
		r.workers = append(r.workers, p)
	}
	if err := r.torment(ctx); err != nil {
		return nil, err
	}
	journal, err := readJournal(context.WithoutCancel(ctx), eng)
	if err != nil {
		return nil, err
	}
	return &report{on, r.faults, judge(r.events, journal)}, nil
}

// prepare makes the rows that the locks guard.
func (r *run) prepare(ctx context.Context, eng engine.Engine) error {
	if err := eng.Define(ctx, chaosDDL); err != nil {
		return err
	}
	var rows []engine.Statement
	for _, name := range r.job.Locks {
		rows = append(rows, engine.Statement{SQL: "INSERT INTO chaos_guard(name,token,n,writer) VALUES(?,0,0,'')", Args: []engine.Value{engine.Text(name)}})
	}
	_, err := eng.Exec(ctx, rows)
	return err
}

func readJournal(ctx context.Context, eng engine.Engine) ([]entry, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	res, err := eng.Query(ctx, engine.Linearizable, []engine.Statement{{SQL: "SELECT name,writer,n,token FROM chaos_journal"}})
	if err != nil {
		return nil, err
	}
	journal := make([]entry, res[0].Len())
	for i := range journal {
		row := res[0].Row(i)
		journal[i].name, _ = row[0].Text()
		journal[i].writer, _ = row[1].Text()
		journal[i].n, _ = row[2].Int()
		journal[i].token, _ = row[3].Int()
	}
	return journal, nil
}

// torment stops, kills and replaces workers, and fails the cluster's leader, until
// the time is over; then it ends the workers.
func (r *run) torment(ctx context.Context) error {
	defer r.stop()
	ctx, cancel := context.WithTimeout(ctx, r.cfg.duration)
	defer cancel()
	var wg sync.WaitGroup
	var failed error
	wg.Go(func() { failed = r.tormentWorkers(ctx, rand.New(rand.NewPCG(r.cfg.seed, 1))) })
	if r.cluster != nil {
		wg.Go(func() { r.tormentLeader(ctx, rand.New(rand.NewPCG(r.cfg.seed, 2))) })
	}
	wg.Wait()
	return failed
}

// share returns a random part of the lease, from a to b hundredths.
func (r *run) share(rng *rand.Rand, a, b int64) time.Duration {
	return r.cfg.lease * time.Duration(a+rng.Int64N(b-a)) / 100
}

func (r *run) tormentWorkers(ctx context.Context, rng *rand.Rand) error {
	for life := 1; ; life++ {
		sleep(ctx, r.share(rng, 20, 80))
		if ctx.Err() != nil {
			return nil
		}
		i := rng.IntN(len(r.workers))
		w := r.workers[i]
		if rng.IntN(5) > 0 {
			d := r.share(rng, 80, 300)
			r.note("process %d stopped for %v", i, d)
			if err := freeze(w.cmd.Process); err != nil {
				return fmt.Errorf("stop process %d, which should run: %w", i, err)
			}
			sleep(ctx, d)
			if err := thaw(w.cmd.Process); err != nil {
				return fmt.Errorf("let process %d go on: %w", i, err)
			}
			r.faults.pauses++
			continue
		}
		r.note("process %d killed", i)
		w.kill()
		r.faults.kills++
		var err error
		if r.workers[i], err = r.spawn(i, life); err != nil {
			return err
		}
	}
}

// tormentLeader kills or freezes the node that leads, and brings it back.
func (r *run) tormentLeader(ctx context.Context, rng *rand.Rand) {
	for {
		sleep(ctx, 4*time.Second+time.Duration(rng.Int64N(int64(4*time.Second))))
		leader, err := r.cluster.Leader(ctx)
		if err != nil {
			return
		}
		r.faults.leaders++
		back, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
		d := time.Second + time.Duration(rng.Int64N(int64(2*time.Second)))
		if rng.IntN(2) == 0 {
			r.note("leader %d killed for %v", leader, d)
			err = r.cluster.Kill(leader)
			sleep(ctx, d)
			err = errors.Join(err, r.cluster.Restart(back, leader))
		} else {
			r.note("leader %d stopped for %v", leader, d)
			err = r.cluster.Pause(leader)
			sleep(ctx, d)
			err = errors.Join(err, r.cluster.Resume(leader))
		}
		cancel()
		if err != nil {
			fmt.Fprintf(r.cfg.progress, "chaoscoord: node %d: %v\n", leader, err)
		}
	}
}

func (r *run) note(format string, args ...any) {
	if r.cfg.verbose {
		fmt.Fprintf(r.cfg.progress, format+"\n", args...)
	}
}

// stop ends all workers in order.
func (r *run) stop() {
	var wg sync.WaitGroup
	for _, w := range r.workers {
		wg.Go(w.end)
	}
	wg.Wait()
}

// write prints the report and reports whether all is well.
func (r *report) write(w io.Writer, cfg *config) bool {
	fmt.Fprintf(w, "%v on %s, %d processes, %d locks, lease %v, shared clock %v, seed %d\n",
		cfg.duration, r.on, cfg.processes, cfg.locks, cfg.lease, !cfg.noClock, cfg.seed)
	fmt.Fprintf(w, "  faults       %d pauses, %d kills of processes, %d failures of leading nodes\n", r.pauses, r.kills, r.leaders)
	fmt.Fprintf(w, "  locks        %d grants; of those before, %d were released and %d taken over\n", r.grants, r.releases, r.takeovers)
	fmt.Fprintf(w, "  writes       %d, of which %d refused by the fence, %d by holders who knew better, %d without an answer\n", r.writes, r.refused, r.stale, r.unclear)
	fmt.Fprintf(w, "  leadership   %d terms\n", r.terms)
	fmt.Fprintf(w, "  schedule     %d ticks claimed\n", r.claims)
	fmt.Fprintf(w, "  errors       %d, met and survived\n", r.troubles)
	if r.grants < 10 || r.claims < 2 || r.terms < 1 {
		r.violated("too little happened to judge")
	}
	for i, v := range r.violations {
		if i == 20 {
			fmt.Fprintf(w, "  ... and %d more\n", len(r.violations)-i)
			break
		}
		fmt.Fprintf(w, "  VIOLATED     %s\n", v)
	}
	if len(r.violations) > 0 {
		return false
	}
	fmt.Fprintln(w, "  verdict      nothing was held twice")
	return true
}
