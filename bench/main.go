// Command bench compares ways of using the store: how many operations per second,
// at which latency, at what cost. Run it from the root of the repository:
//
//	go run ./bench
//	go run ./bench -engine rqlite -mode sync,sync-pool,actor -op commit,load -callers 1,256
//	go run ./bench -engine sqlite -op commit-full -html report.html
//	go run ./bench -engine null -cpuprofile cpu.out -mode actor -op commit
//
// All modes do the same work on the same database in the same run, in rounds that
// take turns, so that whatever else the machine does meets all alike. Numbers of
// different runs or machines are not worth comparing; the ratios are.
//
// With -engine rqlite and no -url, a cluster of three real nodes is started if
// there is an rqlited binary on PATH or in the environment variable RQLITED, and
// one of simulated nodes otherwise. A database given by -db or -url is filled and
// not cleaned up: use one that you can throw away.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// config is what the flags say.
type config struct {
	engine, url, db string
	modes           []*mode
	ops             []op
	callers         []int
	duration        time.Duration
	warmup          time.Duration
	rounds          int
	state, ids      int
	seed            uint64
	contended       bool
	inFlight        int
	maxBatch        int
	durability      string
	json            bool
	html            string
	cpuprofile      string
	memprofile      string
}

// usageError is a mistake in the flags: one line, and exit status 2.
type usageError struct{ text string }

func (e usageError) Error() string { return e.text }

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// run is main without the process: it returns the exit status.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	cfg, err := parseFlags(args, stderr)
	if errors.Is(err, flag.ErrHelp) {
		return 0
	}
	if err == nil {
		err = measure(ctx, cfg, stdout, stderr)
	}
	var usage usageError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &usage):
		fmt.Fprintf(stderr, "bench: %s (-help lists the flags)\n", usage.text)
		return 2
	case ctx.Err() != nil:
		fmt.Fprintln(stderr, "bench: interrupted")
		return 130
	}
	fmt.Fprintf(stderr, "bench: %v\n", err)
	return 1
}

func parseFlags(args []string, stderr io.Writer) (*config, error) {
	cfg := &config{}
	fs := flag.NewFlagSet("bench", flag.ContinueOnError)
	fs.SetOutput(io.Discard)
	var modeList, opList, callerList string
	fs.StringVar(&cfg.engine, "engine", "sqlite", "`database`: sqlite, postgres, rqlite, or null (answers at once)")
	fs.StringVar(&cfg.url, "url", "", "rqlite: `URLs` of nodes, comma-separated; without it a cluster is started; postgres: the server's URL, without it "+postgresVariable)
	fs.StringVar(&cfg.db, "db", "", "sqlite: `path` of the database, or :memory:; without it a temporary file")
	fs.StringVar(&modeList, "mode", "all", "comma-separated `modes`: sync-one, sync, sync-pool, gorqlite, queued, raw-batch, actor, or all that the engine has")
	fs.StringVar(&opList, "op", "commit,load", "comma-separated `operations`: commit, commit-full, load, load-for-event, mixed, commit-prepared (null only)")
	fs.StringVar(&callerList, "callers", "1,16,256", "comma-separated `numbers` of concurrent callers")
	fs.DurationVar(&cfg.duration, "duration", 3*time.Second, "measured `time` of each mode, operation and number of callers, over all rounds")
	fs.DurationVar(&cfg.warmup, "warmup", 250*time.Millisecond, "`time` before each round that is not measured")
	fs.IntVar(&cfg.rounds, "rounds", 3, "`number` of rounds in which the modes take turns")
	fs.IntVar(&cfg.state, "state", 512, "size of an execution's document in `bytes`")
	fs.IntVar(&cfg.ids, "ids", 0, "`number` of executions of each mode (default the larger of 4096 and 4 for each caller)")
	fs.Uint64Var(&cfg.seed, "seed", 1, "seed of the made-up data, a `number`")
	fs.BoolVar(&cfg.contended, "contended", false, "let all callers commit to the same executions, at random, and try again after a conflict")
	fs.IntVar(&cfg.inFlight, "in-flight", 0, "`number` of requests that actor and raw-batch have under way at once (default the engine's choice)")
	fs.IntVar(&cfg.maxBatch, "max-batch", 0, "largest `number` of operations of an actor's request (default the actor's choice)")
	fs.StringVar(&cfg.durability, "durability", "full", "sqlite: full or normal, a `level`")
	fs.BoolVar(&cfg.json, "json", false, "print one JSON object per line instead of a table")
	fs.StringVar(&cfg.html, "html", "", "also write a page with charts to this `file`")
	fs.StringVar(&cfg.cpuprofile, "cpuprofile", "", "write a CPU profile of the measured part to this `file`")
	fs.StringVar(&cfg.memprofile, "memprofile", "", "write an allocation profile to this `file` at the end")
	if err := fs.Parse(args); errors.Is(err, flag.ErrHelp) {
		fmt.Fprintf(stderr, "usage: go run ./bench [flags]\n\nCompares ways of using the store.\n\n")
		fs.SetOutput(stderr)
		fs.PrintDefaults()
		return nil, err
	} else if err != nil {
		return nil, usageError{err.Error()}
	}
	if fs.NArg() > 0 {
		return nil, usageError{fmt.Sprintf("unexpected argument %q", fs.Arg(0))}
	}
	if !slices.Contains(allEngines, cfg.engine) {
		return nil, usageError{fmt.Sprintf("-engine %q is none of %s", cfg.engine, strings.Join(allEngines, ", "))}
	}
	var err error
	if cfg.modes, err = parseModes(modeList, cfg.engine); err != nil {
		return nil, err
	}
	if cfg.ops, err = parseOps(opList, cfg.engine); err != nil {
		return nil, err
	}
	if cfg.callers, err = parseCallers(callerList); err != nil {
		return nil, err
	}
	return cfg, cfg.validate()
}

func (cfg *config) validate() error {
	most := slices.Max(cfg.callers)
	if cfg.ids == 0 {
		cfg.ids = max(4096, 4*most)
	}
	for _, f := range []struct {
		wrong bool
		text  string
	}{
		{cfg.duration <= 0, "-duration is not positive"},
		{cfg.warmup < 0, "-warmup is negative"},
		{cfg.rounds < 1, "-rounds is less than 1"},
		{cfg.state < 1, "-state is less than 1"},
		{cfg.ids < 1, "-ids is less than 1"},
		{!cfg.contended && cfg.ids < most, fmt.Sprintf("-ids is %d, fewer than the %d callers: give each one of its own, or say -contended", cfg.ids, most)},
		{cfg.inFlight < 0, "-in-flight is negative"},
		{cfg.maxBatch < 0, "-max-batch is negative"},
		{cfg.durability != "full" && cfg.durability != "normal", fmt.Sprintf("-durability %q is neither full nor normal", cfg.durability)},
		{cfg.url != "" && cfg.engine != "rqlite" && cfg.engine != "postgres", "-url goes with -engine rqlite or postgres"},
		{cfg.db != "" && cfg.engine != "sqlite", "-db goes with -engine sqlite"},
		{cfg.contended && slices.Contains(cfg.ops, opMixed), "-contended does not go with -op mixed"},
	} {
		if f.wrong {
			return usageError{f.text}
		}
	}
	return nil
}

func splitList(list string) []string {
	var out []string
	for _, s := range strings.Split(list, ",") {
		out = append(out, strings.TrimSpace(s))
	}
	return out
}

func parseCallers(list string) ([]int, error) {
	var out []int
	for _, s := range splitList(list) {
		n, err := strconv.Atoi(s)
		if err != nil || n < 1 || n > 1<<20 {
			return nil, usageError{fmt.Sprintf("-callers %q is not a number from 1 to %d", s, 1<<20)}
		}
		if !slices.Contains(out, n) {
			out = append(out, n)
		}
	}
	return out, nil
}

// measure runs everything and reports it.
func measure(ctx context.Context, cfg *config, stdout, stderr io.Writer) (err error) {
	data, err := newDataset(cfg.ids, cfg.state, cfg.seed)
	if err != nil {
		return err
	}
	fmt.Fprintf(stderr, "opening %s\n", cfg.engine)
	b, err := openBackend(ctx, cfg)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.close()) }()
	env := &environment{cfg: cfg, backend: b, data: data, callers: slices.Max(cfg.callers)}
	targets := make(map[*mode]target)
	defer func() {
		for _, t := range targets {
			err = errors.Join(err, t.close(context.WithoutCancel(ctx)))
		}
	}()
	for _, m := range cfg.modes {
		fmt.Fprintf(stderr, "creating %d executions for %s\n", cfg.ids, m.name)
		if targets[m], err = m.open(ctx, env); err != nil {
			delete(targets, m)
			return fmt.Errorf("%s: %w", m.name, err)
		}
	}
	stopProfile, err := startProfile(cfg.cpuprofile)
	if err != nil {
		return err
	}
	rep := newReporter(cfg, b, stdout)
	failed, err := contests(ctx, env, targets, rep, stderr)
	if err = errors.Join(err, stopProfile()); err != nil {
		return err
	}
	for _, m := range cfg.modes {
		if failed[m] != nil {
			continue // what became of its last operations is not known
		}
		if err := targets[m].verify(ctx); err != nil {
			failed[m] = fmt.Errorf("%s: %w", m.name, err)
		}
	}
	return errors.Join(rep.finish(failed), writeMemProfile(cfg.memprofile))
}

// contests runs all that was asked for, and reports each group when it is done. It
// returns the modes that failed on the way: they were given up, since nobody knows
// the state of their executions, while the others went on.
func contests(ctx context.Context, env *environment, targets map[*mode]target, rep *reporter, stderr io.Writer) (map[*mode]error, error) {
	cfg := env.cfg
	failed := map[*mode]error{}
	for _, o := range cfg.ops {
		for _, m := range cfg.modes {
			if why := m.lacks(o, cfg.contended); why != "" {
				fmt.Fprintf(stderr, "leaving out %s for %s: it %s\n", m.name, o, why)
			}
		}
		for i, callers := range cfg.callers {
			c := &contest{op: o, callers: callers}
			for _, m := range cfg.modes {
				if failed[m] != nil || m.lacks(o, cfg.contended) != "" || m.name == "sync-one" && i > 0 {
					continue
				}
				e := &entry{mode: m, target: targets[m], callers: callers}
				if m.name == "sync-one" {
					e.callers = 1
				}
				c.entries = append(c.entries, e)
			}
			if len(c.entries) == 0 {
				continue
			}
			err := c.run(ctx, env, func(e *entry, round int) {
				r := e.rounds[round]
				fmt.Fprintf(stderr, "%-15s %6d callers  round %d of %d  %-10s %12s ops/s\n",
					o, e.callers, round+1, cfg.rounds, e.mode.name, perSecond(float64(r.ops)/r.window.Seconds()))
			}, func(e *entry, err error) {
				failed[e.mode] = err
				fmt.Fprintf(stderr, "giving up %v\n", err)
			})
			if err != nil {
				return nil, err
			}
			if len(c.entries) == 0 {
				continue
			}
			if err := rep.add(c.results()); err != nil {
				return nil, err
			}
		}
	}
	return failed, nil
}
