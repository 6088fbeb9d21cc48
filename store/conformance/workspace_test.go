package conformance

import (
	"context"
	"crypto/rand"
	"strings"
	"testing"
	"time"

	"github.com/quorate/quorate/client/rqlited"
	"github.com/quorate/quorate/client/rqlitetest"
	"github.com/quorate/quorate/store/engine"
	"github.com/quorate/quorate/store/postgres/postgrestest"
	"github.com/quorate/quorate/store/storetest"
)

func TestWorkspaceSQLiteMemory(t *testing.T) {
	storetest.RunWorkspace(t, storetest.Harness{Open: inMemory})
}

func TestWorkspaceSQLiteFile(t *testing.T) {
	storetest.RunWorkspace(t, storetest.Harness{Open: inFile})
}

func TestWorkspaceRqlitetest(t *testing.T) { storetest.RunWorkspace(t, rqlitetestHarness(t)) }

func TestWorkspaceRqlited(t *testing.T) { storetest.RunWorkspace(t, rqlitedHarness(t, 3)) }

func TestWorkspacePostgres(t *testing.T) {
	postgrestest.Require(t)
	storetest.RunWorkspace(t, storetest.Harness{Open: onPostgres})
}

// TestWorkspaceWhenPostgresEndsSessions has the server end all sessions of the
// stores again and again, in the middle of whatever they do.
func TestWorkspaceWhenPostgresEndsSessions(t *testing.T) {
	url := postgrestest.Schema(t)
	killer := openPostgres(t, url)
	defer func() { _ = killer.Close() }()
	name := "quorate_" + strings.ToLower(rand.Text()[:12])
	url += "&application_name=" + name
	db := storetest.Database{
		Engine: openPostgres(t, url),
		Again:  func(t testing.TB) engine.Engine { return openPostgres(t, url) },
		Typed:  true,
	}
	storetest.RunWorkspaceDisturbed(t, db, func(ctx context.Context) {
		ended := 0
		for range 20 {
			<-time.After(150 * time.Millisecond)
			results, err := killer.Query(ctx, engine.Linearizable, []engine.Statement{{
				SQL:  "SELECT pg_terminate_backend(a.pid) AS ended FROM pg_stat_activity a WHERE a.application_name=?",
				Args: []engine.Value{engine.Text(name)},
			}})
			if err != nil {
				t.Error(err)
				return
			}
			ended += results[0].Len()
		}
		if ended < 20 {
			t.Errorf("%d sessions were ended", ended)
		}
	})
}

// TestWorkspaceOnADisturbedCluster loses answers, leaders and nodes of a test
// cluster.
func TestWorkspaceOnADisturbedCluster(t *testing.T) {
	cluster := rqlitetest.Start(t, rqlitetest.LogLimit(0), rqlitetest.ElectionTimeout(200*time.Millisecond))
	db := emptied(t, cluster.URLs())
	storetest.RunWorkspaceDisturbed(t, db, func(ctx context.Context) {
		for _, a := range []rqlitetest.Action{
			rqlitetest.NoLeader(), rqlitetest.ErrorApplied(rqlitetest.TextLeadershipLost), rqlitetest.ErrorUnapplied(rqlitetest.TextNotLeader),
			rqlitetest.ResetApplied(), rqlitetest.Reset(), rqlitetest.CutAnswer(-1), rqlitetest.ApplyTwice(),
		} {
			cluster.Inject(rqlitetest.Match{Kind: rqlitetest.KindExecute, Probability: 0.03}, a)
		}
		for i := range 6 {
			node := cluster.Node(i % 3)
			switch i % 3 {
			case 0:
				node.Stop()
			case 1:
				cluster.LoseLeader(100 * time.Millisecond)
			case 2:
				node.Isolate()
			}
			<-time.After(300 * time.Millisecond)
			node.Restart()
			node.Rejoin()
			<-time.After(100 * time.Millisecond)
		}
		cluster.ClearFaults()
	})
}

// TestWorkspaceWhenLeadersAreKilled kills leaders of a real cluster.
func TestWorkspaceWhenLeadersAreKilled(t *testing.T) {
	bin := rqlited.Require(t)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	cluster, err := rqlited.Start(ctx, rqlited.Options{Binary: bin, Nodes: 3})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := cluster.Close(); err != nil {
			t.Error(err)
		}
	})
	storetest.RunWorkspaceDisturbed(t, emptied(t, cluster.URLs()), func(ctx context.Context) {
		for range 2 {
			<-time.After(time.Second)
			leader, err := cluster.Leader(ctx)
			if err == nil {
				err = cluster.Kill(leader)
			}
			if err != nil {
				t.Error(err)
				return
			}
			<-time.After(3 * time.Second)
			if err := cluster.Restart(ctx, leader); err != nil {
				t.Error(err)
				return
			}
		}
		<-time.After(time.Second)
	})
}
