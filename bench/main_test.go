package main

import (
	"bytes"
	"context"
	"encoding/json"
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/quorate/quorate/store/postgres/postgrestest"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// bench runs the program and returns its exit status and what it printed.
func bench(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	code = run(context.Background(), args, &out, &errs)
	return code, out.String(), errs.String()
}

// quick keeps a run short: a few milliseconds for each line.
func quick(args ...string) []string {
	return append([]string{"-duration", "4ms", "-warmup", "0s", "-rounds", "2", "-ids", "16"}, args...)
}

func TestJSON(t *testing.T) {
	for _, c := range []struct {
		engine string
		ops    string
		args   []string
	}{
		{"null", "commit,commit-full,load,load-for-event,mixed,commit-prepared", nil},
		{"sqlite", "commit,commit-full,load,load-for-event,mixed", []string{"-db", ":memory:"}},
		{"sqlite", "commit,mixed", []string{"-durability", "normal", "-in-flight", "1", "-max-batch", "2"}},
		{"rqlite", "commit,commit-full,load,load-for-event,mixed", nil},
		{"postgres", "commit,commit-full,load,load-for-event,mixed", nil},
	} {
		t.Run(c.engine+"/"+strings.Join(c.args, " "), func(t *testing.T) {
			if c.engine == "postgres" {
				postgrestest.Require(t)
			}
			// Simulated nodes: a real cluster would take its time to start.
			t.Setenv("RQLITED", filepath.Join(t.TempDir(), "none"))
			args := quick(append([]string{"-engine", c.engine, "-op", c.ops, "-callers", "1,3", "-json"}, c.args...)...)
			code, out, errs := bench(t, args...)
			if code != 0 {
				t.Fatalf("exit status %d: %s", code, errs)
			}
			seen := map[string]bool{}
			for line := range strings.Lines(out) {
				m := map[string]any{}
				if err := json.Unmarshal([]byte(line), &m); err != nil {
					t.Fatalf("%v in %q", err, line)
				}
				checkLine(t, c.engine, m)
				seen[m["mode"].(string)+" "+m["op"].(string)] = true
			}
			for _, name := range modeNames(c.engine) {
				for _, o := range strings.Split(c.ops, ",") {
					wanted := name != "queued" || !op(o).reads()
					if seen[name+" "+o] != wanted {
						t.Errorf("results of %s for %s: %t, want %t", name, o, seen[name+" "+o], wanted)
					}
				}
			}
		})
	}
}

// checkLine checks the fields that every line must have.
func checkLine(t *testing.T, engine string, m map[string]any) {
	t.Helper()
	if m["engine"] != engine {
		t.Errorf("engine %v, want %s", m["engine"], engine)
	}
	for _, f := range []string{"server", "mode", "op", "ratio_to", "date", "go", "platform"} {
		if s, _ := m[f].(string); s == "" {
			t.Errorf("%v %v: %s is %v", m["mode"], m["op"], f, m[f])
		}
	}
	positive := []string{
		"callers", "ops_per_s", "p50_ms", "p99_ms", "p999_ms", "mean_ms", "max_ms", "ratio", "ratio_to_callers", "requests_per_op",
		"ops_per_request", "ops", "measured_s", "rounds", "gomaxprocs", "state_bytes", "ids", "duration_s",
	}
	if engine == "rqlite" && (m["op"] == "commit" || m["op"] == "mixed") {
		positive = append(positive, "entries_per_op")
	}
	for _, f := range positive {
		if v, _ := m[f].(float64); v <= 0 {
			t.Errorf("%v %v: %s is %v", m["mode"], m["op"], f, m[f])
		}
	}
	if m["p50_ms"].(float64) > m["p99_ms"].(float64) || m["p99_ms"].(float64) > m["max_ms"].(float64) {
		t.Errorf("%v %v: p50 %v, p99 %v, max %v", m["mode"], m["op"], m["p50_ms"], m["p99_ms"], m["max_ms"])
	}
	if n := len(m["rounds_ops_per_s"].([]any)); n != 2 {
		t.Errorf("%d rounds", n)
	}
	if strings.HasPrefix(m["mode"].(string), "sync") && m["op"] != "mixed" && m["requests_per_op"] != 1.0 {
		t.Errorf("%v %v: %v requests for each operation", m["mode"], m["op"], m["requests_per_op"])
	}
	if m["mode"] == "sync-one" && m["callers"] != 1.0 {
		t.Errorf("sync-one with %v callers", m["callers"])
	}
}

func TestContended(t *testing.T) {
	code, out, errs := bench(t, quick("-db", ":memory:", "-contended", "-ids", "2", "-callers", "4", "-op", "commit,commit-full", "-json")...)
	if code != 0 {
		t.Fatalf("exit status %d: %s", code, errs)
	}
	if n := strings.Count(out, "\n"); n != 8 || strings.Contains(out, "raw-batch") {
		t.Errorf("%d lines, want 8 without raw-batch:\n%s", n, out)
	}
	if !strings.Contains(errs, "leaving out raw-batch for commit") {
		t.Errorf("it is not said what was left out: %s", errs)
	}
}

func TestTableAndPage(t *testing.T) {
	path := filepath.Join(t.TempDir(), "report.html")
	code, out, errs := bench(t, quick("-engine", "null", "-callers", "2,1", "-op", "commit,load", "-html", path)...)
	if code != 0 {
		t.Fatalf("exit status %d: %s", code, errs)
	}
	for _, want := range []string{"GOMAXPROCS", "ops/s", "p99 ms", "ratio", "\nactor", "\nsync-pool", "fairness"} {
		if !strings.Contains(out, want) {
			t.Errorf("the table has no %q:\n%s", want, out)
		}
	}
	page, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	wellFormed(t, page)
	for _, want := range []string{"prefers-color-scheme: dark", "<svg", "actor against sync-pool", "concurrent callers", "operations per second", "p99 in milliseconds"} {
		if !bytes.Contains(page, []byte(want)) {
			t.Errorf("the page has no %q", want)
		}
	}
	for _, not := range []string{"http:", "https:", "<script", "url(", "@import", "NaN", "Inf"} {
		if bytes.Contains(page, []byte(not)) {
			t.Errorf("the page has %q", not)
		}
	}
}

// wellFormed reads the page as XML: every element is closed, in order.
func wellFormed(t *testing.T, page []byte) {
	t.Helper()
	d := xml.NewDecoder(bytes.NewReader(page))
	d.Entity = xml.HTMLEntity
	elements := 0
	for {
		tok, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if _, ok := tok.(xml.StartElement); ok {
			elements++
		}
	}
	if elements < 100 {
		t.Errorf("%d elements", elements)
	}
}

func TestUsage(t *testing.T) {
	for _, c := range []struct {
		args string
		want string
	}{
		{"-engine oracle", `-engine "oracle" is none of`},
		{"-mode turbo", `-mode "turbo" is none of`},
		{"-mode gorqlite", "-mode gorqlite needs -engine rqlite"},
		{"-engine null -mode raw-batch", "-mode raw-batch needs -engine sqlite or rqlite"},
		{"-op delete", `-op "delete" is none of`},
		{"-op commit-prepared", "needs -engine null"},
		{"-callers 0", `-callers "0" is not`},
		{"-callers 1,x", `-callers "x" is not`},
		{"-duration 0s", "-duration is not positive"},
		{"-duration soon", "invalid value"},
		{"-warmup -1s", "-warmup is negative"},
		{"-rounds 0", "-rounds is less than 1"},
		{"-ids 3 -callers 4", "fewer than the 4 callers"},
		{"-ids -1", "-ids is less than 1"},
		{"-state 10", "-state is 10, less than"},
		{"-state 100000000", "-state is 100000000, more than"},
		{"-state 0", "-state is less than 1"},
		{"-durability some", `-durability "some" is neither`},
		{"-url http://localhost:4001", "-url goes with -engine rqlite"},
		{"-engine null -db x.db", "-db goes with -engine sqlite"},
		{"-in-flight -1", "-in-flight is negative"},
		{"-max-batch -1", "-max-batch is negative"},
		{"-contended -op mixed", "-contended does not go with -op mixed"},
		{"-fast", "flag provided but not defined"},
		{"commit", `unexpected argument "commit"`},
	} {
		code, out, errs := bench(t, strings.Fields(c.args)...)
		if code != 2 || out != "" || strings.Count(errs, "\n") != 1 || !strings.Contains(errs, c.want) {
			t.Errorf("%s: exit status %d, output %q, %q; want one line with %q", c.args, code, out, errs, c.want)
		}
	}
	if code, _, errs := bench(t, "-help"); code != 0 || !strings.Contains(errs, "-callers") {
		t.Errorf("-help: exit status %d, %q", code, errs)
	}
}

func TestInterrupt(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	var out bytes.Buffer
	errs := &cancelling{cancel: cancel, at: "round 1"}
	if code := run(ctx, []string{"-engine", "null", "-duration", "1ms", "-rounds", "1000000", "-warmup", "0s", "-callers", "4"}, &out, errs); code != 130 {
		t.Errorf("exit status %d: %s", code, errs.String())
	}
}

// cancelling cancels when a text has been written to it.
type cancelling struct {
	bytes.Buffer
	cancel func()
	at     string
}

func (c *cancelling) Write(p []byte) (int, error) {
	if bytes.Contains(p, []byte(c.at)) {
		c.cancel()
	}
	return c.Buffer.Write(p)
}

// TestFailingMode has one mode fail: it is given up, the others are reported, and
// the exit status tells.
func TestFailingMode(t *testing.T) {
	at := slices.IndexFunc(modes, func(m *mode) bool { return m.name == "sync-one" })
	real := *modes[at]
	defer func() { *modes[at] = real }()
	modes[at].open = func(ctx context.Context, env *environment) (target, error) {
		t, err := real.open(ctx, env)
		return failing{t}, err
	}
	page := filepath.Join(t.TempDir(), "report.html")
	code, out, errs := bench(t, quick("-engine", "null", "-mode", "sync-one,actor", "-callers", "1", "-html", page)...)
	if code != 1 || !strings.Contains(errs, "bench: sync-one, commit, 1 callers: no luck") {
		t.Errorf("exit status %d: %s", code, errs)
	}
	if strings.Count(out, "\nactor ") != 3 || !strings.Contains(out, "given up: sync-one") {
		t.Errorf("output:\n%s", out)
	}
	if b, err := os.ReadFile(page); err != nil || !bytes.Contains(b, []byte("given up: sync-one")) {
		t.Errorf("page: %v", err)
	}
}

type failing struct{ target }

func (f failing) steps(o op, callers int) ([]step, error) {
	steps, err := f.target.steps(o, callers)
	n := 0
	steps[0] = func(context.Context) (int, time.Duration, error) {
		if n++; n > 1 {
			return 0, 0, errors.New("no luck")
		}
		return 1, time.Microsecond, nil
	}
	return steps, err
}

func TestUnreachable(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	errs := &cancelling{cancel: cancel, at: "creating"}
	code := run(ctx, quick("-engine", "rqlite", "-url", "http://user:secret@127.0.0.1:1", "-callers", "1"), io.Discard, errs)
	if code == 0 || strings.Contains(errs.String(), "secret") {
		t.Errorf("exit status %d: %s", code, errs.String())
	}
}

func TestSplitURLs(t *testing.T) {
	got := strings.Join(splitURLs("https://u:p@a:1,b:2/, http://c:3"), " ")
	if want := "https://u:p@a:1 https://u:p@b:2 http://c:3"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if got := splitURLs("a:1")[0]; got != "http://a:1" {
		t.Error(got)
	}
}
