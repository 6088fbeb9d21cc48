package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/quorate/quorate/client/rqlited"
	"github.com/quorate/quorate/client/rqlitetest"
)

// The exit statuses.
const (
	exitOK       = 0
	exitViolated = 1
	exitFailed   = 2
)

func main() { os.Exit(command(os.Args[1:], os.Stdout, os.Stderr)) }

// command parses the arguments, runs and reports. It returns the exit status.
func command(args []string, stdout, stderr io.Writer) int {
	bin, isReal := rqlited.Find()
	cfg := config{progress: stderr, every: 5 * time.Second}
	fs := flag.NewFlagSet("chaos", flag.ContinueOnError)
	fs.SetOutput(stderr)
	fs.Uint64Var(&cfg.seed, "seed", 0, "seed of the faults and of what callers do; 0 chooses one and prints it")
	fs.DurationVar(&cfg.duration, "duration", time.Minute, "how long the callers go on")
	fs.IntVar(&cfg.callers, "callers", 64, "callers at work at the same time")
	fs.IntVar(&cfg.processes, "processes", 4, "independent clients they are spread over")
	fs.IntVar(&cfg.hot, "hot", 4, "executions that all callers fight over at a time")
	fs.IntVar(&cfg.idOps, "id-ops", 1000, "operations on one such execution before another takes its place")
	fs.DurationVar(&cfg.faultEvery, "fault-every", 0, "from the start of one fault to the next (default 5s on real nodes, 1s on simulated ones)")
	fs.DurationVar(&cfg.limit, "limit", 30*time.Second, "the stores' time limit")
	fs.DurationVar(&cfg.slack, "slack", 5*time.Second, "how much longer a future may take before it counts as hung")
	fs.Float64Var(&cfg.impatient, "impatient", 0.02, "share of calls whose context ends within 60 ms")
	fs.DurationVar(&cfg.checkTime, "check-time", 20*time.Second, "time for porcupine to decide on one history")
	fs.DurationVar(&cfg.think, "think", 0, "pause of each caller between actions, on average")
	fs.DurationVar(&cfg.gapOver, "gap-over", 250*time.Millisecond, "gaps that exceed the cluster's election by more are told (real nodes)")
	fs.BoolVar(&cfg.verbose, "v", false, "tell of each fault and each long gap")
	strict := fs.Bool("strict-gap", false, "let such gaps fail the run")
	fs.StringVar(&cfg.out, "out", "", "directory for histories that failed (default a new one in the temporary directory)")
	simulate := fs.Bool("simulate", false, "use simulated nodes even if there is an rqlited")
	if err := fs.Parse(args); err != nil {
		return exitFailed
	}
	if fs.NArg() > 0 || cfg.callers < 1 || cfg.processes < 1 || cfg.hot < 1 || cfg.idOps < 8 || cfg.duration <= 0 || cfg.limit <= 0 {
		fmt.Fprintln(stderr, "chaos: unusable arguments; see -help")
		return exitFailed
	}
	isReal = isReal && !*simulate
	if cfg.seed == 0 {
		cfg.seed = rand.Uint64N(1e9) + 1
	}
	if cfg.faultEvery == 0 {
		cfg.faultEvery = time.Second
		if isReal {
			cfg.faultEvery = 5 * time.Second
		}
	}
	if cfg.out == "" {
		cfg.out = filepath.Join(os.TempDir(), fmt.Sprintf("chaos-%d", cfg.seed))
	}
	replay := []string{"go run ./bench/chaos"}
	fs.Visit(func(f *flag.Flag) {
		if f.Name != "seed" && f.Name != "out" {
			replay = append(replay, fmt.Sprintf("-%s=%s", f.Name, f.Value))
		}
	})
	replay = append(replay, fmt.Sprintf("-seed=%d", cfg.seed))

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var (
		cl  cluster
		err error
	)
	if isReal {
		cl, err = startActual(ctx, bin)
	} else {
		cfg.gapOver = 0
		cl, err = newSimulated(cfg.seed, rqlitetest.Latency(2*time.Millisecond, 500*time.Microsecond))
	}
	if err != nil {
		fmt.Fprintf(stderr, "chaos: start a cluster: %v\n", err)
		return exitFailed
	}
	defer cl.close()
	fmt.Fprintf(stderr, "chaos: %s, seed %d, %v\n", cl.name(), cfg.seed, cfg.duration)
	res, err := execute(ctx, cl, cfg)
	if err != nil {
		fmt.Fprintf(stderr, "chaos: %v\n", err)
		return exitFailed
	}
	if !res.write(stdout, &cfg, strings.Join(replay, " ")) || *strict && res.late > 0 {
		return exitViolated
	}
	return exitOK
}
