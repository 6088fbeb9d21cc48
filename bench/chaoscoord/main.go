package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/quorate/quorate/client/rqlited"
)

// The exit statuses.
const (
	exitOK       = 0
	exitViolated = 1
	exitFailed   = 2
)

func main() {
	if spec := os.Getenv(workerEnv); spec != "" {
		os.Exit(work(spec, os.Stdin, os.Stdout))
	}
	os.Exit(command(os.Args[1:], os.Stdout, os.Stderr))
}

// config is what the flags say.
type config struct {
	duration  time.Duration
	seed      uint64
	processes int
	locks     int
	lease     time.Duration
	noClock   bool
	binary    string // of rqlited; empty means SQLite
	progress  io.Writer
	verbose   bool
}

// command parses the arguments, runs and reports. It returns the exit status.
func command(args []string, stdout, stderr io.Writer) int {
	cfg := config{progress: stderr}
	fs := flag.NewFlagSet("chaoscoord", flag.ContinueOnError)
	fs.SetOutput(stderr)
	fs.DurationVar(&cfg.duration, "duration", time.Minute, "how long the processes go on")
	fs.Uint64Var(&cfg.seed, "seed", 0, "seed of the faults and of what processes do; 0 chooses one and prints it")
	fs.IntVar(&cfg.processes, "processes", 4, "processes that fight")
	fs.IntVar(&cfg.locks, "locks", 3, "locks that they fight for")
	fs.DurationVar(&cfg.lease, "lease", 0, "lease of the locks and of the leadership (default 1s on SQLite, 3s on rqlite)")
	fs.BoolVar(&cfg.noClock, "no-shared-clock", false, "judge leases without a shared clock")
	fs.BoolVar(&cfg.verbose, "v", false, "tell of each fault")
	simple := fs.Bool("sqlite", false, "use SQLite even if there is an rqlited")
	if err := fs.Parse(args); err != nil {
		return exitFailed
	}
	if bin, ok := rqlited.Find(); ok && !*simple {
		cfg.binary = bin
	}
	if cfg.lease == 0 {
		cfg.lease = time.Second
		if cfg.binary != "" {
			cfg.lease = 3 * time.Second
		}
	}
	if fs.NArg() > 0 || cfg.processes < 2 || cfg.locks < 1 || cfg.duration <= 0 || cfg.lease < 100*time.Millisecond {
		fmt.Fprintln(stderr, "chaoscoord: unusable arguments; see -help")
		return exitFailed
	}
	if cfg.seed == 0 {
		cfg.seed = rand.Uint64N(1e9) + 1
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	r, err := execute(ctx, cfg)
	if err != nil {
		fmt.Fprintf(stderr, "chaoscoord: %v\n", err)
		return exitFailed
	}
	if !r.write(stdout, &cfg) {
		return exitViolated
	}
	return exitOK
}
