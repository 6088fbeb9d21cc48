package main

import (
	"fmt"
	"time"

	"github.com/quorate/quorate/actor"
	"github.com/quorate/quorate/store"
)

// report prints what the run did.
func (f *fleet) report(stats *actor.Stats, outcomes store.Counters, took time.Duration) {
	c := &f.count
	row := func(what, format string, args ...any) {
		f.out.printf("  %-24s %s\n", what, fmt.Sprintf(format, args...))
	}
	count := func(what string, n int64) { row(what, "%9s", group(n)) }
	count("orders", int64(len(f.model.orders)))
	count("events read", c.events.Load())
	if n := c.badLines.Load(); n > 0 {
		count("bad lines skipped", n)
	}
	count("duplicates dropped", c.duplicates.Load())
	row("late, without effect", "%9s", group(c.late.Load()))
	row("early, put aside", "%9s", group(c.deferred.Load()))
	count("commits", c.commits.Load())
	count("conflicts retried", c.conflicts.Load())
	if n := c.unknown.Load(); n > 0 {
		row("outcomes unknown", "%9s   asked again, until known", group(n))
	}
	if outcomes.Recovered > 0 {
		row("lost answers recovered", "%9s", group(int64(outcomes.Recovered)))
	}
	row("timers fired", "%9s   %s of the orders paid in time after all", group(c.fired.Load()), group(c.reinstated.Load()))
	count("shipments spawned", c.spawned.Load())
	if n := c.redelivered.Load(); n > 0 {
		row("outbox delivered", "%9s   %s again, without effect", group(c.delivered.Load()), group(n))
	} else {
		count("outbox delivered", c.delivered.Load())
	}
	if stats != nil {
		batches(row, "write batches", stats.Writes)
		batches(row, "load batches", stats.Reads)
	} else {
		row("batches", "%9s   one request per operation", "none")
	}
	row("duration", "%9s", took.Round(time.Millisecond))
	row("throughput", "%9s   events/s, %s commits/s", group(rate(c.events.Load(), took)), group(rate(c.commits.Load(), took)))
}

func batches(row func(what, format string, args ...any), what string, s actor.LaneStats) {
	average := 0.0
	if s.Batches > 0 {
		average = float64(s.Items) / float64(s.Batches)
	}
	row(what, "%9s   %.1f operations on average, %s at most", group(int64(s.Batches)), average, group(int64(s.Largest)))
}

// verdict prints the verification and returns whether all of it holds.
func (c *console) verdict(checks []check) bool {
	good, bad := "ok    ", "FAILED"
	if c.fancyOut {
		good, bad = "\x1b[32m✓\x1b[0m", "\x1b[31m✗\x1b[0m"
	}
	failed := 0
	for _, k := range checks {
		switch {
		case k.err != "":
			failed++
			c.printf("  %s %-45s %s\n", bad, k.what, k.err)
		case k.detail != "":
			c.printf("  %s %-45s %s\n", good, k.what, k.detail)
		default:
			c.printf("  %s %s\n", good, k.what)
		}
	}
	if failed > 0 {
		c.printf("Verification FAILED: %d of %d checks.\n", failed, len(checks))
		return false
	}
	c.printf("Verified: all %d checks hold.\n", len(checks))
	return true
}
