package main

import (
	"context"
	"testing"

	"go.uber.org/goleak"

	"github.com/quorate/quorate/actor"
	"github.com/quorate/quorate/client"
	"github.com/quorate/quorate/client/rqlitetest"
	"github.com/quorate/quorate/store"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func Example() {
	main()
	// Output:
	// approved, with 1 letter
}

// open returns a store on a test cluster of three nodes, and closes it when the
// test ends.
func open(t *testing.T, cluster *rqlitetest.Cluster) *actor.Store {
	t.Helper()
	eng, err := client.Open(t.Context(), cluster.URLs())
	if err != nil {
		t.Fatal(err)
	}
	st, err := store.Open(t.Context(), eng)
	if err != nil {
		t.Fatal(err)
	}
	s, err := actor.New(st)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if _, err := s.Close(context.Background()); err != nil {
			t.Error(err)
		}
		if err := st.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// TestApproveOnce: whatever happens to the request of the commit, the approval
// takes effect once.
func TestApproveOnce(t *testing.T) {
	for name, fault := range map[string]rqlitetest.Action{
		"applied, and the answer is lost":     rqlitetest.ResetApplied(),
		"lost before it was read":             rqlitetest.Reset(),
		"applied twice":                       rqlitetest.ApplyTwice(),
		"no leader, for a moment":             rqlitetest.NoLeader(),
		"applied, and the answer cut in half": rqlitetest.CutAnswer(20),
	} {
		t.Run(name, func(t *testing.T) {
			cluster := rqlitetest.Start(t)
			s := open(t, cluster)
			application := store.NewExecution("application")
			if _, err := s.Save(t.Context(), application).Await(t.Context()); err != nil {
				t.Fatal(err)
			}
			writes := rqlitetest.KindExecute | rqlitetest.KindRequest
			hit := cluster.Inject(rqlitetest.Match{Kind: writes, Times: 1}, fault)
			for range 2 { // the event is delivered twice, too
				if err := approve(t.Context(), s, application.ID, "approval-1"); err != nil {
					t.Fatal(err)
				}
			}
			if hit.Hits() != 1 {
				t.Errorf("the fault happened %d times", hit.Hits())
			}
			e, err := s.Load(t.Context(), application.ID).Await(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			letters, err := s.PendingOutbox(t.Context(), 10).Await(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if e.Outcome != "approved" || e.Version != 2 || len(letters) != 1 {
				t.Errorf("outcome %q at version %d with %d letters", e.Outcome, e.Version, len(letters))
			}
		})
	}
}
