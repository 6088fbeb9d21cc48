package main

import (
	"bytes"
	"context"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorate/quorate/client/rqlitetest"
)

// short is a run for tests: eight seconds of fake time.
func short(seed uint64) config {
	return config{
		seed: seed, duration: 8 * time.Second, callers: 8, processes: 3, hot: 2, idOps: 150,
		faultEvery: 700 * time.Millisecond, limit: 5 * time.Second, slack: 2 * time.Second,
		impatient: 0.04, checkTime: time.Minute, think: 50 * time.Millisecond,
	}
}

// attempt runs chaos on simulated nodes in a bubble and returns the report.
func attempt(t *testing.T, cfg config, wrap func(*simulated) cluster) (res *result, report string, ok bool) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		c, err := newSimulated(cfg.seed, rqlitetest.InMemoryNetwork(), rqlitetest.Latency(8*time.Millisecond, 4*time.Millisecond))
		if err != nil {
			t.Fatal(err)
		}
		defer c.close()
		cl := cluster(c)
		if wrap != nil {
			cl = wrap(c)
		}
		if res, err = execute(t.Context(), cl, cfg); err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		ok = res.write(&out, &cfg, "...")
		report = out.String()
	})
	return res, report, ok
}

func TestChaos(t *testing.T) {
	cfg := short(testSeed(t))
	res, report, ok := attempt(t, cfg, nil)
	t.Logf("\n%s", report)
	if !ok {
		t.Error("violated; see the report")
	}
	// A run that did next to nothing proves nothing.
	tally := &res.r.tally
	if tally.ok.Load() < 100 || tally.conflicts.Load() == 0 || tally.loads.Load() < 50 || res.r.faults.len() < 8 {
		t.Error("too little was done")
	}
	if res.r.checker.histories.Load() < 10 || int64(len(res.r.journal.commits)) < tally.ok.Load() {
		t.Error("too little was checked")
	}
}

// saboteur is a cluster with a lane that changes the database behind everybody's
// back, once.
type saboteur struct {
	*simulated
	t   *testing.T
	sql string
}

func (s *saboteur) lanes() []lane {
	return []lane{func(ctx context.Context, _ *rand.Rand) fault {
		f := fault{kind: "sabotage", at: time.Now(), over: time.Now()}
		if _, err := s.Exec(ctx, s.sql); err != nil {
			s.t.Errorf("sabotage: %v", err)
		}
		pause(ctx, time.Hour)
		return f
	}}
}

// The whole machinery has to notice when a store or database misbehaves.
func TestChaosCatchesSabotage(t *testing.T) {
	for _, sabotage := range []struct {
		name, sql string
		kinds     []string // each must be reported
	}{
		// Nobody acknowledges spawns, so the second one is there for sure.
		{"side write doubled", `INSERT INTO spawns(parent_id,child_id,root_path,context) SELECT parent_id,child_id,root_path,context FROM spawns ORDER BY seq DESC LIMIT 1`, []string{kindDoubled}},
		{"side write lost", `DELETE FROM processed_events WHERE event_id IN (SELECT max(event_id) FROM processed_events)`, []string{kindSide}},
		{"state lost", `DELETE FROM executions`, []string{kindLost, kindHistory, kindOneself}},
		{"state taken back", `UPDATE executions SET commit_token='x'`, []string{kindOneself, kindHistory}},
	} {
		t.Run(sabotage.name, func(t *testing.T) {
			cfg := short(testSeed(t))
			cfg.duration, cfg.faultEvery, cfg.impatient, cfg.out = 1200*time.Millisecond, 800*time.Millisecond, 0, t.TempDir()
			res, report, ok := attempt(t, cfg, func(c *simulated) cluster {
				return &saboteur{c, t, sabotage.sql}
			})
			if ok || !strings.Contains(report, "VERDICT: ") || strings.Contains(report, "VERDICT: ok") {
				t.Errorf("accepted:\n%s", report)
			}
			for _, kind := range sabotage.kinds {
				if res.r.bad.count(kind) == 0 {
					t.Errorf("no %q in:\n%s", kind, report)
				}
			}
		})
	}
}
