package coordination

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/quorate/quorate/store/engine"
	"github.com/quorate/quorate/store/sqlite"
	"github.com/quorate/quorate/store/storetest/childprocess"
)

// childEnv makes the test binary a child process with the task it names.
const childEnv = "QUORATE_COORDINATION_TEST_CHILD"

// child reads lines from standard input, does its task for each, and answers with
// one line.
func child(task string) int {
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		answer, err := "", fmt.Errorf("no task %q", task)
		switch path := lines.Text(); task {
		case "open":
			answer, err = childOpen(path)
		case "contend":
			answer, err = childContend(path)
		case "lead":
			answer, err = childLead(path, lines)
		case "hold":
			answer, err = childHold(path, lines)
		}
		if err != nil {
			answer = "error: " + err.Error()
		}
		fmt.Println(strings.ReplaceAll(answer, "\n", " "))
	}
	return 0
}

// onFile opens a provider on a file and returns what closes both.
func onFile(path string) (*Provider, engine.Engine, func() error, error) {
	eng, err := sqlite.Open(path, sqlite.WithDurability(sqlite.Normal))
	if err != nil {
		return nil, nil, nil, err
	}
	p, err := Open(context.Background(), eng)
	if err != nil {
		return nil, nil, nil, errors.Join(err, eng.Close())
	}
	return p, eng, func() error { return errors.Join(p.Close(context.Background()), eng.Close()) }, nil
}

// childOpen opens a file that others open at the same moment, and uses a lock.
func childOpen(path string) (string, error) {
	p, _, closing, err := onFile(path)
	if err != nil {
		return "", err
	}
	l, err := p.Lock("opened", LockOptions{Retry: time.Millisecond})
	if err != nil {
		return "", err
	}
	h, err := l.Acquire(context.Background())
	if err == nil {
		err = h.Release(context.Background())
	}
	return "ok", errors.Join(err, closing())
}

// contendRounds is how often each contender takes the lock.
const contendRounds = 40

// childContend takes one lock again and again, by many goroutines, and while it
// has it counts a row up in two steps, guarded by nothing else.
func childContend(path string) (string, error) {
	p, eng, closing, err := onFile(path)
	if err != nil {
		return "", err
	}
	ctx := context.Background()
	failed := make(chan error)
	const contenders = 4
	for range contenders {
		go func() { failed <- contend(ctx, p, eng) }()
	}
	for range contenders {
		err = errors.Join(err, <-failed)
	}
	return "ok", errors.Join(err, closing())
}

func contend(ctx context.Context, p *Provider, eng engine.Engine) error {
	l, err := p.Lock("fought", LockOptions{Retry: time.Millisecond})
	if err != nil {
		return err
	}
	for range contendRounds {
		h, err := l.Acquire(ctx)
		if err != nil {
			return err
		}
		res, err := eng.Query(ctx, engine.Linearizable, []engine.Statement{{SQL: "SELECT n,token FROM guarded"}})
		if err != nil {
			return err
		}
		n, _ := res[0].Row(0)[0].Int()
		if token, _ := res[0].Row(0)[1].Int(); token >= h.Token() {
			return fmt.Errorf("token %d after %d", h.Token(), token)
		}
		if _, err := eng.Exec(ctx, []engine.Statement{{
			SQL: "UPDATE guarded SET n=?1,token=?2", Args: []engine.Value{engine.Int(n + 1), engine.Int(h.Token())},
		}}); err != nil {
			return err
		}
		if err := h.Release(ctx); err != nil {
			return err
		}
	}
	return nil
}

// childHold acquires the lock "leader", kept alive, and answers with its token.
// Then it does what it is told: "write" writes with the token, "again" acquires anew.
func childHold(path string, lines *bufio.Scanner) (string, error) {
	p, eng, _, err := onFile(path)
	if err != nil {
		return "", err
	}
	ctx := context.Background()
	l, err := p.Lock("leader", LockOptions{Lease: holdLease, KeepAlive: true, Retry: 10 * time.Millisecond})
	if err != nil {
		return "", err
	}
	h, err := l.Acquire(ctx)
	if err != nil {
		return "", err
	}
	fmt.Println(h.Token())
	for lines.Scan() {
		switch lines.Text() {
		case "write":
			accepted, err := fencedWrite(ctx, eng, h.Token())
			if err != nil {
				return "", err
			}
			<-h.Context().Done()
			fmt.Println(accepted, h.Valid(), context.Cause(h.Context()))
		case "again":
			if h, err = l.Acquire(ctx); err != nil {
				return "", err
			}
			fmt.Println(h.Token())
		}
	}
	return "", nil
}

const holdLease = 500 * time.Millisecond

// fencedWrite writes to the guarded row unless that has seen a greater token.
func fencedWrite(ctx context.Context, eng engine.Engine, token int64) (bool, error) {
	res, err := eng.Exec(ctx, []engine.Statement{{
		SQL: "UPDATE guarded SET n=n+1,token=?1 WHERE token<=?1", Args: []engine.Value{engine.Int(token)},
	}})
	if err != nil {
		return false, err
	}
	return res[0].RowsAffected == 1, nil
}

type process = childprocess.Process

// spawn starts a child process that the test ends.
func spawn(t *testing.T, task string) *process {
	t.Helper()
	return childprocess.Start(t, childEnv+"="+task)
}

// TestProcessesOpenANewFileTogether has four processes open a file that is not
// there yet, at the same moment, and use a lock in it, again and again.
func TestProcessesOpenANewFileTogether(t *testing.T) {
	rounds := 200
	if testing.Short() {
		rounds = 50
	}
	procs := make([]*process, 4)
	for i := range procs {
		procs[i] = spawn(t, "open")
	}
	dir := t.TempDir()
	for round := range rounds {
		path := filepath.Join(dir, fmt.Sprint(round, ".db"))
		for _, p := range procs {
			p.Send(path)
		}
		for i, p := range procs {
			if answer := p.Receive(); answer != "ok" {
				t.Fatalf("round %d, process %d: %s", round, i, answer)
			}
		}
		for _, suffix := range []string{"", "-wal", "-shm"} {
			if err := os.Remove(path + suffix); err != nil && !errors.Is(err, os.ErrNotExist) {
				t.Fatal(err)
			}
		}
	}
}

// guarded makes the row that a lock protects.
func guarded(t *testing.T, eng engine.Engine) {
	t.Helper()
	if err := eng.Define(t.Context(), []string{
		"CREATE TABLE IF NOT EXISTS guarded (id BIGINT PRIMARY KEY, n BIGINT NOT NULL, token BIGINT NOT NULL)",
		"INSERT OR IGNORE INTO guarded VALUES (1,0,0)",
	}); err != nil {
		t.Fatal(err)
	}
}

func opened(t *testing.T) (*Provider, engine.Engine, string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "test.db")
	p, eng, closing, err := onFile(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := closing(); err != nil {
			t.Error(err)
		}
	})
	guarded(t, eng)
	return p, eng, path
}

func number(t *testing.T, eng engine.Engine, sql string) int64 {
	t.Helper()
	res, err := eng.Query(t.Context(), engine.Linearizable, []engine.Statement{{SQL: sql}})
	if err != nil {
		t.Fatal(err)
	}
	n, _ := res[0].Row(0)[0].Int()
	return n
}

// TestCO06_ContendersOfSeveralProcesses: what is done under the lock never
// overlaps, over processes and goroutines, and nobody meets a busy database.
func TestCO06_ContendersOfSeveralProcesses(t *testing.T) {
	p, eng, path := opened(t)
	procs := []*process{spawn(t, "contend"), spawn(t, "contend")}
	for _, c := range procs {
		c.Send(path)
	}
	if err := contend(t.Context(), p, eng); err != nil {
		t.Error(err)
	}
	for i, c := range procs {
		if answer := c.Receive(); answer != "ok" {
			t.Errorf("process %d: %s", i, answer)
		}
	}
	const want = contendRounds * (1 + 2*4)
	if n := number(t, eng, "SELECT n FROM guarded"); n != want {
		t.Errorf("counted to %d, want %d", n, want)
	}
	if n := number(t, eng, "SELECT fence FROM quorate_locks WHERE name='fought'"); n != want {
		t.Errorf("fence %d, want %d", n, want)
	}
}
