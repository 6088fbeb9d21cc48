// Cron runs periodic jobs in two processes, here two of everything in one program,
// and shows that each tick is run by one of them.
//
//	go run ./examples/cron
//	go run ./examples/cron -every 200ms -for 5s
//	go run ./examples/cron -url http://localhost:4001
//
// One of the jobs is known to the second runner only. The exit status is 0 if each
// tick ran once.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/quorate/quorate/client"
	"github.com/quorate/quorate/store/coordination"
	"github.com/quorate/quorate/store/engine"
	"github.com/quorate/quorate/store/sqlite"
)

func main() {
	db := flag.String("db", "", "SQLite `file` to use; the default is a temporary one")
	urls := flag.String("url", "", "use the rqlite cluster with these `urls`, separated by commas")
	every := flag.Duration("every", time.Second, "the time between two ticks")
	total := flag.Duration("for", 10*time.Second, "how long to run")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *db, *urls, *every, *total, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "cron:", err)
		os.Exit(1)
	}
}

// done is a tick that was run.
type done struct {
	coordination.Tick
	by   string
	late time.Duration
}

func run(ctx context.Context, db, urls string, every, total time.Duration, out io.Writer) error {
	if db == "" && urls == "" {
		dir, err := os.MkdirTemp("", "cron")
		if err != nil {
			return err
		}
		defer os.RemoveAll(dir)
		db = filepath.Join(dir, "cron.db")
	}
	// The names of the jobs are new, so that the first tick comes after the start.
	suffix := time.Now().UTC().Format("-20060102-150405.000")
	job, own := "report"+suffix, "cleanup"+suffix

	var mu sync.Mutex
	var log []done
	record := func(by string) coordination.Job {
		return func(_ context.Context, t coordination.Tick) error {
			mu.Lock()
			defer mu.Unlock()
			log = append(log, done{t, by, time.Since(t.Due)})
			return nil
		}
	}
	ctx, cancel := context.WithTimeout(ctx, total)
	defer cancel()
	var runners sync.WaitGroup
	failed := make(chan error, 2)
	for _, name := range []string{"east", "west"} {
		eng, err := open(ctx, db, urls)
		if err != nil {
			return err
		}
		defer eng.Close()
		p, err := coordination.Open(ctx, eng)
		if err != nil {
			return err
		}
		defer p.Close(context.WithoutCancel(ctx))
		r, err := p.Runner(coordination.RunnerOptions{OnMissed: func(m coordination.Missed) {
			fmt.Fprintf(out, "missed: %+v\n", m)
		}})
		if err != nil {
			return err
		}
		// On a busy machine a tick may be late; up to ten are then made up for.
		if err := r.Every(job, every, record(name), coordination.CatchUp(10)); err != nil {
			return err
		}
		if name == "west" {
			// Cron expressions work too, in any time zone.
			if err := r.Cron(own, "*/2 * * * * *", time.UTC, record(name)); err != nil {
				return err
			}
		}
		runners.Go(func() {
			if err := r.Run(ctx); !errors.Is(err, ctx.Err()) {
				failed <- err
				cancel()
			}
		})
	}
	runners.Wait()
	select {
	case err := <-failed:
		return err
	default:
	}
	return report(log, job, every, out)
}

func open(ctx context.Context, db, urls string) (engine.Engine, error) {
	if urls != "" {
		return client.Open(ctx, strings.Split(urls, ","))
	}
	return sqlite.Open(db)
}

// report prints what was run, and checks that each tick of the job was, once.
func report(log []done, job string, every time.Duration, out io.Writer) error {
	slices.SortStableFunc(log, func(a, b done) int { return a.Due.Compare(b.Due) })
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "due\tjob\trun by\tlate")
	var last time.Time
	ticks := 0
	for _, d := range log {
		name, _, _ := strings.Cut(d.Job, "-")
		fmt.Fprintf(w, "%s\t%s\t%s\t%v\n", d.Due.Format("15:04:05.000"), name, d.by, d.late.Round(100*time.Microsecond))
		if d.Job != job {
			continue
		}
		if ticks++; ticks > 1 && d.Due.Sub(last) != every {
			return fmt.Errorf("the tick %v after that of %v", d.Due, last)
		}
		last = d.Due
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if ticks == 0 {
		return errors.New("no tick was run")
	}
	fmt.Fprintf(out, "verdict: %d ticks, each run once\n", ticks)
	return nil
}
