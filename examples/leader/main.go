// Leader elects one of several processes, kills it, and shows that another takes
// over within the lease; then it asks that one to go, and a third takes over at once.
//
//	go run ./examples/leader
//	go run ./examples/leader -url http://localhost:4001,http://localhost:4003
//
// The candidates are this program again, started three times. They share a SQLite
// file, or an rqlite cluster, and nothing else. The program ends by itself after
// some seconds; its exit status is 0 if all went as it should.
package main

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/quorate/quorate/client"
	"github.com/quorate/quorate/store/coordination"
	"github.com/quorate/quorate/store/engine"
	"github.com/quorate/quorate/store/sqlite"
)

// The lease is short, so that there is not much to wait for. A real one may well be
// the default of 15 s.
const (
	lease = 3 * time.Second
	retry = 400 * time.Millisecond
)

// candidateEnv holds the name of a candidate; without it this is the program that
// starts them.
const candidateEnv = "QUORATE_EXAMPLE_CANDIDATE"

func main() {
	db := flag.String("db", "", "SQLite `file` to use; the default is a temporary one")
	urls := flag.String("url", "", "use the rqlite cluster with these `urls`, separated by commas")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var err error
	if name := os.Getenv(candidateEnv); name != "" {
		err = stand(ctx, name, *db, *urls)
	} else {
		err = stage(ctx, *db, *urls, os.Stdout)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "leader:", err)
		os.Exit(1)
	}
}

// stand is a candidate: it leads when it can, until its standard input ends.
func stand(ctx context.Context, name, db, urls string) error {
	eng, err := open(ctx, db, urls)
	if err != nil {
		return err
	}
	defer eng.Close()
	p, err := coordination.Open(ctx, eng)
	if err != nil {
		return err
	}
	defer p.Close(context.Background())
	election, err := p.Election("example", coordination.ElectionOptions{ID: name, Lease: lease, Retry: retry})
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		stop()
	}()
	err = election.Lead(ctx, func(ctx context.Context, t coordination.Term) error {
		fmt.Println("leads", t.Number) // what only one may do, until ctx ends
		<-ctx.Done()
		fmt.Println("stops", t.Number)
		return nil
	})
	if ctx.Err() != nil {
		return nil
	}
	return err
}

func open(ctx context.Context, db, urls string) (engine.Engine, error) {
	if urls != "" {
		return client.Open(ctx, strings.Split(urls, ","))
	}
	return sqlite.Open(db)
}

// said is what a candidate says, and when it was heard.
type said struct {
	who  string
	what string
	term int64
	at   time.Time
}

// stage starts the candidates, removes leaders, and says whether all went well.
func stage(ctx context.Context, db, urls string, out io.Writer) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	if db == "" && urls == "" {
		dir, err := os.MkdirTemp("", "leader")
		if err != nil {
			return err
		}
		defer os.RemoveAll(dir)
		db = filepath.Join(dir, "leader.db")
	}
	program, err := os.Executable()
	if err != nil {
		return err
	}
	lines := make(chan said)
	var readers sync.WaitGroup
	candidates := make(map[string]*candidate)
	defer func() {
		for _, c := range candidates {
			_ = c.cmd.Process.Kill()
		}
		go func() { readers.Wait(); close(lines) }()
		for range lines { // nobody is left behind
		}
		for _, c := range candidates {
			_ = c.cmd.Wait()
		}
	}()
	begin := time.Now()
	for _, name := range []string{"anna", "ben", "cleo"} {
		c := &candidate{cmd: exec.Command(program, "-db", db, "-url", urls)}
		c.cmd.Env = append(os.Environ(), candidateEnv+"="+name)
		c.cmd.Stderr = os.Stderr
		if c.stdin, err = c.cmd.StdinPipe(); err != nil {
			return err
		}
		stdout, err := c.cmd.StdoutPipe()
		if err != nil {
			return err
		}
		if err := c.cmd.Start(); err != nil {
			return err
		}
		candidates[name] = c
		readers.Go(func() { listen(name, stdout, lines) })
	}

	play := &play{out: out, begin: begin, lines: lines}
	first, err := play.leader(ctx)
	if err != nil {
		return err
	}
	if err := play.rest(ctx, 2*time.Second); err != nil {
		return err
	}
	play.note("%s is killed", first.who)
	killed := time.Now()
	_ = candidates[first.who].cmd.Process.Kill()
	second, err := play.leader(ctx)
	if err != nil {
		return err
	}
	if err := play.rest(ctx, 2*time.Second); err != nil {
		return err
	}
	play.note("%s is asked to go", second.who)
	asked := time.Now()
	_ = candidates[second.who].stdin.Close()
	third, err := play.leader(ctx)
	if err != nil {
		return err
	}
	after, at := second.at.Sub(killed), third.at.Sub(asked)
	play.note("took over %v after the kill (the lease is %v), and %v after the farewell (a retry is %v)",
		after.Round(time.Millisecond), lease, at.Round(time.Millisecond), retry)
	switch {
	case first.who == second.who || second.who == third.who:
		return fmt.Errorf("%s, %s, %s: a leader that was gone led again", first.who, second.who, third.who)
	case first.term >= second.term || second.term >= third.term:
		return fmt.Errorf("terms %d, %d, %d do not grow", first.term, second.term, third.term)
	case after > lease+time.Second:
		return fmt.Errorf("the takeover took %v", after)
	}
	fmt.Fprintln(out, "verdict: one leader at a time, each term greater than the last")
	return nil
}

// candidate is one of the processes.
type candidate struct {
	cmd   *exec.Cmd
	stdin io.Closer
}

// listen passes on what a candidate says, until it ends.
func listen(who string, stdout io.Reader, lines chan<- said) {
	for in := bufio.NewScanner(stdout); in.Scan(); {
		s := said{who: who, at: time.Now()}
		if _, err := fmt.Sscanf(in.Text(), "%s %d", &s.what, &s.term); err == nil {
			lines <- s
		}
	}
}

// play follows what the candidates say.
type play struct {
	out     io.Writer
	begin   time.Time
	lines   <-chan said
	leading string
}

func (p *play) note(format string, args ...any) {
	fmt.Fprintf(p.out, "%6.2f s  %s\n", time.Since(p.begin).Seconds(), fmt.Sprintf(format, args...))
}

// leader waits for the next candidate that leads.
func (p *play) leader(ctx context.Context) (said, error) {
	for {
		select {
		case s := <-p.lines:
			p.note("%s %s term %d", s.who, s.what, s.term)
			if s.what == "leads" {
				p.leading = s.who
				return s, nil
			}
		case <-ctx.Done():
			return said{}, fmt.Errorf("waiting for a leader: %w", ctx.Err())
		}
	}
}

// rest lets the leader work for a while, during which nothing should be heard.
func (p *play) rest(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case s := <-p.lines:
		return fmt.Errorf("%s %s term %d while %s leads", s.who, s.what, s.term, p.leading)
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
