package coordination

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"github.com/quorate/quorate/store/engine"
	"github.com/quorate/quorate/store/internal/retry"
)

// timetable says when a job is due.
type timetable interface {
	// next returns the first tick after t, or the zero time if there is none.
	next(t time.Time) time.Time
}

// every is due at the multiples of itself.
type every time.Duration

func (e every) next(t time.Time) time.Time {
	step := time.Duration(e).Microseconds()
	return time.UnixMicro((t.UnixMicro()/step + 1) * step).UTC()
}

// PanicError is the error of a job that panicked.
type PanicError struct {
	// Value is what it panicked with.
	Value any
	// Stack is the goroutine's stack at that moment.
	Stack []byte
}

// Error returns the value and the stack.
func (e *PanicError) Error() string { return fmt.Sprintf("panic: %v\n%s", e.Value, e.Stack) }

// job is one job of a runner.
type job struct {
	r        *Runner
	schedule *Schedule
	ticks    timetable
	fn       Job
	grace    time.Duration
	catchUp  int // 0 runs the most recent tick alone
	overlap  bool

	bodies sync.WaitGroup
	idle   chan struct{} // closed when the latest body has ended; nil before the first
}

// maxNap bounds a sleep, so that a clock that is set, or a machine that was
// suspended, is noticed.
const maxNap = 30 * time.Second

// loop runs the job until ctx ends, and waits for its bodies.
func (j *job) loop(ctx context.Context, fail context.CancelCauseFunc) {
	defer j.bodies.Wait()
	var last time.Time // up to here all is settled
	for ctx.Err() == nil {
		fired, err := j.schedule.baseline(ctx, j.r.now())
		if err == nil {
			last = fired
			break
		}
		j.failed(ctx, err, fail)
	}
	for ctx.Err() == nil {
		due := j.ticks.next(last)
		if due.IsZero() {
			<-ctx.Done() // there never is another
			return
		}
		now := j.r.now().Round(0)
		if now.Before(due) {
			retry.Sleep(ctx, min(due.Sub(now), maxNap))
			continue
		}
		if now.Sub(due) > j.grace || !j.ticks.next(due).After(now) {
			// Late, or several: others may have settled them.
			fired, ok, err := j.schedule.LastFired(ctx)
			if err != nil {
				j.failed(ctx, err, fail)
				continue
			}
			if ok && fired.After(last) {
				last = fired
				continue
			}
		}
		if err := j.settle(ctx, &last, now); err != nil {
			j.failed(ctx, err, fail)
		}
	}
}

// failed logs an error of the database and waits a little; or it ends the runner,
// if there will be no other answer.
func (j *job) failed(ctx context.Context, err error, fail context.CancelCauseFunc) {
	switch {
	case ctx.Err() != nil:
	case errors.Is(err, ErrClosed):
		fail(err)
	default:
		j.r.p.log.Warn("schedule: the database does not answer", "job", j.schedule.name, "error", err)
		retry.Sleep(ctx, jittered(500*time.Millisecond, 0.5))
	}
}

// settle claims and runs what is due up to now, and moves last behind it. After an
// error it may be called again.
func (j *job) settle(ctx context.Context, last *time.Time, now time.Time) error {
	run := recent(j.ticks, *last, now, max(j.catchUp, 1))
	missed := Missed{Job: j.schedule.name, After: *last, Reason: MissedLate}
	missed.Count, missed.Last = count(j.ticks, *last, run[0])
	tooLate := j.catchUp == 0 && now.Sub(run[0]) > j.grace
	if tooLate {
		missed.Count, missed.Last = missed.Count+1, run[0]
	}
	for _, due := range run {
		if !j.overlap && j.catchUp > 1 && !j.rest(ctx) {
			return context.Cause(ctx)
		}
		won, err := j.schedule.Claim(ctx, due)
		if err != nil && engine.OutcomeOf(err) == engine.NotApplied {
			return err
		}
		if won && missed.Count > 0 {
			j.r.opts.OnMissed(missed)
		}
		missed.Count = 0
		switch {
		case err != nil:
			j.r.opts.OnMissed(Missed{Job: j.schedule.name, After: *last, Last: due, Count: 1, Reason: MissedUnclear, Err: err})
		case !won || tooLate:
		case !j.overlap && j.busy():
			j.r.opts.OnMissed(Missed{Job: j.schedule.name, After: *last, Last: due, Count: 1, Reason: MissedBusy})
		default:
			j.start(ctx, due)
		}
		*last = due
	}
	return nil
}

func (j *job) busy() bool {
	if j.idle == nil {
		return false
	}
	select {
	case <-j.idle:
		return false
	default:
		return true
	}
}

// rest waits until the body that runs has ended.
func (j *job) rest(ctx context.Context) bool {
	if j.idle == nil {
		return true
	}
	select {
	case <-j.idle:
		return true
	case <-ctx.Done():
		return false
	}
}

func (j *job) start(ctx context.Context, due time.Time) {
	idle := make(chan struct{})
	j.idle = idle
	j.bodies.Go(func() {
		defer close(idle)
		begun := time.Now()
		t := Tick{j.schedule.name, due}
		err := j.guarded(ctx, t)
		j.r.opts.OnRun(Run{t, err, time.Since(begun)})
	})
}

func (j *job) guarded(ctx context.Context, t Tick) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &PanicError{v, debug.Stack()}
		}
	}()
	return j.fn(ctx, t)
}

// maxCount bounds the counting of missed ticks.
const maxCount = 1000

// recent returns the last n ticks in (after, now], the oldest first. There is at
// least one. However long the time, it looks only at its end.
func recent(ticks timetable, after, now time.Time, n int) []time.Time {
	for window := time.Second; ; window *= 4 {
		from := now.Add(-window)
		whole := !from.After(after) || window > maxLease
		if whole {
			from = after
		}
		var found []time.Time
		for t := ticks.next(from); !t.IsZero() && !t.After(now); t = ticks.next(t) {
			if len(found) == n {
				copy(found, found[1:])
				found = found[:n-1]
			}
			found = append(found, t)
		}
		if len(found) == n || whole {
			return found
		}
	}
}

// count returns how many ticks are in (after, before), up to maxCount, and the last
// of them all.
func count(ticks timetable, after, before time.Time) (n int, last time.Time) {
	for t := ticks.next(after); !t.IsZero() && t.Before(before); t = ticks.next(t) {
		if n++; n == maxCount {
			break
		}
		last = t
	}
	if n == maxCount {
		last = recent(ticks, after, before.Add(-1), 1)[0]
	}
	return n, last
}
