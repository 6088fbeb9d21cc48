package rqlitetest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// TestAcknowledgedWritesAreThere has writers run while nodes stop, pause, part
// and lose the lead, and faults hit at random. What was acknowledged must be in
// the database, what was surely refused must not, all else may.
func TestAcknowledgedWritesAreThere(t *testing.T) {
	for seed := range uint64(4) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { chaos(t, seed) })
		})
	}
}

func chaos(t *testing.T, seed uint64) {
	c, _ := withTable(t, InMemoryNetwork(), Seed(seed), Latency(time.Millisecond, 0))
	for _, a := range []Action{NoLeader(), ErrorApplied(TextLeadershipLost), ErrorUnapplied(TextNotLeader), ResetApplied(), Reset(), ResetUnread(), CutAnswer(-1), Slow(time.Second, time.Second)} {
		c.Inject(Match{Kind: KindExecute, Probability: 0.02}, a)
	}
	stop := make(chan struct{})
	var nemesis, writers sync.WaitGroup
	nemesis.Go(func() {
		rng := rand.New(rand.NewPCG(seed, 1))
		for {
			n := c.Node(rng.IntN(c.Len()))
			undo := func() {}
			switch rng.IntN(6) {
			case 0:
				n.Stop()
				undo = n.Restart
			case 1:
				n.Pause()
				undo = func() { n.ResumeStale(50 * time.Millisecond) }
			case 2:
				n.Isolate()
				undo = n.Rejoin
			case 3:
				c.LoseLeader(200 * time.Millisecond)
			case 4:
				n.Silence()
				undo = n.Heal
			case 5:
				n.ResetConns()
			}
			select {
			case <-time.After(time.Duration(rng.IntN(3000)) * time.Millisecond):
				undo()
			case <-stop:
				undo()
				return
			}
		}
	})
	var (
		mu           sync.Mutex
		acked        []string
		refused      []string
		unknownCount int
	)
	for w := range 4 {
		writers.Go(func() {
			cl := client(t, c)
			for i := range 60 {
				id := fmt.Sprintf("w%d-%d", w, i)
				ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
				status, body, err := try(ctx, cl, c.URL((w+i)%c.Len())+"/db/execute?timeout=500ms", fmt.Sprintf(`[["INSERT INTO t(v) VALUES(?)","%s"]]`, id))
				cancel()
				mu.Lock()
				switch {
				case err == nil && status == 200 && strings.Contains(body, `"rows_affected":1`):
					acked = append(acked, id)
				case err == nil && status == 503:
					refused = append(refused, id)
				default:
					unknownCount++
				}
				mu.Unlock()
				<-time.After(50 * time.Millisecond)
			}
		})
	}
	writers.Wait()
	close(stop)
	nemesis.Wait()
	c.ClearFaults()
	if _, err := c.WaitLeader(t.Context()); err != nil {
		t.Fatal(err)
	}
	rows, err := c.SQL(t.Context(), "SELECT v, count(*) FROM t GROUP BY v")
	if err != nil {
		t.Fatal(err)
	}
	found := make(map[string]int64)
	for _, r := range rows {
		found[r[0].(string)] = r[1].(int64)
	}
	for _, id := range acked {
		if found[id] == 0 {
			t.Errorf("%s was acknowledged and is lost", id)
		}
	}
	for _, id := range refused {
		if found[id] != 0 {
			t.Errorf("%s was refused and is there", id)
		}
	}
	if len(acked) == 0 || unknownCount == 0 {
		t.Errorf("%d acknowledged, %d refused, %d unknown: the test tested nothing", len(acked), len(refused), unknownCount)
	}
	applied := 0
	for _, e := range c.LogOf(KindExecute) {
		applied += e.Applied
	}
	if n := count(t, c); n != int64(applied) {
		t.Errorf("%d rows, the log tells of %d", n, applied)
	}
	// All nodes see the same in the end.
	cl := client(t, c)
	want := ""
	for _, n := range c.Nodes() {
		_, got := post(t, cl, n.URL()+"/db/query?level=none", `["SELECT v FROM t ORDER BY id"]`)
		if want == "" {
			want = got
		} else if got != want {
			t.Errorf("%v differs from the first node", n)
		}
	}
}
