package main

import (
	"bytes"
	"database/sql"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/quorate/quorate/client/rqlited"
	"github.com/quorate/quorate/client/rqlitetest"
	"github.com/quorate/quorate/store/postgres/postgrestest"
)

// result is what a run of the program printed.
type result struct {
	code        int
	out, errOut string
}

// fleetRun runs the program as main does.
func fleetRun(stop <-chan struct{}, stdin io.Reader, args ...string) result {
	var out, errOut bytes.Buffer
	code := run(stop, args, stdin, &out, &errOut)
	return result{code, out.String(), errOut.String()}
}

// number is the first number of a row of the report.
func (r result) number(t *testing.T, row string) int {
	t.Helper()
	m := regexp.MustCompile(`(?m)^  ` + row + ` +([0-9,]+)`).FindStringSubmatch(r.out)
	if m == nil {
		t.Fatalf("the report has no %q:\n%s%s", row, r.out, r.errOut)
	}
	n, err := strconv.Atoi(strings.ReplaceAll(m[1], ",", ""))
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// verified fails the test unless the run ended with that status and all checks
// held.
func (r result) verified(t *testing.T, code int) {
	t.Helper()
	if r.code != code || !strings.Contains(r.out, "Verified: all 8 checks hold.") {
		t.Fatalf("status %d, want %d:\n%s%s", r.code, code, r.out, r.errOut)
	}
}

func TestFleet(t *testing.T) {
	input := sampleOf(t, 2, 50)
	events := eventsOf(t, input)
	for _, args := range [][]string{nil, {"-sync", "-workers", "8"}, {"-workers", "1", "-inflight", "1"}, {"-workers", "300"}} {
		t.Run(strings.Join(args, " "), func(t *testing.T) {
			r := fleetRun(nil, strings.NewReader(input), append(args, "-db", memory, "-")...)
			r.verified(t, exitOK)
			shipped := r.number(t, "shipments spawned")
			for row, want := range map[string]int{
				"orders":             50,
				"events read":        len(events),
				"outbox delivered":   3 * shipped, // payment, dispatch, shipped
				"duplicates dropped": len(events) - r.number(t, "commits") + r.number(t, "timers fired") + 4*shipped,
			} {
				if got := r.number(t, row); got != want {
					t.Errorf("%s: %d, want %d\n%s", row, got, want, r.out)
				}
			}
			if strings.Contains(r.errOut, "fleet:") {
				t.Errorf("complaints: %s", r.errOut)
			}
		})
	}
}

// TestRunAgainChangesNothing: the ledger drops all that a second run delivers.
func TestRunAgainChangesNothing(t *testing.T) {
	input := sampleOf(t, 3, 25)
	path := filepath.Join(t.TempDir(), "fleet.db")
	fleetRun(nil, strings.NewReader(input), "-db", path, "-").verified(t, exitOK)
	before := dump(t, path)
	r := fleetRun(nil, strings.NewReader(input), "-db", path, "-")
	r.verified(t, exitOK)
	if n := r.number(t, "commits"); n != 0 {
		t.Errorf("%d commits in the second run", n)
	}
	if got, want := r.number(t, "duplicates dropped"), r.number(t, "events read"); got != want {
		t.Errorf("%d duplicates of %d events", got, want)
	}
	if after := dump(t, path); after != before {
		t.Error("the database has changed")
	}
}

// dump is all that a database holds.
func dump(t *testing.T, path string) string {
	t.Helper()
	q, err := openSQL(path)
	if err != nil {
		t.Fatal(err)
	}
	defer q.close()
	var b strings.Builder
	for _, table := range []string{"executions", "outbox", "processed_events", "timers", "spawns", "trace"} {
		rows, err := q.query(t.Context(), "SELECT * FROM "+table+" ORDER BY 1, 2")
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintln(&b, table, rows)
	}
	return b.String()
}

// pausingReader gives half of an input, closes stop, and gives no more until it
// is released.
type pausingReader struct {
	half    io.Reader
	stop    chan struct{}
	once    sync.Once
	release <-chan struct{}
}

func (p *pausingReader) Read(b []byte) (int, error) {
	n, err := p.half.Read(b)
	if err == io.EOF {
		p.once.Do(func() { close(p.stop) })
		<-p.release
	}
	return n, err
}

// TestInterrupted: a run that is stopped settles what it took, says what is
// left, and the next one goes on from there.
func TestInterrupted(t *testing.T) {
	input := sampleOf(t, 4, 30)
	path := filepath.Join(t.TempDir(), "fleet.db")
	half := &pausingReader{half: strings.NewReader(input[:len(input)/2]), stop: make(chan struct{}), release: t.Context().Done()}
	r := fleetRun(half.stop, half, "-db", path, "-")
	if r.code != exitInterrupted || !strings.Contains(r.out, "Left in the database: ") || !strings.Contains(r.errOut, "fleet: interrupted\n") {
		t.Fatalf("status %d:\n%s%s", r.code, r.out, r.errOut)
	}
	r = fleetRun(nil, strings.NewReader(input), "-db", path, "-")
	r.verified(t, exitOK)
	fleetRun(nil, strings.NewReader(input), "-db", path, "-").verified(t, exitOK)
}

// TestTwoFleets: two programs on one database, each with all of the input. They
// conflict with each other all the time, and every event takes effect once.
func TestTwoFleets(t *testing.T) {
	input := sampleOf(t, 5, 20)
	path := filepath.Join(t.TempDir(), "fleet.db")
	var runs [2]result
	var wg sync.WaitGroup
	for i := range runs {
		wg.Go(func() { runs[i] = fleetRun(nil, strings.NewReader(input), "-db", path, "-") })
	}
	wg.Wait()
	// One may have verified while the other was still at work; together they are
	// done.
	commits := 0
	for _, r := range runs {
		commits += r.number(t, "commits")
	}
	r := fleetRun(nil, strings.NewReader(input), "-db", path, "-")
	r.verified(t, exitOK)
	if r.number(t, "commits") != 0 {
		t.Error("the two left something to do")
	}
	q, err := openSQL(path)
	if err != nil {
		t.Fatal(err)
	}
	defer q.close()
	if versions, err := sumVersions(t.Context(), q); err != nil || versions != int64(commits) {
		t.Errorf("%d commits were acknowledged, %d made (%v)", commits, versions, err)
	}
}

func TestBadLines(t *testing.T) {
	input := "{\n" + sampleOf(t, 6, 5) + strings.Repeat("x", maxLine+1) + "\n" + `{"id":"e0000001","order":"o000001","seq":9,"type":"paid","at":"2026-03-02T09:00:00Z"}`
	n := strings.Count(input, "\n") + 1
	r := fleetRun(nil, strings.NewReader(input), "-db", memory, "-")
	r.verified(t, exitBadLines)
	for _, want := range []string{
		"fleet: line 1 skipped: not JSON", fmt.Sprintf("fleet: line %d skipped: longer than", n-1),
		fmt.Sprintf("fleet: line %d skipped: event e0000001 contradicts", n), "fleet: 3 bad lines of the input were skipped",
	} {
		if !strings.Contains(r.errOut, want) {
			t.Errorf("not said: %s\n%s", want, r.errOut)
		}
	}
	if got := r.number(t, "bad lines skipped"); got != 3 {
		t.Errorf("%d bad lines, want 3", got)
	}

	r = fleetRun(nil, strings.NewReader(strings.Repeat("bad\n", 100)), "-db", memory, "-")
	if r.code != exitBadLines || strings.Count(r.errOut, "fleet: ") != maxComplaints+2 {
		t.Errorf("status %d, %s", r.code, r.errOut)
	}
}

// TestVerificationFindsDamage: each check fails when what it is about is wrong.
func TestVerificationFindsDamage(t *testing.T) {
	input := sampleOf(t, 7, 15)
	model := newOracle()
	for _, ev := range eventsOf(t, input) {
		if err := model.add(ev); err != nil {
			t.Fatal(err)
		}
	}
	dir := t.TempDir()
	good := filepath.Join(dir, "good.db")
	fleetRun(nil, strings.NewReader(input), "-db", good, "-").verified(t, exitOK)
	text, err := os.ReadFile(good)
	if err != nil {
		t.Fatal(err)
	}
	for i, c := range []struct{ damage, finds string }{
		{``, ``},
		{`UPDATE executions SET data=json_set(data,'$.context.items',1000) WHERE id='o000001'`, "every order"},
		{`DELETE FROM executions WHERE id='o000001'`, "every order"},
		{`DELETE FROM processed_events WHERE execution_id='o000002' AND event_id LIKE 'e%'`, "every event"},
		{`INSERT INTO processed_events VALUES('o000002','e99')`, "every event"},
		{`DELETE FROM executions WHERE definition_id='fleet.shipment'`, "every paid order"},
		{`UPDATE executions SET data=json_set(data,'$.context.total_cents',json_extract(data,'$.context.total_cents')+1) WHERE definition_id='fleet.account'`, "the accounts"},
		{`UPDATE executions SET version=version+1 WHERE id='o000003'`, "versions"},
		{`DELETE FROM trace WHERE execution_id='o000003' AND idx=0`, "versions"},
		{`UPDATE executions SET version=version-1`, "no acknowledged"},
		{`INSERT INTO outbox(event) VALUES('{}')`, "outbox"},
		{`INSERT INTO timers VALUES('o000003','payment',1)`, "outbox"},
		{`INSERT INTO processed_events VALUES('nobody','e1')`, "nothing leaked"},
	} {
		path := filepath.Join(dir, fmt.Sprintf("%d.db", i))
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		db, err := sql.Open("sqlite3", "file:"+path)
		if err != nil {
			t.Fatal(err)
		}
		var versions int64
		if err := db.QueryRow("SELECT sum(version) FROM executions").Scan(&versions); err != nil {
			t.Fatal(err)
		}
		if _, err := db.Exec(c.damage); err != nil {
			t.Fatalf("%s: %v", c.damage, err)
		}
		v := verifier{db: sqlQuerier{db}, model: model, commits: versions}
		checks, err := v.verify(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		var failed []string
		for _, k := range checks {
			if k.err != "" {
				failed = append(failed, k.what)
			}
		}
		found := strings.Join(failed, "; ")
		if c.finds == "" && found != "" || !strings.Contains(found, c.finds) {
			t.Errorf("%q: the checks that failed are %q, want %q", c.damage, found, c.finds)
		}
		var out bytes.Buffer
		if ok := newConsole(&out, io.Discard).verdict(checks); ok != (c.finds == "") || ok == strings.Contains(out.String(), "FAILED") {
			t.Errorf("%q: the verdict is %v:\n%s", c.damage, ok, out.String())
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestCluster runs the fleet on a test cluster of rqlite, while answers get lost
// and the leader goes.
func TestCluster(t *testing.T) {
	cluster := rqlitetest.Start(t)
	lost := cluster.Inject(rqlitetest.Match{Kind: rqlitetest.KindExecute, Skip: 3, Times: 3, If: func(r *rqlitetest.Request) bool {
		return bytes.Contains(r.Body, []byte("INTO executions(")) // commits
	}}, rqlitetest.ResetApplied())
	input := sampleOf(t, 8, 20)
	r := fleetRun(nil, strings.NewReader(input), "-url", strings.Join(cluster.URLs(), ","), "-workers", "16", "-")
	r.verified(t, exitOK)
	if lost.Hits() != 3 || !strings.Contains(r.out, "lost answers recovered") {
		t.Errorf("%d of 3 answers were lost:\n%s", lost.Hits(), r.out)
	}
}

// TestPostgres runs the fleet on PostgreSQL, twice: the second time changes
// nothing.
func TestPostgres(t *testing.T) {
	url := postgrestest.Schema(t)
	input := sampleOf(t, 8, 20)
	for range 2 {
		r := fleetRun(nil, strings.NewReader(input), "-postgres", url, "-workers", "16", "-")
		r.verified(t, exitOK)
	}
}

// TestForeignOutbox: what others put into the outbox is neither delivered to
// nobody nor thrown away.
func TestForeignOutbox(t *testing.T) {
	path := filepath.Join(t.TempDir(), "fleet.db")
	input := sampleOf(t, 9, 3)
	fleetRun(nil, strings.NewReader(input), "-db", path, "-").verified(t, exitOK)
	db, err := sql.Open("sqlite3", "file:"+path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := db.Exec(`INSERT INTO outbox(target_id,event) VALUES('somebody','{"id":"x","kind":"strange","data":{}}')`); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	r := fleetRun(nil, strings.NewReader(input), "-db", path, "-")
	if r.code != exitFailed || !strings.Contains(r.errOut, `kind "strange", which the fleet does not know`) || !strings.Contains(r.out, "1 in the outbox") {
		t.Errorf("status %d:\n%s%s", r.code, r.out, r.errOut)
	}
}

// TestOneClearLine: what cannot work says so in one line.
func TestOneClearLine(t *testing.T) {
	dir := t.TempDir()
	garbage := filepath.Join(dir, "garbage.db")
	if err := os.WriteFile(garbage, bytes.Repeat([]byte("no database "), 100), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args string
		code int
		want string
	}{
		{dir + "/missing.jsonl", exitFailed, "no such file"},
		{dir, exitFailed, "is a folder"},
		{"-db " + dir + "/none/fleet.db", exitFailed, "folder"},
		{"-db " + garbage, exitFailed, "not a database"},
		{"-url localhost:4001", exitUsage, "-url wants"},
		{"-url http://a -db b", exitUsage, "exclude"},
		{"-workers 0", exitUsage, "-workers 0"},
		{"-inflight -1", exitUsage, "-inflight -1"},
		{"-generate -1", exitUsage, "-generate -1"},
		{"a b", exitUsage, "2 arguments"},
	} {
		r := fleetRun(nil, strings.NewReader(""), strings.Fields(c.args)...)
		if r.code != c.code || !strings.Contains(r.errOut, c.want) || strings.Count(r.errOut, "\n") != 1 || r.out != "" {
			t.Errorf("%s: status %d, want %d\n%s%s", c.args, r.code, c.code, r.out, r.errOut)
		}
	}
	if r := fleetRun(nil, nil, "-h"); r.code != exitOK || !strings.Contains(r.errOut, "-workers") {
		t.Errorf("-h: status %d, %s", r.code, r.errOut)
	}
	if r := fleetRun(nil, nil, "-generate", "2"); r.code != exitOK || r.out != sampleOf(t, 1, 2) {
		t.Errorf("-generate: status %d, %s", r.code, r.out)
	}
}

func TestStoppedBeforeItBegan(t *testing.T) {
	stop := make(chan struct{})
	close(stop)
	r := fleetRun(stop, strings.NewReader(sampleOf(t, 1, 3)), "-db", memory, "-")
	if r.code != exitInterrupted || !strings.Contains(r.errOut, "interrupted") {
		t.Errorf("status %d:\n%s%s", r.code, r.out, r.errOut)
	}
}

func TestProgress(t *testing.T) {
	f := newFleet(syncBackend{}, 1, 1, newOracle(), newConsole(io.Discard, io.Discard))
	f.count.bytes.Store(500)
	f.count.events.Store(1000)
	f.count.settled.Store(1000)
	for width := range 200 {
		s := f.bar(1000, 1e9, width)
		if len(s) >= max(width, 1) {
			t.Fatalf("%d columns of %d: %s", len(s), width, s)
		}
	}
	if s := f.bar(1000, 1e9, 120); !strings.HasPrefix(s, "[====================                    ]  50%  1,000 events") {
		t.Error(s)
	}
	if s := f.status(0, 1e9); s != "1,000 events, 0 commits, 0 delivered, 1,000/s" {
		t.Error(s)
	}
	for n, want := range map[int64]string{0: "0", 999: "999", 1000: "1,000", -1234567: "-1,234,567", -100: "-100"} {
		if got := group(n); got != want {
			t.Errorf("group(%d) = %s", n, got)
		}
	}
}

// TestConsole: on a terminal, complaints go above the progress line.
func TestConsole(t *testing.T) {
	var b bytes.Buffer
	c := newConsole(&b, &b)
	c.draw("[=] 1")
	c.complain("oh")
	c.done()
	if got, want := b.String(), "\r\x1b[K[=] 1\r\x1b[Kfleet: oh\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestRealCluster runs the fleet on three nodes of rqlite and kills the leader.
func TestRealCluster(t *testing.T) {
	binary := rqlited.Require(t)
	cluster, err := rqlited.Start(t.Context(), rqlited.Options{Binary: binary})
	if err != nil {
		t.Fatal(err)
	}
	defer cluster.Close()
	leader, err := cluster.Leader(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	input := sampleOf(t, 10, 300)
	half := strings.NewReader(input[:len(input)/2])
	var once sync.Once
	kill := readerFunc(func([]byte) (int, error) {
		once.Do(func() { err = cluster.Kill(leader) })
		return 0, io.EOF
	})
	r := fleetRun(nil, io.MultiReader(half, kill, strings.NewReader(input[len(input)/2:])),
		"-url", strings.Join(cluster.URLs(), ","), "-workers", "256", "-")
	if err != nil {
		t.Fatal(err)
	}
	r.verified(t, exitOK)
	r = fleetRun(nil, strings.NewReader(input), "-url", strings.Join(cluster.URLs(), ","), "-")
	r.verified(t, exitOK)
	if n := r.number(t, "commits"); n != 0 {
		t.Errorf("%d commits in the second run", n)
	}
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(b []byte) (int, error) { return f(b) }
