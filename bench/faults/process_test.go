package faults

import (
	"bufio"
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	_ "github.com/ncruces/go-sqlite3/driver" // an own connection to the file

	"github.com/quorate/quorate/actor"
	"github.com/quorate/quorate/store"
	"github.com/quorate/quorate/store/engine"
	"github.com/quorate/quorate/store/sqlite"
	"github.com/quorate/quorate/store/storetest/childprocess"
)

// childEnv makes the test binary a child process with the task it names.
const childEnv = "QUORATE_FAULTS_TEST_CHILD"

// child reads paths from standard input, does its task on each, and answers with
// one line each, "error: ..." for a failure.
func child(task string) int {
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		answer, err := childTask(task, lines.Text())
		if err != nil {
			answer = "error: " + strings.ReplaceAll(err.Error(), "\n", " ")
		}
		fmt.Println(answer)
	}
	return 0
}

func childTask(task, path string) (answer string, err error) {
	eng, err := sqlite.Open(path, sqlite.WithDurability(sqlite.Normal))
	if err != nil {
		return "", err
	}
	ctx := context.Background()
	st, err := store.Open(ctx, eng, store.WithLogger(slog.New(slog.DiscardHandler)))
	if err != nil {
		return "", errors.Join(err, eng.Close())
	}
	s, err := actor.New(st)
	if err != nil {
		return "", err
	}
	switch task {
	case "open":
		_, err = s.Commit(ctx, full(execution(fmt.Sprint("process ", os.Getpid())))).Await(ctx)
		answer = "ok"
	case "claim":
		answer, err = childClaim(ctx, s)
	case "thousand":
		answer, err = childThousand(ctx, s)
	case "contend":
		answer, err = childContend(ctx, s)
	case "emit":
		answer, err = childEmit(ctx, s)
	case "commit":
		return "", childCommit(ctx, s)
	}
	_, closeErr := s.Close(ctx)
	return answer, errors.Join(err, closeErr, st.Close())
}

// childClaim runs every execution that is ready, unless another process has.
func childClaim(ctx context.Context, s *actor.Store) (string, error) {
	wins, losses := 0, 0
	for {
		page, err := s.List(ctx, store.ListQuery{Status: []store.Status{store.StatusRunning}, Limit: 50}).Await(ctx)
		if err != nil || len(page.Items) == 0 {
			return fmt.Sprint(wins, " ", losses), err
		}
		for _, item := range page.Items {
			e, err := s.Load(ctx, item.ID).Await(ctx)
			if err != nil {
				return "", err
			}
			if e.Status != store.StatusRunning {
				continue
			}
			e.Status = store.StatusDone
			switch _, err := s.Commit(ctx, full(e)).Await(ctx); {
			case err == nil:
				wins++
			case errors.Is(err, store.ErrConflict):
				losses++
			default:
				return "", err
			}
		}
	}
}

// childContend reads and then commits, beside others, and lists.
func childContend(ctx context.Context, s *actor.Store) (string, error) {
	var mu sync.Mutex
	wins := 0
	var failed error
	var wg sync.WaitGroup
	for g := range 6 {
		wg.Go(func() {
			for i := range 25 {
				e, err := s.Load(ctx, fmt.Sprintf("a-%03d", (g+i)%5)).Await(ctx)
				if err == nil {
					_, err = s.Commit(ctx, full(e)).Await(ctx)
				}
				won := err == nil
				if errors.Is(err, store.ErrConflict) {
					err = nil
				}
				if err == nil {
					_, err = s.List(ctx, store.ListQuery{Status: []store.Status{store.StatusRunning}}).Await(ctx)
				}
				mu.Lock()
				if won {
					wins++
				}
				failed = errors.Join(failed, err)
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	return fmt.Sprint(wins), failed
}

// childThousand tries 1,000 commits on three executions, each built on what it has
// just loaded.
func childThousand(ctx context.Context, s *actor.Store) (string, error) {
	const workers, each = 8, 125
	won := make([]int, workers)
	failed := make([]error, workers)
	var wg sync.WaitGroup
	for g := range workers {
		wg.Go(func() {
			for i := range each {
				e, err := s.Load(ctx, fmt.Sprintf("a-%03d", (g+i)%3)).Await(ctx)
				if err == nil {
					_, err = s.Save(ctx, e).Await(ctx)
				}
				switch {
				case err == nil:
					won[g]++
				case !errors.Is(err, store.ErrConflict):
					failed[g] = errors.Join(failed[g], err)
				}
			}
		})
	}
	wg.Wait()
	sum := 0
	for _, n := range won {
		sum += n
	}
	return fmt.Sprint(sum), errors.Join(failed...)
}

// childEmit commits executions with two outbox entries each.
func childEmit(ctx context.Context, s *actor.Store) (string, error) {
	const n = 80
	var wg sync.WaitGroup
	var mu sync.Mutex
	var failed error
	for g := range 4 {
		wg.Go(func() {
			for i := g; i < n; i += 4 {
				_, err := s.Commit(ctx, full(execution(fmt.Sprintf("%d-%d", os.Getpid(), i)))).Await(ctx)
				mu.Lock()
				failed = errors.Join(failed, err)
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	return fmt.Sprint(n), failed
}

// childCommit goes on with some executions until it is killed, and prints what was
// acknowledged.
func childCommit(ctx context.Context, s *actor.Store) error {
	fmt.Println("open")
	out := make(chan string)
	for g := range 8 {
		go func() {
			for id := fmt.Sprint("w-", g); ; {
				e, err := s.Load(ctx, id).Await(ctx)
				if errors.Is(err, store.ErrNotFound) {
					e, err = execution(id), nil
				}
				for err == nil {
					var done store.Committed
					if done, err = s.Commit(ctx, full(e)).Await(ctx); err == nil {
						e = done.Execution()
						out <- fmt.Sprint(id, " ", done.Version)
					}
				}
				out <- "error: " + err.Error()
			}
		}()
	}
	for line := range out {
		fmt.Println(line)
	}
	return nil
}

type process struct{ *childprocess.Process }

// spawn starts a child process that the test ends.
func spawn(t *testing.T, task string) *process {
	t.Helper()
	return &process{childprocess.Start(t, childEnv+"="+task)}
}

// numbers receives an answer of numbers.
func (p *process) numbers(t *testing.T, into ...any) {
	t.Helper()
	answer := p.Receive()
	if _, err := fmt.Sscan(answer, into...); err != nil {
		t.Fatalf("a process answered %q", answer)
	}
}

func tempDB(t *testing.T) string { return filepath.Join(t.TempDir(), "q.db") }

// AC-05: two processes that poll one table for work: each execution runs once, and
// who comes second learns it from a conflict and leaves nothing behind.
func TestTwoProcessesClaim(t *testing.T) {
	path := tempDB(t)
	w := openFile(t, path, nil)
	const n = 200
	var futures []*actor.CommitFuture
	for _, id := range ids("ready", n) {
		futures = append(futures, w.s.Commit(t.Context(), full(execution(id))))
	}
	for _, f := range futures {
		await(t, f)
	}
	procs := []*process{spawn(t, "claim"), spawn(t, "claim")}
	for _, p := range procs {
		p.Send(path)
	}
	wins, losses := 0, 0
	for i, p := range procs {
		var won, lost int
		p.numbers(t, &won, &lost)
		t.Logf("process %d won %d and lost %d", i, won, lost)
		wins, losses = wins+won, losses+lost
	}
	if wins != n {
		t.Errorf("%d executions ran, want %d", wins, n)
	}
	if got := w.consistent(t); got != 2*n {
		t.Errorf("the versions add up to %d, want %d", got, 2*n)
	}
}

// ST-06: while two processes commit, the outbox entries become visible in the
// order of their numbers: a reader that has seen one never meets a lower one.
func TestOutboxOfTwoProcesses(t *testing.T) {
	path := tempDB(t)
	w := openFile(t, path, nil)
	procs := []*process{spawn(t, "emit"), spawn(t, "emit")}
	for _, p := range procs {
		p.Send(path)
	}
	var all int
	for range procs {
		all += 2 * 80
	}
	seen := make(map[string]bool)
	last := int64(0)
	ended := make(chan string, len(procs))
	for _, p := range procs {
		go func() { ended <- p.Receive() }()
	}
	for running := len(procs); len(seen) < all; {
		select {
		case answer := <-ended:
			if running--; answer != "80" {
				t.Fatalf("a process answered %q", answer)
			}
		default:
		}
		entries := await(t, w.s.PendingOutbox(t.Context(), 20))
		var seqs []int64
		for _, e := range entries {
			if e.Seq <= last || seen[e.Event.ID] {
				t.Fatalf("entry %d (%s) came after %d", e.Seq, e.Event.ID, last)
			}
			last, seen[e.Event.ID] = e.Seq, true
			seqs = append(seqs, e.Seq)
		}
		await(t, w.s.AckOutbox(t.Context(), seqs...))
		if running == 0 && len(entries) == 0 {
			break
		}
	}
	if len(seen) != all || w.number(t, "SELECT count(*) FROM outbox") != 0 {
		t.Errorf("%d entries delivered, want %d", len(seen), all)
	}
}

// ST-13: two processes read and then commit on few executions, and list, while a
// third holds long write transactions: what callers see is success or conflict,
// never that the file is locked, and the versions are the successes.
func TestTwoProcessesContend(t *testing.T) {
	path := tempDB(t)
	w := openFile(t, path, nil)
	for _, id := range ids("a", 5) {
		await(t, w.s.Commit(t.Context(), full(execution(id))))
	}
	procs := []*process{spawn(t, "contend"), spawn(t, "contend")}
	for _, p := range procs {
		p.Send(path)
	}
	ended := make(chan string, len(procs))
	for _, p := range procs {
		go func() { ended <- p.Receive() }()
	}
	won := int64(0)
	turn := time.NewTicker(time.Second)
	defer turn.Stop()
	for running := len(procs); running > 0; {
		select {
		case answer := <-ended:
			n := int64(0)
			if _, err := fmt.Sscan(answer, &n); err != nil || n == 0 {
				t.Errorf("a process answered %q", answer)
			}
			won += n
			running--
		case <-turn.C:
			// A transaction that takes its time.
			if _, err := w.eng.Exec(t.Context(), []engine.Statement{
				{SQL: "UPDATE executions SET version=version WHERE id='a-000'"},
				{SQL: "WITH RECURSIVE c(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM c WHERE i<10000) UPDATE executions SET version=version WHERE (SELECT max(i) FROM c)<0"},
			}); err != nil {
				t.Errorf("long transaction: %v", err)
			}
		}
	}
	if got := w.consistent(t); got != won+5 {
		t.Errorf("the versions add up to %d after %d commits", got, won+5)
	}
}

// Two processes try 1,000 commits each on three executions of one file: every
// answer is success or conflict, and the versions are the successes.
func TestTwoProcessesWithAThousandCommitsEach(t *testing.T) {
	path := tempDB(t)
	w := openFile(t, path, nil)
	w.create(t, ids("a", 3)...)
	procs := []*process{spawn(t, "thousand"), spawn(t, "thousand")}
	for _, p := range procs {
		p.Send(path)
	}
	won := int64(3)
	for _, p := range procs {
		n, answer := int64(0), p.Receive()
		if _, err := fmt.Sscan(answer, &n); err != nil || n == 0 {
			t.Errorf("a process answered %q", answer)
		}
		won += n
	}
	if got := w.number(t, "SELECT sum(version) FROM executions"); got != won {
		t.Errorf("the versions add up to %d after %d commits", got, won)
	}
}

// ST-14: many processes open a file at the same moment: one that is missing, one
// with the tables of other services, and one of a newer release, which is refused
// and not touched.
func TestManyProcessesOpen(t *testing.T) {
	procs := make([]*process, 6)
	for i := range procs {
		procs[i] = spawn(t, "open")
	}
	dir := t.TempDir()
	for round, kind := range []string{"missing", "foreign", "missing", "foreign", "newer"} {
		path := filepath.Join(dir, fmt.Sprint(round, ".db"))
		var before []byte
		if kind != "missing" {
			before = prepareFile(t, path, kind)
		}
		for _, p := range procs {
			p.Send(path)
		}
		for i, p := range procs {
			answer := p.Receive()
			if kind == "newer" {
				if !strings.Contains(answer, store.ErrSchema.Error()) || !strings.Contains(answer, "newer release") {
					t.Errorf("%s, process %d: %s", kind, i, answer)
				}
			} else if answer != "ok" {
				t.Errorf("%s, process %d: %s", kind, i, answer)
			}
		}
		if kind == "newer" {
			if after, err := os.ReadFile(path); err != nil || !bytes.Equal(before, after) {
				t.Errorf("the file of a newer release has changed (%v)", err)
			}
			continue
		}
		w := openFile(t, path, nil)
		if n := w.number(t, "SELECT count(*) FROM executions"); n != int64(len(procs)) || w.consistent(t) != n {
			t.Errorf("%s: %d executions, want %d", kind, n, len(procs))
		}
		if n := w.number(t, "SELECT count(*) FROM quorate_schema"); n != 1 {
			t.Errorf("%s: %d schema versions", kind, n)
		}
	}
}

// prepareFile makes a file that is there already and returns its bytes.
func prepareFile(t *testing.T, path, kind string) []byte {
	t.Helper()
	eng, err := sqlite.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	if kind == "newer" {
		if _, err := store.Open(t.Context(), eng, store.WithLogger(slog.New(slog.DiscardHandler))); err != nil {
			t.Fatal(err)
		}
		if _, err := eng.Exec(t.Context(), []engine.Statement{{SQL: "UPDATE quorate_schema SET version=version+1"}}); err != nil {
			t.Fatal(err)
		}
	} else if err := eng.Define(t.Context(), []string{
		`CREATE TABLE executions(id TEXT PRIMARY KEY,definition_id TEXT NOT NULL,data TEXT NOT NULL,version INTEGER NOT NULL)`,
		`CREATE TABLE outbox(seq INTEGER PRIMARY KEY AUTOINCREMENT,target_id TEXT,event TEXT NOT NULL)`,
		`CREATE TABLE trace(execution_id TEXT NOT NULL,idx INTEGER NOT NULL,entry TEXT NOT NULL,PRIMARY KEY(execution_id,idx))`,
	}); err != nil {
		t.Fatal(err)
	}
	if err := eng.Close(); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// ST-19: a process is killed in the middle of full commits, again and again. All
// that belongs to a commit is there or nothing, every acknowledged commit is there,
// and the next process goes on by itself.
func TestKilledInTheMiddle(t *testing.T) {
	path := tempDB(t)
	w := openFile(t, path, nil)
	acked := make(map[string]int64)
	total := 0
	for round := range 6 {
		p := spawn(t, "commit")
		p.Send(path)
		if answer := p.Receive(); answer != "open" {
			t.Fatal(answer)
		}
		kill := time.AfterFunc(rand.N(400*time.Millisecond), func() { _ = p.Cmd.Process.Kill() })
		for p.Out.Scan() {
			line := p.Out.Text()
			var id string
			var version int64
			if strings.HasPrefix(line, "error") {
				t.Error(line)
			} else if n, _ := fmt.Sscan(line, &id, &version); n == 2 {
				if version <= acked[id] {
					t.Errorf("round %d: %s was acknowledged at version %d after %d", round, id, version, acked[id])
				}
				acked[id] = version
				total++
			}
		}
		kill.Stop()
		w.consistent(t)
		for id, version := range acked {
			e, err := w.s.Load(t.Context(), id).Await(t.Context())
			// The last line may have been cut, which only makes the number smaller.
			if err != nil || e.Version < version {
				t.Errorf("round %d: %s was acknowledged at version %d, loaded %+v, %v", round, id, version, e, err)
			}
		}
	}
	t.Logf("%d commits were acknowledged before kills", total)
	if got := w.rows(t, "PRAGMA integrity_check")[0][0]; got != "ok" {
		t.Errorf("integrity check: %v", got)
	}
}

// ST-16: who reads a page and then does nothing keeps no read transaction open, so
// that the log can be written back and cut at any time.
func TestReadersHoldNothing(t *testing.T) {
	path := tempDB(t)
	w := openFile(t, path, nil)
	for _, id := range ids("a", 60) {
		await(t, w.s.Commit(t.Context(), full(execution(id))))
	}
	if page := await(t, w.s.List(t.Context(), store.ListQuery{Limit: 10})); page.Next == "" {
		t.Error("the list is at its end")
	}
	if entries := await(t, w.s.PendingOutbox(t.Context(), 5)); len(entries) != 5 {
		t.Errorf("%d entries", len(entries))
	}
	await(t, w.s.ReadTrace(t.Context(), "a-000"))
	for _, id := range ids("b", 60) {
		await(t, w.s.Commit(t.Context(), full(execution(id))))
	}
	db, err := sql.Open("sqlite3", "file:"+path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	}()
	busy, pages, done := 1, -1, 0
	for err == nil && pages < 0 { // as long as the engine itself is writing back
		err = db.QueryRowContext(within(t, time.Minute), "PRAGMA wal_checkpoint(TRUNCATE)").Scan(&busy, &pages, &done)
	}
	if err != nil || busy != 0 || pages != 0 {
		t.Errorf("checkpoint: busy %d, %d pages left, %v", busy, pages, err)
	}
	if info, err := os.Stat(path + "-wal"); err != nil || info.Size() != 0 {
		t.Errorf("the log still has %d bytes, %v", info.Size(), err)
	}
	if w.consistent(t) != 120 {
		t.Error("not every commit is there")
	}
}
