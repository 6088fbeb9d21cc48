package storetest

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/quorate/quorate/store/coordination"
	"github.com/quorate/quorate/store/engine"
)

// coordinationCase is one promise of package coordination and its test.
type coordinationCase struct {
	promise string
	run     func(c *coord)
}

// coordinationGroups is what the suite consists of.
var coordinationGroups = []struct {
	name  string
	cases []coordinationCase
}{
	{"lock", lockCases},
	{"read-write lock", rwlockCases},
	{"election", electionCases},
	{"schedule", scheduleCases},
	{"cache", cacheCases},
	{"limiter", limiterCases},
}

// coordModes are the ways to judge leases: every case runs by each of them.
var coordModes = []struct {
	name    string
	options []coordination.Option
}{
	{"shared clock", nil},
	{"no shared clock", []coordination.Option{coordination.WithoutSharedClock()}},
}

// RunCoordination checks what package coordination promises, on the engine, with
// and without a clock that its processes share.
func RunCoordination(t *testing.T, h Harness) {
	t.Helper()
	for _, mode := range coordModes {
		t.Run(mode.name, func(t *testing.T) {
			for _, g := range coordinationGroups {
				t.Run(g.name, func(t *testing.T) {
					for _, c := range g.cases {
						t.Run(c.promise, func(t *testing.T) { c.run(newCoord(t, h, mode.options)) })
					}
				})
			}
		})
	}
}

// coord is a provider on a database of its own.
type coord struct {
	*testing.T
	ctx     context.Context
	db      Database
	tap     *tap // between the provider and the engine
	options []coordination.Option
	p       *coordination.Provider
}

func newCoord(t *testing.T, h Harness, options []coordination.Option) *coord {
	t.Helper()
	c := &coord{T: t, db: h.Open(t), options: options}
	ctx, cancel := context.WithTimeout(t.Context(), caseLimit)
	t.Cleanup(cancel)
	c.ctx = ctx
	c.tap = &tap{Engine: c.db.Engine, tb: t}
	t.Cleanup(func() {
		if err := c.tap.Close(); err != nil {
			t.Error("close the engine:", err)
		}
	})
	c.p = c.provider(c.tap)
	return c
}

// provider opens a provider, which the test closes.
func (c *coord) provider(eng engine.Engine) *coordination.Provider {
	c.Helper()
	p, err := coordination.Open(c.ctx, eng, c.options...)
	if err != nil {
		c.Fatal("coordination.Open:", err)
	}
	c.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), caseLimit)
		defer cancel()
		if err := p.Close(ctx); err != nil {
			c.Error("close the provider:", err)
		}
	})
	return p
}

// another opens another provider on the database, as another process has it.
func (c *coord) another() *coordination.Provider {
	c.Helper()
	if c.db.Again == nil {
		return c.provider(shared{c.db.Engine})
	}
	eng := c.db.Again(c.T)
	c.Cleanup(func() {
		if err := eng.Close(); err != nil {
			c.Error("close the other engine:", err)
		}
	})
	return c.provider(eng)
}

func (c *coord) must(err error) {
	c.Helper()
	if err != nil {
		c.Fatalf("%T: %v", err, err)
	}
}

func (c *coord) is(err, want error) {
	c.Helper()
	if !errors.Is(err, want) {
		c.Errorf("got error %v, want one that matches %q", err, want)
	}
}

// within returns a context for a wait that is expected to end in time.
func (c *coord) within(d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(c.ctx, d)
	c.Cleanup(cancel)
	return ctx
}

// exec changes the database past the provider.
func (c *coord) exec(sql string, args ...any) {
	c.Helper()
	_, err := c.db.Engine.Exec(c.ctx, []engine.Statement{statement(sql, args...)})
	c.must(err)
}

// counter is a row that is counted up in two steps, guarded by nothing but what is
// under test.
func (c *coord) counter() {
	c.Helper()
	c.must(c.db.Engine.Define(c.ctx, []string{
		"CREATE TABLE IF NOT EXISTS storetest_other(k TEXT NOT NULL PRIMARY KEY,n BIGINT NOT NULL,token BIGINT NOT NULL)",
	}))
	c.exec("INSERT INTO storetest_other(k,n,token) VALUES(?,?,?)", "counter", 0, 0)
}

// count adds one; the token must be greater than those before.
func (c *coord) count(eng engine.Engine, token int64) {
	c.Helper()
	n, seen := c.counted(eng)
	if seen >= token {
		c.Errorf("token %d after %d", token, seen)
	}
	_, err := eng.Exec(c.ctx, []engine.Statement{statement("UPDATE storetest_other SET n=?,token=? WHERE k=?", n+1, token, "counter")})
	if err != nil {
		c.Error(err)
	}
}

func (c *coord) counted(eng engine.Engine) (n, token int64) {
	c.Helper()
	res, err := eng.Query(c.ctx, engine.Linearizable, []engine.Statement{statement("SELECT n,token FROM storetest_other WHERE k=?", "counter")})
	if err != nil || res[0].Len() != 1 {
		c.Error(res, err)
		return 0, 0
	}
	n, _ = res[0].Row(0)[0].Int()
	token, _ = res[0].Row(0)[1].Int()
	return n, token
}

// crowd runs f n times for each of three providers, all at once.
func (c *coord) crowd(n int, f func(p *coordination.Provider)) {
	c.Helper()
	var wg sync.WaitGroup
	for _, p := range []*coordination.Provider{c.p, c.another(), c.another()} {
		for range n {
			wg.Go(func() { f(p) })
		}
	}
	wg.Wait()
}
