package coordination

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// RunnerOptions sets up a [Runner]. The zero value means the defaults.
type RunnerOptions struct {
	// Grace is how late a tick may still be run. The default is a minute.
	Grace time.Duration

	// OnMissed is told of ticks that were not run, and OnRun of each run when it has
	// ended. Both may be called by several jobs at once, whose later ticks wait for
	// OnMissed. The defaults log missed ticks as warnings and failed runs as errors.
	OnMissed func(Missed)
	OnRun    func(Run)
}

// Missed tells of ticks that no process has run. Whoever claims the tick after them
// reports them, once.
type Missed struct {
	// Job is the name of the job.
	Job string
	// After is the last tick before them that was claimed; Last is the last of them.
	After, Last time.Time
	// Count is how many they are, at least: counting ends at 1,000.
	Count int
	// Reason is why they were not run.
	Reason MissedReason
	// Err is the error, if there was one.
	Err error
}

// MissedReason is why ticks were not run.
type MissedReason string

// The reasons.
const (
	// MissedLate: nobody was there when it was time, and later it was too late.
	MissedLate MissedReason = "late"
	// MissedBusy: this process still ran an earlier tick of the job.
	MissedBusy MissedReason = "busy"
	// MissedUnclear: it could not be found out who had claimed the tick. Another may
	// have, and run it.
	MissedUnclear MissedReason = "unclear"
)

// Run tells of one run that has ended.
type Run struct {
	Tick
	// Err is what the job returned, or a [*PanicError].
	Err error
	// Took is how long it ran.
	Took time.Duration
}

// Tick is one moment at which a job is due.
type Tick struct {
	// Job is the name of the job.
	Job string
	// Due is when it was due. Together with Job it names the tick, in all processes.
	Due time.Time
}

// Job is the work of a tick. Its context ends with that of [Runner.Run].
type Job func(ctx context.Context, t Tick) error

// Runner runs periodic jobs, each tick in one of all processes that know the job.
//
// # Rules
//
// Each tick is claimed on the [Schedule] that has the job's name, before it is run:
// it runs at most once. A process that crashes, or is stopped, after claiming has
// used up the tick. There is no leader: a job that only one process knows is run by
// that one. Clocks that differ only make the tick run as early as the fastest.
//
// A job that nobody has seen before begins with its next tick.
//
// Ticks that nobody could run in time, for all processes were down or the database
// was away: the most recent of them is run, if it is not later than Grace; the others
// are reported. With [CatchUp] the last few are run, however late. Downtime never
// leads to a run for each tick.
//
// A tick that comes while this process still runs an earlier one of the same job is
// claimed and not run, but reported, so that no other process runs it meanwhile
// either; with [Overlap] it is run beside the other. Ticks claimed by different
// processes may overlap all the same: if that is harmful, take a [Lock] in the job.
//
// A panic of a job ends up in its [Run] and harms nobody else.
type Runner struct {
	p    *Provider
	opts RunnerOptions
	now  func() time.Time // another than time.Now in tests of clocks that differ

	mu      sync.Mutex
	jobs    []*job
	running bool
}

// Runner returns a runner without jobs. The error is [ErrInvalid].
func (p *Provider) Runner(o RunnerOptions) (*Runner, error) {
	if o.Grace == 0 {
		o.Grace = time.Minute
	}
	if o.Grace < 0 {
		return nil, invalid("RunnerOptions.Grace", "is negative")
	}
	if o.OnMissed == nil {
		o.OnMissed = func(m Missed) {
			p.log.Warn("schedule: ticks were not run", "job", m.Job, "reason", string(m.Reason), "count", m.Count, "last", m.Last, slog.Any("error", m.Err))
		}
	}
	if o.OnRun == nil {
		o.OnRun = func(r Run) {
			if r.Err != nil {
				p.log.Error("schedule: a run failed", "job", r.Job, "due", r.Due, "error", r.Err)
			}
		}
	}
	return &Runner{p: p, opts: o, now: time.Now}, nil
}

// JobOption changes how one job of a [Runner] is run.
type JobOption func(*job) error

// CatchUp runs the last n ticks that were missed, the oldest first, instead of the
// most recent one alone, however late they are; n is from 1 to 100.
func CatchUp(n int) JobOption {
	return func(j *job) error {
		if n < 1 || n > 100 {
			return invalid("CatchUp", "is not from 1 to 100")
		}
		j.catchUp = n
		return nil
	}
}

// Overlap runs a tick although an earlier one of the job is still running in this
// process.
func Overlap() JobOption {
	return func(j *job) error {
		j.overlap = true
		return nil
	}
}

// WithGrace overrides [RunnerOptions.Grace] for one job.
func WithGrace(d time.Duration) JobOption {
	return func(j *job) error {
		if d < 0 {
			return invalid("WithGrace", "is negative")
		}
		j.grace = d
		return nil
	}
}

// Every adds a job that is due at the multiples of interval since the beginning of
// 1970 in UTC, so that all processes agree on its ticks. The interval is from 1 ms
// to a year, in whole microseconds. Jobs are added before Run. Errors are
// [ErrInvalidName], [ErrInvalid], and [ErrReentrant] while Run is under way.
func (r *Runner) Every(name string, interval time.Duration, fn Job, opts ...JobOption) error {
	switch {
	case interval < time.Millisecond || interval > maxLease:
		return invalid("interval", "is not between 1 ms and a year")
	case interval%time.Microsecond != 0:
		return invalid("interval", "is not in whole microseconds")
	}
	return r.add(name, every(interval), fn, opts)
}

// Cron adds a job that is due by a cron expression in the time zone loc; nil means
// UTC. Errors are those of [Runner.Every], and [*CronError].
//
// An expression has five fields (minute, hour, day of month, month, day of week),
// or six with seconds first. A field is a list of values, ranges (1-5) and steps
// (*/15, 10-40/10, 5/20 for 5 to the end); months and days of the week may be named
// by three letters; 0 and 7 are Sunday; ? is *. If both days are restricted, that
// is if neither field begins with a star, either is enough. There are @yearly,
// @annually, @monthly, @weekly, @daily, @midnight and @hourly.
//
// Where clocks change: an expression whose hour field names every hour (*) goes by
// the passing of time. "Every 15 seconds" then has no gap, and the repeated hour
// has its ticks twice. Any other runs once for each time of day that it names: in
// a repeated hour the first time only; for times that are skipped once, at the first
// instant after the gap.
func (r *Runner) Cron(name, expr string, loc *time.Location, fn Job, opts ...JobOption) error {
	if loc == nil {
		loc = time.UTC
	}
	c, err := parseCron(expr, loc)
	if err != nil {
		return err
	}
	return r.add(name, c, fn, opts)
}

func (r *Runner) add(name string, ticks timetable, fn Job, opts []JobOption) error {
	s, err := r.p.Schedule(name)
	if err != nil {
		return err
	}
	if fn == nil {
		return invalid("job", "is nil")
	}
	j := &job{r: r, schedule: s, ticks: ticks, fn: fn, grace: r.opts.Grace}
	for _, opt := range opts {
		if opt == nil {
			return invalid("option", "is nil")
		}
		if err := opt(j); err != nil {
			return err
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.running {
		return &Error{"add job", name, ErrReentrant}
	}
	for _, other := range r.jobs {
		if other.schedule.name == name {
			return &Error{"add job", name, invalid("name", "is that of another job of this runner")}
		}
	}
	r.jobs = append(r.jobs, j)
	return nil
}

// Run runs the jobs until ctx ends, waits for those that are running, and returns
// the context's cause. Errors of the database are logged; ticks wait for it as long
// as their Grace. Before ctx ends Run returns [ErrReentrant] if it is under way
// already, and [ErrClosed] once the provider or the engine is closed.
func (r *Runner) Run(ctx context.Context) error {
	r.mu.Lock()
	if r.running {
		r.mu.Unlock()
		return &Error{"run jobs", "", ErrReentrant}
	}
	r.running = true
	r.mu.Unlock()
	defer func() {
		r.mu.Lock()
		r.running = false
		r.mu.Unlock()
	}()
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var loops sync.WaitGroup
	for _, j := range r.jobs {
		loops.Go(func() { j.loop(ctx, stop) })
	}
	<-ctx.Done()
	loops.Wait()
	return context.Cause(ctx)
}
