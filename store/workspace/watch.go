package workspace

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/quorate/quorate/store/engine"
	"github.com/quorate/quorate/store/internal/retry"
)

// watch knows how far the logs are that somebody subscribes to, and wakes those who
// wait for more. Commits of this store are told to it; those of other processes are
// found by one goroutine, which runs only while somebody waits and asks for all of
// their logs in one query.
type watch struct {
	mu      sync.Mutex
	logs    map[Ref]*watched
	waiting int // subscriptions
	polling bool
	poller  sync.WaitGroup
	failed  error         // what ended the poller, for those who wait
	kick    chan struct{} // holds a notification that the poller has not seen
}

// watched is a log that somebody subscribes to.
type watched struct {
	head        int64         // as far as is known
	subscribers int           // at all
	waiting     int           // of them
	changed     chan struct{} // closed when head rises, if somebody waits
}

// join announces a subscription. From then on no commit goes unnoticed.
func (w *watch) join(ref Ref) *watched {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.logs == nil {
		w.logs = make(map[Ref]*watched)
	}
	l := w.logs[ref]
	if l == nil {
		l = &watched{}
		w.logs[ref] = l
	}
	l.subscribers++
	return l
}

func (w *watch) leave(ref Ref, l *watched) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if l.subscribers--; l.subscribers == 0 {
		delete(w.logs, ref)
	}
}

// raise tells that a log's last event is at head, or behind.
func (w *watch) raise(ref Ref, head int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	l := w.logs[ref]
	if l == nil || head <= l.head {
		return
	}
	l.head = head
	l.wake()
}

func (l *watched) wake() {
	if l.changed != nil {
		close(l.changed)
		l.changed = nil
	}
}

// wait returns when the log is known to be further than cursor, with nil, or when
// ctx or the store ends, or the database says what will not pass.
func (s *Store) wait(ctx context.Context, l *watched, cursor int64) error {
	w := &s.watch
	w.mu.Lock()
	defer w.mu.Unlock()
	l.waiting++
	w.waiting++
	defer func() { l.waiting--; w.waiting-- }()
	for l.head <= cursor {
		if !w.polling && s.closing.Err() == nil {
			w.polling, w.failed = true, nil
			w.poller.Go(s.pollHeads)
		}
		if l.changed == nil {
			l.changed = make(chan struct{})
		}
		changed := l.changed
		w.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
		case <-s.closing.Done():
		}
		w.mu.Lock()
		if err := s.ended(ctx); err != nil {
			return err
		}
		if w.failed != nil {
			return w.failed
		}
	}
	return nil
}

// ended is why a subscription has to end, or nil.
func (s *Store) ended(ctx context.Context) error {
	if ctx.Err() != nil {
		return retry.Ended(ctx)
	}
	if s.closing.Err() != nil {
		return &engine.Error{Op: "subscribe", Outcome: engine.NotApplied, Reason: ErrClosed}
	}
	return nil
}

// channel is where writes of all workspaces are notified. What comes over it says no
// more than that it is worth looking.
const channel = "quorate_workspaces"

// pollHeads looks for events of other processes, in intervals, until nobody waits.
func (s *Store) pollHeads() {
	w := &s.watch
	ctx, stop := context.WithCancel(s.closing)
	var listener sync.WaitGroup
	defer listener.Wait()
	defer stop()
	if s.notify != nil {
		listener.Go(func() { s.listen(ctx) })
	}
	for {
		s.rest()
		w.mu.Lock()
		refs := make([]Ref, 0, len(w.logs))
		for ref, l := range w.logs {
			if l.waiting > 0 {
				refs = append(refs, ref)
			}
		}
		if len(refs) == 0 || s.closing.Err() != nil {
			w.polling = false
			w.mu.Unlock()
			return
		}
		w.mu.Unlock()
		err := s.pollOnce(refs)
		switch {
		case err == nil:
		case !mayPass(err):
			w.fail(err)
			return
		case s.notify != nil:
			// The notification is used up: nobody would repeat it.
			retry.Sleep(s.closing, s.moment())
			s.kick()
		}
	}
}

// rest waits for the next poll: an interval, or a fiftieth of it (50 ms at most) if
// somebody notifies, so that many notifications are one poll.
func (s *Store) rest() {
	least := min(s.poll/50, 50*time.Millisecond)
	retry.Sleep(s.closing, least)
	t := time.NewTimer(s.poll - least)
	defer t.Stop()
	select {
	case <-t.C:
	case <-s.watch.kick:
	case <-s.closing.Done():
	}
}

// listen turns notifications into kicks, as long as the poller runs.
// Where that is refused again and again, as behind a pooler, it is tried ever more
// seldom.
func (s *Store) listen(ctx context.Context) {
	least := max(s.poll, time.Second)
	pause := least
	for {
		began := time.Now()
		err := s.notify.Listen(ctx, channel, s.kick)
		if ctx.Err() != nil || errors.Is(err, engine.ErrClosed) {
			return
		}
		s.log.Warn("workspace: not notified, polling goes on", "error", err)
		if time.Since(began) > pause {
			pause = least
		}
		if !retry.Sleep(ctx, pause) {
			return
		}
		pause = max(least, min(2*pause, time.Minute))
	}
}

// kick makes the poller look soon.
func (s *Store) kick() {
	select {
	case s.watch.kick <- struct{}{}:
	default:
	}
}

// moment is the pause after a failure that may pass: the poll interval, but no
// longer than a second.
func (s *Store) moment() time.Duration { return min(s.poll, time.Second) }

// mayPass reports whether the database may be able to answer later.
func mayPass(err error) bool {
	if errors.Is(err, engine.ErrClosed) {
		return false
	}
	return errors.Is(err, engine.ErrUnavailable) || errors.Is(err, context.DeadlineExceeded)
}

// fail wakes everybody who waits, with what ended the poller. Those who begin to
// wait later start a new one.
func (w *watch) fail(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.polling, w.failed = false, err
	for _, l := range w.logs {
		l.wake()
	}
}

// pollOnce asks for the heads of logs.
func (s *Store) pollOnce(refs []Ref) error {
	ctx, cancel := context.WithTimeout(s.closing, max(s.poll, 10*time.Second))
	defer cancel()
	s.counters.polls.Add(1)
	results, err := s.query(ctx, engine.Weak, headStatements(refs)...)
	if err != nil {
		return err
	}
	for i := range results {
		r := rows{res: &results[i]}
		for r.next() {
			s.watch.raise(Ref{Tenant: r.text("tenant_id"), Workspace: r.text("workspace_id")}, r.int("head_seq"))
		}
		if r.err != nil {
			return r.err
		}
	}
	return nil
}

// headStatements ask for heads; like [oneOf], in a few sizes of list, the last ref
// repeated.
func headStatements(refs []Ref) []engine.Statement {
	var stmts []engine.Statement
	for part := range slices.Chunk(refs, chunk) {
		n := 1
		for n < len(part) {
			n *= 2
		}
		var b strings.Builder
		a := make([]engine.Value, 0, 2*n)
		b.WriteString("WITH q(tenant_id,workspace_id) AS (VALUES ")
		for i := range n {
			ref := part[min(i, len(part)-1)]
			if i > 0 {
				b.WriteByte(',')
			}
			b.WriteString("(?" + strconv.Itoa(2*i+1) + ",?" + strconv.Itoa(2*i+2) + ")")
			a = append(a, engine.Text(ref.Tenant), engine.Text(ref.Workspace))
		}
		b.WriteString(") SELECT w.tenant_id AS tenant_id,w.workspace_id AS workspace_id,w.head_seq AS head_seq FROM q CROSS JOIN quorate_ws_workspaces w WHERE w.tenant_id=q.tenant_id AND w.workspace_id=q.workspace_id")
		stmts = append(stmts, engine.Statement{SQL: b.String(), Args: a})
	}
	return stmts
}
