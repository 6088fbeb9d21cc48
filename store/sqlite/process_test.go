package sqlite

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/quorate/quorate/store/engine"
	"github.com/quorate/quorate/store/storetest/childprocess"
)

func yield() { runtime.Gosched() }

// childEnv makes the test binary a child process with the task it names.
const childEnv = "QUORATE_SQLITE_TEST_CHILD"

// child reads paths from standard input, does its task on each, and answers with
// one line each: a result, or an error.
func child(task string) int {
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		answer, err := "", fmt.Errorf("no task %q", task)
		switch path := lines.Text(); task {
		case "increment":
			answer, err = childIncrement(path)
		case "open":
			answer, err = childOpen(path)
		case "commit":
			err = childCommit(path)
		}
		if err != nil {
			answer = "error: " + err.Error()
		}
		fmt.Println(strings.ReplaceAll(answer, "\n", " "))
	}
	return 0
}

// childIncrement counts a row up, each time from the value it has read.
func childIncrement(path string) (string, error) {
	e, err := Open(path, WithDurability(Normal))
	if err != nil {
		return "", err
	}
	defer e.Close()
	var mu sync.Mutex
	wins, losses := 0, 0
	var failed error
	var wg sync.WaitGroup
	ctx := context.Background()
	for range 4 {
		wg.Go(func() {
			for range 250 {
				res, err := e.Query(ctx, engine.Linearizable, []engine.Statement{st("SELECT v FROM kv WHERE k = 'counter'")})
				if err == nil {
					n, _ := res[0].Values[0].Int()
					res, err = e.Exec(ctx, []engine.Statement{st("UPDATE kv SET v = ? WHERE k = 'counter' AND v = ?", n+1, n)})
				}
				mu.Lock()
				switch {
				case err != nil:
					failed = err
				case res[0].RowsAffected == 1:
					wins++
				default:
					losses++
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	return fmt.Sprintf("%d %d", wins, losses), failed
}

// childOpen opens a file that many others open at the same time.
func childOpen(path string) (string, error) {
	e, err := Open(path)
	if err != nil {
		return "", err
	}
	ctx := context.Background()
	err = e.Define(ctx, []string{
		"CREATE TABLE IF NOT EXISTS kv (k TEXT PRIMARY KEY, v)",
		"ALTER TABLE kv ADD COLUMN extra TEXT NOT NULL DEFAULT ''",
	})
	if err == nil {
		_, err = e.Exec(ctx, []engine.Statement{put(fmt.Sprint("process ", os.Getpid()), 1)})
	}
	return "ok", errors.Join(err, e.Close())
}

// childCommit commits to two tables until it is killed, and prints what was
// acknowledged.
func childCommit(path string) error {
	e, err := Open(path)
	if err != nil {
		return err
	}
	fmt.Println("open")
	out := make(chan string)
	for g := range 4 {
		go func() {
			for i := 0; ; i++ {
				k := fmt.Sprintf("%d-%d-%d", os.Getpid(), g, i)
				if _, err := e.Exec(context.Background(), []engine.Statement{put(k, i), st("INSERT INTO ledger VALUES (?)", k)}); err != nil {
					out <- "error: " + err.Error()
					return
				}
				out <- k
			}
		}()
	}
	for k := range out {
		fmt.Println(k)
	}
	return nil
}

type process = childprocess.Process

// spawn starts a child process that the test ends.
func spawn(t *testing.T, task string) *process {
	t.Helper()
	return childprocess.Start(t, childEnv+"="+task)
}

// TestTwoProcesses has two processes and this one count one row up.
func TestTwoProcesses(t *testing.T) {
	path := tempDB(t)
	e := openKV(t, path, WithDurability(Normal))
	exec(t, e, put("counter", 0))
	procs := []*process{spawn(t, "increment"), spawn(t, "increment")}
	for _, p := range procs {
		p.Send(path)
	}
	total := 0
	for i, p := range procs {
		answer := p.Receive()
		wins, losses, _ := strings.Cut(answer, " ")
		n, err := strconv.Atoi(wins)
		if err != nil {
			t.Fatalf("process %d: %s", i, answer)
		}
		t.Logf("process %d: %d won, %s lost", i, n, losses)
		if n == 0 {
			t.Errorf("process %d never won", i)
		}
		total += n
	}
	if n := number(t, e, "SELECT v FROM kv WHERE k = 'counter'"); n != int64(total) {
		t.Errorf("the counter is %d after %d successes", n, total)
	}
}

// TestManyProcessesOpen has 16 processes open one file at the same moment, one
// that is not there yet and one that is.
func TestManyProcessesOpen(t *testing.T) {
	const n = 16
	procs := make([]*process, n)
	for i := range procs {
		procs[i] = spawn(t, "open")
	}
	dir := t.TempDir()
	for round := range 2 {
		path := filepath.Join(dir, fmt.Sprint(round/2, ".db"))
		for _, p := range procs {
			p.Send(path)
		}
		for i, p := range procs {
			answer := p.Receive()
			if round%2 == 1 && strings.Contains(answer, "UNIQUE constraint failed") {
				continue // its row of the round before
			}
			if answer != "ok" {
				t.Errorf("round %d, process %d: %s", round, i, answer)
			}
		}
		e := open(t, path)
		if got := number(t, e, "SELECT count(*) FROM kv"); got != n {
			t.Errorf("round %d: %d rows, want %d", round, got, n)
		}
		e.Close()
	}
}

// TestKill kills a process in the middle of its commits. Each commit is whole or
// absent, and every one that was acknowledged is there.
func TestKill(t *testing.T) {
	path := tempDB(t)
	e := openKV(t, path)
	define(t, e, "CREATE TABLE ledger (k TEXT PRIMARY KEY)")
	acked := 0
	for round := range 4 {
		p := spawn(t, "commit")
		p.Send(path)
		if answer := p.Receive(); answer != "open" {
			t.Fatal(answer)
		}
		timer := time.AfterFunc(rand.N(150*time.Millisecond), func() { _ = p.Cmd.Process.Kill() })
		var keys []string
		for p.Out.Scan() {
			if k := p.Out.Text(); strings.HasPrefix(k, "error") {
				t.Error(k)
			} else if strings.Count(k, "-") == 2 {
				keys = append(keys, k)
			}
		}
		timer.Stop()
		// The last line may have been cut.
		if len(keys) > 0 {
			keys = keys[:len(keys)-1]
		}
		acked += len(keys)
		for _, k := range keys {
			if number(t, e, "SELECT count(*) FROM kv JOIN ledger USING (k) WHERE k = ?", k) != 1 {
				t.Errorf("round %d: %s was acknowledged and is not there", round, k)
			}
		}
		if n := number(t, e, "SELECT count(*) FROM kv FULL JOIN ledger ON kv.k = ledger.k WHERE kv.k IS NULL OR ledger.k IS NULL"); n != 0 {
			t.Errorf("round %d: %d commits are there in part", round, n)
		}
		exec(t, e, put(fmt.Sprint("after ", round), 1), st("INSERT INTO ledger VALUES (?)", fmt.Sprint("after ", round)))
	}
	t.Logf("%d commits acknowledged before kills", acked)
	if res := query(t, e, st("PRAGMA integrity_check"))[0].Values[0]; res != engine.Text("ok") {
		t.Errorf("integrity check: %v", res)
	}
}

// TestTwoEngines has two engines of one process contend for a file.
func TestTwoEngines(t *testing.T) {
	path := tempDB(t)
	engines := []*Engine{openKV(t, path, WithDurability(Normal)), openKV(t, path, WithDurability(Normal))}
	var wg sync.WaitGroup
	for i, e := range engines {
		for g := range 4 {
			wg.Go(func() {
				for n := range 25 {
					exec2(t, e, put(fmt.Sprintf("%d-%d-%d", i, g, n), 1))
				}
			})
		}
	}
	wg.Wait()
	for _, e := range engines {
		if n := number(t, e, "SELECT count(*) FROM kv"); n != 200 {
			t.Errorf("%d rows, want 200", n)
		}
	}
}

func exec2(t *testing.T, e *Engine, stmts ...engine.Statement) {
	if _, err := e.Exec(context.Background(), stmts); err != nil {
		t.Error(err)
	}
}
