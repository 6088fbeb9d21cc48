package rqlitetest_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/quorate/quorate/client/rqlitetest"
)

// deposit is the code under test: it writes once, and asks before it writes again.
func deposit(client *http.Client, base, id string) error {
	post := func(path, body string) (string, error) {
		resp, err := client.Post(base+path, "application/json", strings.NewReader(body))
		if err != nil {
			return "", err
		}
		defer resp.Body.Close()
		b, err := io.ReadAll(resp.Body)
		return string(b), err
	}
	for {
		answer, err := post("/db/execute", fmt.Sprintf(`[["INSERT INTO deposits(id) VALUES(?)",%q]]`, id))
		if err == nil && answer == `{"results":[{"last_insert_id":1,"rows_affected":1}]}` {
			return nil
		}
		// Nobody knows whether that was applied. Look.
		answer, err = post("/db/query?level=linearizable", fmt.Sprintf(`[["SELECT 1 FROM deposits WHERE id=?",%q]]`, id))
		if err == nil && strings.Contains(answer, `"values":[[1]]`) {
			return nil
		}
	}
}

// A write is applied and its answer lost. The code under test must not write twice.
func Example() {
	ctx := context.Background()
	cluster, err := rqlitetest.New() // in a test: rqlitetest.Start(t)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer cluster.Close()
	if _, err := cluster.Exec(ctx, "CREATE TABLE deposits(id TEXT)"); err != nil {
		fmt.Println(err)
		return
	}

	fault := cluster.Inject(rqlitetest.Match{Kind: rqlitetest.KindExecute, Times: 1}, rqlitetest.ResetApplied())

	client := cluster.Client()
	defer client.CloseIdleConnections()
	fmt.Println("error:", deposit(client, cluster.URL(0), "d-1"))

	rows, _ := cluster.SQL(ctx, "SELECT count(*) FROM deposits")
	fmt.Println("deposits:", rows[0][0], "faults:", fault.Hits())
	for _, e := range cluster.Log() {
		fmt.Println(e.Node, e.Kind, "applied:", e.Applied, "-", e.Outcome)
	}
	// Output:
	// error: <nil>
	// deposits: 1 faults: 1
	// node1 execute applied: 1 - connection reset
	// node1 query applied: 0 - answered
}

// A leader that fails is replaced; the nodes tell who leads.
func ExampleNode_Stop() {
	cluster, err := rqlitetest.New(rqlitetest.Nodes(3))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer cluster.Close()
	fmt.Println(cluster.Leader(), "leads")
	cluster.Leader().Stop()
	fmt.Println("a leader after the stop:", cluster.Leader() != nil)
	leader, err := cluster.WaitLeader(context.Background())
	fmt.Println(leader, "leads", err)
	// Output:
	// node1 leads
	// a leader after the stop: false
	// node2 leads <nil>
}
