package main

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/quorate/quorate/client"
	"github.com/quorate/quorate/client/rqlitetest"
)

// simulated is a cluster of rqlitetest.
type simulated struct {
	*rqlitetest.Cluster
	election                time.Duration
	nodeKinds, requestKinds deck
}

func newSimulated(seed uint64, opts ...rqlitetest.Option) (*simulated, error) {
	const election = 400 * time.Millisecond
	opts = append([]rqlitetest.Option{
		rqlitetest.Nodes(3), rqlitetest.Seed(seed), rqlitetest.LogLimit(0),
		rqlitetest.ElectionTimeout(election), rqlitetest.LeaderLease(election / 2),
	}, opts...)
	c, err := rqlitetest.New(opts...)
	if err != nil {
		return nil, err
	}
	return &simulated{Cluster: c, election: election}, nil
}

func (s *simulated) name() string { return "rqlitetest, 3 simulated nodes in this process" }

func (s *simulated) urls() []string { return s.URLs() }

func (s *simulated) options() []client.Option {
	return []client.Option{client.WithDialContext(s.DialContext)}
}

func (s *simulated) lanes() []lane { return []lane{s.failNode, s.failRequests} }

func (s *simulated) close() error { s.Close(); return nil }

func (s *simulated) query(ctx context.Context, sql string, args ...any) ([][]any, error) {
	return s.SQL(ctx, sql, args...)
}

func (s *simulated) heal(ctx context.Context) error {
	s.ClearFaults()
	_, err := s.WaitLeader(ctx)
	return err
}

// failNode fails the leader, or for some kinds any node, and brings it back.
func (s *simulated) failNode(ctx context.Context, rng *rand.Rand) fault {
	n, err := s.WaitLeader(ctx)
	if err != nil {
		return fault{kind: "none: the run ended", at: time.Now(), over: time.Now()}
	}
	other := s.Node(rng.IntN(s.Len()))
	hold := between(rng, s.election/4, 2*s.election)
	kinds := []struct {
		kind       string
		start, end func()
	}{
		{"leader stopped", n.Stop, n.Restart},
		{"leader paused", n.Pause, n.Resume},
		{"leader paused, stale after", n.Pause, func() { n.ResumeStale(s.election / 2) }},
		{"leader cut off", n.Isolate, n.Rejoin},
		{"election gap", func() { s.LoseLeader(hold) }, nil},
		{"leadership moved", func() { s.Elect(rng.IntN(s.Len())) }, nil},
		{"any node stopped", other.Stop, other.Restart},
		{"connections reset", n.ResetConns, nil},
		{"idle connections doomed", func() { n.DoomIdle() }, nil},
		{"connections silent", n.Silence, n.Heal},
		{"node deaf and dumb", n.BlackHole, n.Heal},
	}
	k := kinds[s.nodeKinds.draw(rng, len(kinds))]
	f := fault{kind: k.kind, at: time.Now(), held: hold}
	k.start()
	pause(ctx, hold)
	if k.end != nil {
		k.end()
	}
	f.over = time.Now()
	return f
}

// failRequests makes a few requests fail.
func (s *simulated) failRequests(ctx context.Context, rng *rand.Rand) fault {
	short := between(rng, time.Millisecond, 80*time.Millisecond)
	kinds := []struct {
		kind   string
		match  rqlitetest.Kind
		action rqlitetest.Action
	}{
		{"reset unread", rqlitetest.KindDB, rqlitetest.ResetUnread()},
		{"reset before applying", rqlitetest.KindDB, rqlitetest.Reset()},
		{"reset after applying", rqlitetest.KindExecute, rqlitetest.ResetApplied()},
		{"closed after applying", rqlitetest.KindExecute, rqlitetest.CloseApplied()},
		{"answer cut", rqlitetest.KindDB, rqlitetest.CutAnswer(-1)},
		{"hang, then reset", rqlitetest.KindDB, rqlitetest.Hang()},
		{"applied, hang, then reset", rqlitetest.KindExecute, rqlitetest.HangApplied()},
		{"held back, then served", rqlitetest.KindDB, rqlitetest.Block()},
		{"200 with error, applied", rqlitetest.KindExecute, rqlitetest.ErrorApplied(rqlitetest.TextLeadershipLost)},
		{"200 with error, not applied", rqlitetest.KindExecute, rqlitetest.ErrorUnapplied(rqlitetest.TextLeadershipLost)},
		{"200 with not leader", rqlitetest.KindExecute, rqlitetest.ErrorUnapplied(rqlitetest.TextNotLeader)},
		{"200 with enqueue timeout", rqlitetest.KindExecute, rqlitetest.ErrorUnapplied(rqlitetest.TextEnqueueTimeout)},
		{"no leader answered", rqlitetest.KindDB, rqlitetest.NoLeader()},
		{"redirect in circles", rqlitetest.KindDB, rqlitetest.RedirectNext()},
		{"slow before applying", rqlitetest.KindDB, rqlitetest.Slow(short, 0)},
		{"slow after applying", rqlitetest.KindDB, rqlitetest.Slow(0, short)},
		{"slow, then reset", rqlitetest.KindExecute, rqlitetest.ResetApplied().Before(short).After(short)},
		{"results missing", rqlitetest.KindExecute, rqlitetest.FewerResults(1)},
		{"applied twice", rqlitetest.KindExecute, rqlitetest.ApplyTwice()},
		{"proxy page", rqlitetest.KindDB, rqlitetest.HTML()},
		{"proxy 502", rqlitetest.KindDB, rqlitetest.Respond(502, "text/plain", "bad gateway\n")},
	}
	k := kinds[s.requestKinds.draw(rng, len(kinds))]
	hold := between(rng, s.election/4, 2*s.election)
	f := fault{kind: k.kind, at: time.Now(), held: hold}
	injected := s.Inject(rqlitetest.Match{Kind: k.match, Times: 1 + rng.IntN(12), Skip: rng.IntN(3)}, k.action)
	pause(ctx, hold)
	f.hits = injected.Hits()
	injected.Remove()
	f.over = time.Now()
	return f
}
