package coordination

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// logbook notes what runners do.
type logbook struct {
	mu     sync.Mutex
	runs   map[string][]time.Time // by job: the due times
	missed []Missed
	failed []Run
}

func (l *logbook) job(_ context.Context, t Tick) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.runs == nil {
		l.runs = make(map[string][]time.Time)
	}
	l.runs[t.Job] = append(l.runs[t.Job], t.Due)
	return nil
}

func (l *logbook) of(job string) []time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.runs[job])
}

func (l *logbook) onMissed(m Missed) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.missed = append(l.missed, m)
}

func (l *logbook) onRun(r Run) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if r.Err != nil {
		l.failed = append(l.failed, r)
	}
}

func (l *logbook) options() RunnerOptions {
	return RunnerOptions{OnMissed: l.onMissed, OnRun: l.onRun}
}

// runner returns a runner and a function that runs it until it is told to stop.
func (f *fixture) runner(p *Provider, o RunnerOptions) (*Runner, func() (stop func())) {
	f.Helper()
	r, err := p.Runner(o)
	if err != nil {
		f.Fatal(err)
	}
	return r, func() func() {
		ctx, cancel := context.WithCancel(f.ctx)
		ended := make(chan error, 1)
		go func() { ended <- r.Run(ctx) }()
		f.Cleanup(cancel)
		return func() {
			cancel()
			f.is(<-ended, context.Canceled)
		}
	}
}

func TestRunnerBeginsWithTheNextTick(t *testing.T) {
	bubble(t, func(f *fixture) {
		var l logbook
		r, run := f.runner(f.p, l.options())
		f.ok(r.Every("hourly", time.Hour, l.job))
		after(59*time.Minute + 59*time.Second)
		defer run()()
		after(999 * time.Millisecond)
		if n := len(l.of("hourly")); n != 0 {
			f.Errorf("%d runs before the first tick", n)
		}
		after(time.Millisecond)
		synctest.Wait()
		if runs := l.of("hourly"); len(runs) != 1 || runs[0].Minute() != 0 || time.Since(runs[0]) != 0 {
			f.Errorf("ran %v", runs)
		}
		if len(l.missed) != 0 {
			f.Errorf("reported %v", l.missed)
		}
	})
}

func TestCO08_EachTickRunsOnceWhateverTheClocksSay(t *testing.T) {
	bubble(t, func(f *fixture) {
		var l logbook
		start := time.Now()
		replica := func(skew time.Duration, more func(*Runner)) func() func() {
			p := f.provider()
			return func() func() {
				r, run := f.runner(p, l.options())
				r.now = func() time.Time { return time.Now().Add(skew) }
				f.ok(r.Every("tick", time.Second, func(ctx context.Context, t Tick) error {
					defer after(10 * time.Millisecond)
					return l.job(ctx, t)
				}))
				more(r)
				return run()
			}
		}
		runA := replica(0, func(*Runner) {})
		runB := replica(2*time.Second, func(r *Runner) { f.ok(r.Every("x", 5*time.Second, l.job)) })
		stopB := runB()
		after(100 * time.Millisecond) // the clock that is ahead sets the baseline
		stopA := runA()
		for i := range 6 { // each 10 s one of them goes away and comes back
			after(10 * time.Second)
			if i%2 == 0 {
				stopA()
				after(500 * time.Millisecond)
				stopA = runA()
			} else {
				stopB()
				after(500 * time.Millisecond)
				stopB = runB()
			}
		}
		stopA()
		stopB()
		ticks := l.of("tick")
		last := ticks[len(ticks)-1]
		if n := int(last.Sub(ticks[0])/time.Second) + 1; len(ticks) != n || n < 60 {
			f.Errorf("%d runs of %d ticks", len(ticks), n)
		}
		seen := make(map[time.Time]bool)
		for _, due := range ticks {
			if seen[due] {
				f.Errorf("%v ran twice", due)
			}
			seen[due] = true
		}
		if n := len(l.of("x")); n < 10 {
			f.Errorf("what one replica knows ran %d times in %v", n, time.Since(start))
		}
		if len(l.missed) != 0 {
			f.Errorf("reported %v", l.missed)
		}
	})
}

func TestCO09_DowntimeIsNotMadeUpByAStorm(t *testing.T) {
	for _, c := range []struct {
		down   time.Duration
		opts   []JobOption
		runs   int
		missed int
	}{
		{3 * time.Hour, nil, 0, 3},
		{30 * 24 * time.Hour, nil, 0, 720},
		{30 * 24 * time.Hour, []JobOption{WithGrace(2 * time.Hour)}, 1, 719},
		{3 * time.Hour, []JobOption{CatchUp(5)}, 3, 0},
		{30 * 24 * time.Hour, []JobOption{CatchUp(5)}, 5, 715},
		{90 * 24 * time.Hour, []JobOption{CatchUp(1)}, 1, 1000}, // counting ends
	} {
		t.Run(fmt.Sprint(c.down, len(c.opts)), func(t *testing.T) {
			bubble(t, func(f *fixture) {
				var l logbook
				begin := func() func() {
					r, run := f.runner(f.p, l.options())
					f.ok(r.Cron("hourly", "0 * * * *", nil, l.job, c.opts...))
					return run()
				}
				stop := begin()
				after(90 * time.Minute)
				stop()
				if n := len(l.of("hourly")); n != 1 {
					f.Fatalf("%d runs in 90 minutes", n)
				}
				after(c.down)
				stop = begin()
				after(time.Minute)
				runs := l.of("hourly")[1:]
				missed := 0
				for _, m := range l.missed {
					missed += m.Count
					if m.Reason != MissedLate || m.Job != "hourly" {
						f.Errorf("reported %+v", m)
					}
				}
				if len(runs) != c.runs || missed != c.missed || len(l.missed) > 1 {
					f.Errorf("%d runs and %d missed, want %d and %d: %v", len(runs), missed, c.runs, c.missed, l.missed)
				}
				if !slices.IsSortedFunc(runs, time.Time.Compare) || c.runs > 0 && time.Since(runs[c.runs-1]) > time.Hour {
					f.Errorf("ran %v", runs)
				}
				after(time.Hour)
				if n := len(l.of("hourly")) - 1 - c.runs; n != 1 {
					f.Errorf("%d runs in the hour after", n)
				}
				stop()
			})
		})
	}
}

func TestOutageWithinGraceDelaysTheTick(t *testing.T) {
	bubble(t, func(f *fixture) {
		var l logbook
		r, run := f.runner(f.p, l.options())
		f.ok(r.Every("tick", 10*time.Minute, l.job))
		f.ok(r.Every("strict", 10*time.Minute, l.job, WithGrace(time.Second)))
		stop := run()
		after(10*time.Minute - time.Second)
		f.tap.spoil(down)
		after(30 * time.Second)
		f.tap.spoil(nil)
		after(time.Minute)
		stop()
		if n := len(l.of("tick")); n != 1 {
			f.Errorf("%d runs", n)
		}
		if n := len(l.of("strict")); n != 0 || len(l.missed) != 1 || l.missed[0].Job != "strict" || l.missed[0].Count != 1 {
			f.Errorf("%d runs, reported %v", n, l.missed)
		}
	})
}

func TestTickOfABusyJobIsClaimedAndReported(t *testing.T) {
	bubble(t, func(f *fixture) {
		var l logbook
		r, run := f.runner(f.p, l.options())
		slow := func(ctx context.Context, t Tick) error {
			after(2500 * time.Millisecond)
			return l.job(ctx, t)
		}
		f.ok(r.Every("alone", time.Second, slow))
		f.ok(r.Every("beside", time.Second, slow, Overlap()))
		stop := run()
		after(10200 * time.Millisecond)
		alone, beside := l.of("alone"), l.of("beside")
		if len(alone) != 3 || len(beside) != 7 {
			f.Errorf("%d runs one after the other, %d that may overlap", len(alone), len(beside))
		}
		for i := 1; i < len(alone); i++ {
			if alone[i].Sub(alone[i-1]) != 3*time.Second {
				f.Errorf("ran %v", alone)
			}
		}
		for _, m := range l.missed {
			if m.Job != "alone" || m.Reason != MissedBusy || m.Count != 1 {
				f.Errorf("reported %+v", m)
			}
		}
		f.claims(f.schedule(f.p, "alone"), time.Now().Truncate(time.Second), false)
		stop()
		if n := len(l.of("alone")); n != 4 {
			f.Errorf("the end did not wait for the run under way: %d", n)
		}
	})
}

func TestPanicAndErrorOfAJobStayItsOwn(t *testing.T) {
	bubble(t, func(f *fixture) {
		var l logbook
		errOwn := errors.New("own")
		r, run := f.runner(f.p, l.options())
		f.ok(r.Every("panics", time.Second, func(context.Context, Tick) error { panic("mine") }))
		f.ok(r.Every("fails", time.Second, func(context.Context, Tick) error { return errOwn }))
		f.ok(r.Every("works", time.Second, l.job))
		stop := run()
		after(3100 * time.Millisecond)
		stop()
		got := make(map[string]int)
		for _, r := range l.failed {
			var p *PanicError
			if errors.As(r.Err, &p) && p.Value == "mine" && strings.Contains(r.Err.Error(), "mine") || errors.Is(r.Err, errOwn) {
				got[r.Job]++
			}
		}
		if !maps.Equal(got, map[string]int{"panics": 3, "fails": 3}) || len(l.of("works")) != 3 {
			f.Errorf("failed %v, worked %v", got, l.of("works"))
		}
	})
}

func TestRunnerEndsWithItsProvider(t *testing.T) {
	bubble(t, func(f *fixture) {
		r, _ := f.runner(f.p, RunnerOptions{})
		f.ok(r.Every("tick", time.Second, func(ctx context.Context, _ Tick) error {
			<-ctx.Done()
			return nil
		}))
		ended := make(chan error)
		go func() { ended <- r.Run(f.ctx) }()
		after(1500 * time.Millisecond)
		f.is(r.Run(f.ctx), ErrReentrant)
		f.is(r.Every("late", time.Second, func(context.Context, Tick) error { return nil }), ErrReentrant)
		f.ok(f.p.Close(f.ctx))
		f.is(<-ended, ErrClosed)
	})
}

func TestRunnerRefusesBadInput(t *testing.T) {
	bubble(t, func(f *fixture) {
		r, _ := f.runner(f.p, RunnerOptions{})
		job := func(context.Context, Tick) error { return nil }
		f.is(r.Every("a", 0, job), ErrInvalid)
		f.is(r.Every("a", time.Millisecond+1, job), ErrInvalid)
		f.is(r.Every("a", time.Second, nil), ErrInvalid)
		f.is(r.Every("a b", time.Second, job), ErrInvalidName)
		f.is(r.Every("a", time.Second, job, nil), ErrInvalid)
		f.is(r.Every("a", time.Second, job, CatchUp(0)), ErrInvalid)
		f.is(r.Every("a", time.Second, job, CatchUp(101)), ErrInvalid)
		f.is(r.Every("a", time.Second, job, WithGrace(-1)), ErrInvalid)
		f.is(r.Cron("a", "nonsense", nil, job), ErrInvalid)
		f.ok(r.Every("a", time.Second, job))
		f.is(r.Cron("a", "* * * * *", nil, job), ErrInvalid)
		_, err := f.p.Runner(RunnerOptions{Grace: -1})
		f.is(err, ErrInvalid)
	})
}
