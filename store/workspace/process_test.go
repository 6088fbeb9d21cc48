package workspace_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/quorate/quorate/store/sqlite"
	"github.com/quorate/quorate/store/storetest/childprocess"
	"github.com/quorate/quorate/store/workspace"
)

// childEnv makes the test binary a child process with the task it names.
const childEnv = "QUORATE_WORKSPACE_TEST_CHILD"

// child reads paths from standard input, does its task on each, and answers with
// lines.
func child(task string) int {
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		if err := childTask(task, lines.Text()); err != nil {
			fmt.Println("error: " + strings.ReplaceAll(err.Error(), "\n", " "))
		}
	}
	return 0
}

func childTask(task, path string) error {
	eng, err := sqlite.Open(path, sqlite.WithDurability(sqlite.Normal))
	if err != nil {
		return err
	}
	ctx := context.Background()
	s, err := workspace.Open(ctx, eng, workspace.WithPollInterval(5*time.Millisecond))
	if err != nil {
		return errors.Join(err, eng.Close())
	}
	switch task {
	case "append":
		err = childAppend(ctx, s)
	case "count":
		err = childCount(ctx, s)
	case "same":
		err = childSame(ctx, s)
	case "consume":
		err = childConsume(ctx, s)
	}
	return errors.Join(err, s.Close(), eng.Close())
}

// childAppend appends until it is killed. Each tenth transaction fails after it has
// its position. It prints the ids that were acknowledged.
func childAppend(ctx context.Context, s *workspace.Store) error {
	fmt.Println("open")
	errOwn := errors.New("own")
	for i := 0; ; i++ {
		id := fmt.Sprintf("%d-%d", os.Getpid(), i)
		var fail error
		if i%10 == 9 {
			fail = errOwn
		}
		switch err := transact(ctx, s, ref, fail, id); {
		case fail != nil && !errors.Is(err, errOwn):
			return fmt.Errorf("a failing transaction gave %w", err)
		case fail == nil && err != nil:
			return err
		case fail == nil:
			fmt.Println(id)
		}
	}
}

// childCount counts a state up, each time from what it has read.
func childCount(ctx context.Context, s *workspace.Store) error {
	for i := range 100 {
		err := s.Transact(ctx, ref, func(ctx context.Context, tx *workspace.Tx) error {
			n, _, err := workspace.LoadState[int64](ctx, tx, "counter", "[]")
			if err != nil {
				return err
			}
			if n != tx.HeadSeq() {
				return fmt.Errorf("the state is %d, the head %d", n, tx.HeadSeq())
			}
			_, err = tx.Append(ctx, entry(fmt.Sprintf("%d-%d", os.Getpid(), i)))
			return errors.Join(err, workspace.SaveState(tx, "counter", "[]", n+1))
		})
		if err != nil {
			return err
		}
	}
	fmt.Println("done")
	return nil
}

// childSame appends an event that others append too, and prints where it is.
func childSame(ctx context.Context, s *workspace.Store) error {
	out, err := s.Append(ctx, ref, entry("e1"))
	var dup *workspace.DuplicateError
	switch {
	case err == nil:
		fmt.Println("appended at", out[0].Seq)
		return nil
	case errors.As(err, &dup) && dup.Same:
		fmt.Println("there at", dup.Envelope.Seq)
		return nil
	}
	return err
}

var sink = workspace.Ref{Tenant: "t", Workspace: "handled"}

// childConsume handles the events behind the cursor, each once more than before at
// most, and saves its cursor by a timer.
func childConsume(ctx context.Context, s *workspace.Store) error {
	after, err := s.Cursor(ctx, ref, "consumer")
	if err != nil {
		return err
	}
	fmt.Println("open")
	var handled atomic.Int64
	failed := make(chan error, 1)
	go func() {
		for range time.Tick(time.Millisecond) {
			if err := s.SaveCursor(ctx, ref, "consumer", handled.Load()); err != nil {
				failed <- err
				return
			}
		}
	}()
	for e, err := range s.Subscribe(ctx, ref, after) {
		if err != nil {
			return err
		}
		if _, err := s.Append(ctx, sink, workspace.Entry{ID: e.ID, Actor: workspace.System("consumer"), Event: json.RawMessage(`{"type":"event:handled"}`)}); err != nil && !errors.Is(err, workspace.ErrDuplicate) {
			return err
		}
		handled.Store(e.Seq)
		select {
		case err := <-failed:
			return err
		default:
		}
	}
	return nil
}

// spawn starts a child process that the test kills at its end.
func spawn(t *testing.T, task, path string) *process {
	t.Helper()
	p := &process{childprocess.Start(t, childEnv+"="+task)}
	t.Cleanup(func() { _ = p.Cmd.Process.Kill() })
	p.Send(path)
	return p
}

type process struct{ *childprocess.Process }

// killSoon kills the process at a random moment and returns what it printed, the
// last line, which may have been cut, left out.
func (p *process) killSoon(t *testing.T) []string {
	timer := time.AfterFunc(20*time.Millisecond+rand.N(150*time.Millisecond), func() { _ = p.Cmd.Process.Kill() })
	defer timer.Stop()
	var lines []string
	for p.Out.Scan() {
		if line := p.Out.Text(); strings.HasPrefix(line, "error") {
			t.Error(line)
		} else {
			lines = append(lines, line)
		}
	}
	if len(lines) > 0 {
		lines = lines[:len(lines)-1]
	}
	return lines
}

// TestTwoProcessesAreSerial has three processes and this one count one state up.
func TestTwoProcessesAreSerial(t *testing.T) {
	path := tempDB(t)
	s := openStore(t, openEngine(t, path))
	procs := []*process{spawn(t, "count", path), spawn(t, "count", path)}
	for _, p := range procs {
		if answer := p.Receive(); answer != "done" {
			t.Fatal(answer)
		}
	}
	if log := denseLog(t, s, ref); len(log) != 200 {
		t.Errorf("%d events, want 200", len(log))
	}
	must(t, s.Transact(t.Context(), ref, func(ctx context.Context, tx *workspace.Tx) error {
		n, _, err := workspace.LoadState[int64](ctx, tx, "counter", "[]")
		if n != 200 {
			t.Errorf("the state is %d, want 200", n)
		}
		return err
	}))
}

// TestEL02_FailedAppendsLeaveNoHoles has a process append, each tenth time in vain,
// and kills it in the middle; a subscriber sees every event, and none that failed.
func TestEL02_FailedAppendsLeaveNoHoles(t *testing.T) {
	path := tempDB(t)
	s := openStore(t, openEngine(t, path))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	seen := make(chan workspace.Envelope, 1<<16)
	ended := make(chan error, 1)
	go func() {
		for e, err := range s.Subscribe(ctx, ref, 0) {
			if err != nil {
				ended <- err
				return
			}
			seen <- e
		}
	}()
	acked := make(map[string]bool)
	for range 4 {
		p := spawn(t, "append", path)
		if answer := p.Receive(); answer != "open" {
			t.Fatal(answer)
		}
		for _, id := range p.killSoon(t) {
			acked[id] = true
		}
		appendTo(t, s, ref, workspace.NewID()) // nothing is locked
	}
	log := denseLog(t, s, ref)
	for _, e := range log {
		if strings.HasSuffix(e.ID, "9") && strings.Contains(e.ID, "-") {
			t.Errorf("event %s is there, and its transaction failed", e.ID)
		}
		delete(acked, e.ID)
		select {
		case got := <-seen:
			if got.Seq != e.Seq || got.ID != e.ID {
				t.Fatalf("the subscriber saw %q at %d, want %q at %d", got.ID, got.Seq, e.ID, e.Seq)
			}
		case err := <-ended:
			t.Fatal(err)
		}
	}
	for id := range acked {
		t.Errorf("event %s was acknowledged and is not there", id)
	}
	t.Logf("%d events", len(log))
	cancel()
	<-ended
}

// TestEL04_CursorIsNeverAheadOfWhatWasHandled kills a consumer that saves its cursor
// by a timer while it catches up.
func TestEL04_CursorIsNeverAheadOfWhatWasHandled(t *testing.T) {
	path := tempDB(t)
	s := openStore(t, openEngine(t, path))
	const n = 300
	var ids []string
	for i := range n {
		ids = append(ids, name("e", i))
	}
	appendTo(t, s, ref, ids...)
	last := int64(0)
	for round := 0; last < n; round++ {
		p := spawn(t, "consume", path)
		if answer := p.Receive(); answer != "open" {
			t.Fatal(answer)
		}
		p.killSoon(t)
		cursor, err := s.Cursor(t.Context(), ref, "consumer")
		must(t, err)
		handled := int64(len(denseLog(t, s, sink)))
		if cursor < last || cursor > handled {
			t.Fatalf("round %d: the cursor is %d, it was %d, and %d events are handled", round, cursor, last, handled)
		}
		last = cursor
	}
	for i, e := range denseLog(t, s, sink) {
		if e.ID != ids[i] {
			t.Fatalf("event %d was handled in the place of %s", i, e.ID)
		}
	}
	// Two saves in the wrong order.
	must(t, s.SaveCursor(t.Context(), ref, "consumer", n+2))
	must(t, s.SaveCursor(t.Context(), ref, "consumer", n+1))
	if cursor, err := s.Cursor(t.Context(), ref, "consumer"); cursor != n+2 || err != nil {
		t.Errorf("the cursor is %d, %v", cursor, err)
	}
}

// TestEL05_SameEventFromTwoProcessesIsStoredOnce appends one event in two processes
// at once, again after a restart, with other content, and in another workspace.
func TestEL05_SameEventFromTwoProcessesIsStoredOnce(t *testing.T) {
	path := tempDB(t)
	func() {
		eng, err := sqlite.Open(path)
		must(t, err)
		defer eng.Close()
		s := openStore(t, eng)
		appendTo(t, s, ref, "e0")
	}()
	a, b := spawn(t, "same", path), spawn(t, "same", path)
	answers := a.Receive() + ", " + b.Receive()
	if answers != "appended at 2, there at 2" && answers != "there at 2, appended at 2" {
		t.Error(answers)
	}
	if answer := spawn(t, "same", path).Receive(); answer != "there at 2" {
		t.Error("after a restart:", answer)
	}
	s := openStore(t, openEngine(t, path))
	other := entry("e1")
	other.Event = []byte(`{"type":"note:taken","text":"other"}`)
	_, err := s.Append(t.Context(), ref, other)
	var dup *workspace.DuplicateError
	if !errors.As(err, &dup) || dup.Envelope.Seq != 2 || !errors.Is(err, workspace.ErrMismatch) {
		t.Errorf("other content: %v, want a mismatch at 2", err)
	}
	if out := appendTo(t, s, workspace.Ref{Tenant: "t", Workspace: "other"}, "e1"); out[0].Seq != 1 {
		t.Errorf("in another workspace: at %d, want 1", out[0].Seq)
	}
	if log := denseLog(t, s, ref); len(log) != 2 {
		t.Errorf("%d events, want 2", len(log))
	}
}
