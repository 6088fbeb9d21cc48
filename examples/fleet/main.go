package main

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net/url"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/quorate/quorate/actor"
)

// sample is made by writeSample: fleet -generate 1200 -seed 1.
//
//go:embed testdata/orders.jsonl
var sample []byte

// Exit statuses; see the package comment.
const (
	exitOK          = 0
	exitFailed      = 1
	exitUsage       = 2
	exitBadLines    = 3
	exitInterrupted = 130
)

// grace is how long an interrupted run may take to settle what is under way.
const grace = 15 * time.Second

// options are the command line.
type options struct {
	db       string
	urls     []string
	postgres string
	workers  int
	window   int
	sync     bool
	generate int
	seed     uint64
	input    string // a file, "-", or "" for the sample
}

func main() {
	stop, restore := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	context.AfterFunc(stop, restore) // a second signal ends the program at once
	code := run(stop.Done(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	restore()
	os.Exit(code)
}

// run is the program. It returns the exit status.
func run(stop <-chan struct{}, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	opts, err := parse(args, stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return exitOK
	case err != nil:
		return exitUsage
	}
	out := newConsole(stdout, stderr)
	if opts.generate > 0 {
		if err := writeSample(stdout, opts.seed, opts.generate); err != nil {
			out.complain("write the sample: %v", err)
			return exitFailed
		}
		return exitOK
	}
	code, err := drive(stop, opts, stdin, out)
	if err != nil {
		out.complain("%v", err)
	}
	return code
}

func parse(args []string, stderr io.Writer) (options, error) {
	var opts options
	var urls string
	flags := flag.NewFlagSet("fleet", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.StringVar(&opts.db, "db", "", "SQLite `file` to keep, created if it is not there (default a temporary file)")
	flags.StringVar(&urls, "url", "", "run on rqlite: the `URLs` of some or all nodes, with a comma between them")
	flags.StringVar(&opts.postgres, "postgres", "", "run on PostgreSQL: the server's `URL`, such as postgres://user:password@localhost/db")
	flags.IntVar(&opts.workers, "workers", 64, "`number` of workers")
	flags.IntVar(&opts.window, "inflight", 8, "`number` of events that a worker keeps in flight")
	flags.BoolVar(&opts.sync, "sync", false, "use the synchronous store: a request for each operation, and workers that wait for it")
	flags.IntVar(&opts.generate, "generate", 0, "do nothing but print events for this `number` of orders")
	flags.Uint64Var(&opts.seed, "seed", 1, "for -generate: the same `seed` prints the same events")
	flags.Usage = func() {
		fmt.Fprint(stderr, "usage: fleet [flags] [FILE | -]\n\n"+
			"Drives orders through their life from events in JSON lines (a sample without FILE,\n"+
			"standard input for -) and verifies the result with plain SQL.\n\n")
		flags.PrintDefaults()
	}
	if err := flags.Parse(args); err != nil {
		return opts, err
	}
	refuse := func(format string, args ...any) (options, error) {
		err := fmt.Errorf(format, args...)
		fmt.Fprintf(stderr, "fleet: %v (try fleet -h)\n", err)
		return opts, err
	}
	for u := range strings.SplitSeq(urls, ",") {
		if u = strings.TrimSpace(u); u != "" {
			opts.urls = append(opts.urls, u)
		}
	}
	switch {
	case flags.NArg() > 1:
		return refuse("%d arguments, want one file at most", flags.NArg())
	case opts.db != "" && len(opts.urls) > 0, opts.db != "" && opts.postgres != "", len(opts.urls) > 0 && opts.postgres != "":
		return refuse("-db, -url and -postgres exclude each other")
	case opts.workers < 1 || opts.workers > 100_000:
		return refuse("-workers %d is not within 1 to 100000", opts.workers)
	case opts.window < 1 || opts.window > 100_000:
		return refuse("-inflight %d is not within 1 to 100000", opts.window)
	case opts.generate < 0 || opts.generate > maxGenerate:
		return refuse("-generate %d is not within 1 to %d", opts.generate, maxGenerate)
	}
	for _, raw := range opts.urls {
		u, err := url.Parse(raw)
		if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
			return refuse("-url wants URLs like http://localhost:4001")
		}
	}
	opts.input = flags.Arg(0)
	return opts, nil
}

// openInput opens what the command line names. size is 0 if it is not known.
func openInput(opts options, stdin io.Reader) (input io.Reader, name string, size int64, close func() error, err error) {
	nothing := func() error { return nil }
	switch opts.input {
	case "":
		return bytes.NewReader(sample), "the sample", int64(len(sample)), nothing, nil
	case "-":
		return stdin, "standard input", 0, nothing, nil
	}
	file, err := os.Open(opts.input)
	if err != nil {
		return nil, "", 0, nil, err
	}
	info, err := file.Stat()
	if err == nil && info.IsDir() {
		err = fmt.Errorf("%s is a folder, not a file of events", opts.input)
	}
	if err != nil {
		return nil, "", 0, nil, errors.Join(err, file.Close())
	}
	return file, opts.input, info.Size(), file.Close, nil
}

// drive opens everything, runs the fleet, reports and verifies.
func drive(stop <-chan struct{}, opts options, stdin io.Reader, out *console) (code int, err error) {
	// ctx ends a while after stop, for what cannot be settled in time.
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	opening, opened := context.WithCancel(ctx)
	defer opened()
	defer context.AfterFunc(stopContext{stop}, func() {
		opened() // nothing was written yet: no need to wait
		time.AfterFunc(grace, func() { cancel(errInterrupted) })
	})()

	input, inputName, size, closeInput, err := openInput(opts, stdin)
	if err != nil {
		return exitFailed, err
	}
	defer func() { err = errors.Join(err, closeInput()) }()

	log := slog.New(slog.NewTextHandler(out, &slog.HandlerOptions{Level: slog.LevelWarn}))
	db, err := openDatabase(opening, opts, log)
	if err != nil {
		if isClosed(stop) {
			return exitInterrupted, errInterrupted
		}
		return exitFailed, err
	}
	defer func() { err = errors.Join(err, db.close()) }()
	v := &verifier{db: db.sql, model: newOracle()}
	if v.versionsBefore, err = sumVersions(ctx, db.sql); err != nil {
		return exitFailed, fmt.Errorf("count the commits so far: %w", err)
	}

	var async *actor.Store
	var back backend = syncBackend{db.store}
	mode := "one request per operation"
	if !opts.sync {
		if async, err = actor.New(db.store); err != nil {
			return exitFailed, err
		}
		back, mode = asyncBackend{async}, fmt.Sprintf("%d events in flight each", opts.window)
	}
	f := newFleet(back, opts.workers, opts.window, v.model, out)
	out.printf("Fleet: %d workers, %s, on %s, events from %s.\n", opts.workers, mode, db.name, inputName)

	showing, hide := context.WithCancel(ctx)
	var shown sync.WaitGroup
	shown.Go(func() { f.progress(showing, size) })
	began := time.Now()
	runErr := f.run(ctx, stop, input)
	took := time.Since(began)
	hide()
	shown.Wait()

	var stats *actor.Stats
	if async != nil {
		closing, closed := context.WithTimeout(ctx, grace)
		left, closeErr := async.Close(closing)
		closed()
		if closeErr != nil {
			out.complain("%d operations were not sent, %d were cut short", left.Unsent, left.InFlight)
		}
		s := async.Stats()
		stats = &s
	}
	v.commits = f.count.commits.Load()
	if runErr != nil {
		return f.unfinished(ctx, v, runErr, opts, took)
	}
	f.report(stats, db.store.Counters(), took)

	out.printf("Verification, by plain SQL beside the store:\n")
	checks, err := v.verify(ctx)
	switch {
	case err != nil:
		return exitFailed, err
	case !out.verdict(checks):
		return exitFailed, nil
	case f.count.badLines.Load() > 0:
		out.complain("%d bad lines of the input were skipped", f.count.badLines.Load())
		return exitBadLines, nil
	}
	return exitOK, nil
}

// unfinished tells what a run that ended early has left.
func (f *fleet) unfinished(ctx context.Context, v *verifier, why error, opts options, took time.Duration) (int, error) {
	f.out.printf("Stopped after %v: %s events settled, %s commits.\n",
		took.Round(time.Millisecond), group(f.count.settled.Load()), group(f.count.commits.Load()))
	if left, err := v.left(context.WithoutCancel(ctx)); err == nil {
		f.out.printf("Left in the database: %v. The rest of the input was not read.\n", left)
	}
	if opts.db == "" && len(opts.urls) == 0 && opts.postgres == "" {
		f.out.printf("It was a temporary file. With -db FILE, the next run goes on from here.\n")
	} else {
		f.out.printf("Nothing is lost: run it again with the same input and database to go on.\n")
	}
	if errors.Is(why, errInterrupted) {
		return exitInterrupted, errInterrupted
	}
	return exitFailed, why
}

// stopContext makes a context of a channel.
type stopContext struct{ stop <-chan struct{} }

func (c stopContext) Deadline() (time.Time, bool) { return time.Time{}, false }
func (c stopContext) Done() <-chan struct{}       { return c.stop }
func (c stopContext) Value(any) any               { return nil }
func (c stopContext) Err() error {
	if isClosed(c.stop) {
		return context.Canceled
	}
	return nil
}
