package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/anishathalye/porcupine"
)

// checker checks complete histories while the run goes on, so that their memory
// can be let go of.
type checker struct {
	timeout time.Duration // for one history
	out     string        // directory for what failed, "" for none
	report  *violations
	queue   chan *history
	done    sync.WaitGroup
	once    sync.Once

	histories, operations, undecided atomic.Int64
	longest                          atomic.Int64 // operations of the longest history
	slowest                          atomic.Int64 // nanoseconds
}

func newChecker(timeout time.Duration, out string, report *violations) *checker {
	c := &checker{timeout: timeout, out: out, report: report, queue: make(chan *history, 4096)}
	c.done.Go(func() {
		for h := range c.queue {
			c.check(h)
		}
	})
	return c
}

// add queues a complete history.
func (c *checker) add(h *history) { c.queue <- h }

// stop ends the checker when all that was added is checked. Stopping twice is no
// error.
func (c *checker) stop() {
	c.once.Do(func() { close(c.queue) })
	c.done.Wait()
}

// check checks one history and forgets it.
func (c *checker) check(h *history) {
	ops := h.ops
	h.ops = nil
	c.histories.Add(1)
	c.operations.Add(int64(len(ops)))
	raise(&c.longest, int64(len(ops)))
	began := time.Now()
	j := judgeHistory(ops, c.timeout)
	raise(&c.slowest, int64(time.Since(began)))
	switch j.result {
	case porcupine.Ok:
		return
	case porcupine.Unknown:
		c.undecided.Add(1)
		c.report.add(kindUndecided, "execution %s: porcupine could not decide on %d operations within %v%s", h.id, len(ops), c.timeout, j.why)
	default:
		c.report.add(kindHistory, "execution %s: its history of %d operations is not linearizable%s", h.id, len(ops), j.why)
	}
	c.save(h.id, ops, j.info)
}

// judgement is what porcupine says about a history.
type judgement struct {
	result porcupine.CheckResult
	why    string // for people, if it is not ok
	info   porcupine.LinearizationInfo
}

// judgeHistory asks porcupine about a history.
func judgeHistory(history []operation, timeout time.Duration) judgement {
	ops := prepare(history)
	early, late := narrow(ops)
	list := events(ops)
	j := judgement{result: porcupine.CheckEventsTimeout(model(), list, timeout)}
	if j.result == porcupine.Ok {
		return j
	}
	// The verbose check gathers what can be drawn, at a price in memory that only
	// a failure is worth.
	again, info := porcupine.CheckEventsVerbose(model(), list, timeout)
	if j.info = info; again == porcupine.Illegal {
		j.result = again
	}
	switch {
	case early != nil:
		j.why = fmt.Sprintf("; %q ended before %q began", early, late)
	case j.result == porcupine.Illegal:
		j.why = blame(ops, info)
	}
	return j
}

// blame names the first operation in time that is not part of the longest
// linearization that was found.
func blame(ops []operation, info porcupine.LinearizationInfo) string {
	var best []int
	for _, partition := range info.PartialLinearizations() {
		for _, p := range partition {
			if len(p) > len(best) {
				best = p
			}
		}
	}
	placed := make(map[int]bool, len(best))
	for _, id := range best {
		placed[id] = true
	}
	first := -1
	for i := range ops {
		if !placed[i] && (first < 0 || ops[i].Return < ops[first].Return) {
			first = i
		}
	}
	if first < 0 {
		return ""
	}
	return fmt.Sprintf("; no place for %q", &ops[first])
}

// save writes a history to the output directory.
func (c *checker) save(id string, ops []operation, info porcupine.LinearizationInfo) {
	if c.out == "" {
		return
	}
	err := os.MkdirAll(c.out, 0o755)
	if err == nil {
		var b []byte
		if b, err = json.MarshalIndent(ops, "", " "); err == nil {
			err = os.WriteFile(filepath.Join(c.out, id+".json"), b, 0o644)
		}
	}
	if err == nil {
		err = porcupine.VisualizePath(model(), info, filepath.Join(c.out, id+".html"))
	}
	if err != nil {
		c.report.note("writing the history of %s: %v", id, err)
	}
}

// raise makes v at least n.
func raise(v *atomic.Int64, n int64) {
	for {
		old := v.Load()
		if n <= old || v.CompareAndSwap(old, n) {
			return
		}
	}
}
