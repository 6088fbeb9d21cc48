package conformance

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/quorate/quorate/client/rqlited"
	"github.com/quorate/quorate/store/engine"
	"github.com/quorate/quorate/store/storetest"
)

func TestRqlited(t *testing.T) {
	for _, nodes := range []int{1, 3} {
		t.Run(fmt.Sprintf("nodes=%d", nodes), func(t *testing.T) { storetest.Run(t, rqlitedHarness(t, nodes)) })
	}
}

// rqlitedHarness starts a real cluster, or skips the test and says how to enable
// it.
func rqlitedHarness(tb testing.TB, nodes int) storetest.Harness {
	bin := rqlited.Require(tb)
	ctx, cancel := context.WithTimeout(tb.Context(), 2*time.Minute)
	defer cancel()
	cluster, err := rqlited.Start(ctx, rqlited.Options{Binary: bin, Nodes: nodes})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := cluster.Close(); err != nil {
			tb.Error("stop the cluster:", err)
		}
	})
	web := &http.Client{Transport: &http.Transport{}}
	tb.Cleanup(web.CloseIdleConnections)
	return storetest.Harness{Open: func(t testing.TB) storetest.Database {
		db := emptied(t, cluster.URLs())
		db.Oracle = func(t testing.TB, sql string, args ...engine.Value) [][]engine.Value {
			t.Helper()
			rows, err := ask(t.Context(), web, cluster.URLs()[0], sql, args)
			if err != nil {
				t.Fatalf("oracle: %s: %v", sql, err)
			}
			return rows
		}
		return db
	}}
}

// ask queries a node over HTTP by itself. The level strong goes through the log,
// so the answer holds all that was written before, whoever leads.
func ask(ctx context.Context, web *http.Client, url, sql string, args []engine.Value) ([][]engine.Value, error) {
	body, err := json.Marshal([][]any{append([]any{sql}, natives(args)...)})
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/db/query?level=strong", bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := web.Do(req)
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	var answer struct {
		Error   string
		Results []struct {
			Error  string
			Values [][]any
		}
	}
	dec := json.NewDecoder(resp.Body)
	dec.UseNumber()
	if err := dec.Decode(&answer); err != nil {
		return nil, fmt.Errorf("status %s: %w", resp.Status, err)
	}
	if answer.Error != "" || len(answer.Results) != 1 || answer.Results[0].Error != "" {
		return nil, fmt.Errorf("status %s: %+v", resp.Status, answer)
	}
	rows := make([][]engine.Value, len(answer.Results[0].Values))
	for i, row := range answer.Results[0].Values {
		rows[i] = make([]engine.Value, len(row))
		for j, v := range row {
			if rows[i][j], err = fromJSON(v); err != nil {
				return nil, err
			}
		}
	}
	return rows, nil
}

func fromJSON(v any) (engine.Value, error) {
	switch v := v.(type) {
	case nil:
		return engine.Null(), nil
	case string:
		return engine.Text(v), nil
	case json.Number:
		if n, err := v.Int64(); err == nil {
			return engine.Int(n), nil
		}
		f, err := v.Float64()
		return engine.Float(f), err
	}
	return engine.Value{}, fmt.Errorf("a value of type %T", v)
}
