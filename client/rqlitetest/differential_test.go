package rqlitetest

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// The differential test sends the same requests to this package and to the real
// server and wants the same answers. It needs an rqlited program. What the real
// server answered is recorded, so that TestWire can compare without one.

const enableDifferential = "set RQLITED to the path of an rqlited program, or have one on PATH, to compare with the real server; -update records its answers anew"

func findServer(t *testing.T) string {
	if p := os.Getenv("RQLITED"); p != "" {
		return p
	}
	p, err := exec.LookPath("rqlited")
	if err != nil {
		t.Skip(enableDifferential)
	}
	return p
}

// freeAddr returns a loopback address that was free a moment ago.
func freeAddr(t *testing.T) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// startServers runs a real cluster of two nodes and returns their URLs, the
// leader's first.
func startServers(t *testing.T, program string) []string {
	var urls []string
	var join string
	for i := range 2 {
		httpAddr, raftAddr := freeAddr(t), freeAddr(t)
		args := []string{"-node-id", fmt.Sprintf("node%d", i+1), "-http-addr", httpAddr, "-raft-addr", raftAddr}
		if join != "" {
			args = append(args, "-join", join)
		} else {
			join = raftAddr
		}
		dir := filepath.Join(t.TempDir(), "data")
		cmd := exec.Command(program, append(args, dir)...)
		if err := cmd.Start(); err != nil {
			t.Fatalf("starting %s: %v", program, err)
		}
		t.Cleanup(func() {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		})
		url := "http://" + httpAddr
		waitReady(t, url)
		urls = append(urls, url)
	}
	return urls
}

func waitReady(t *testing.T, url string) {
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		resp, err := http.Get(url + "/readyz?sync")
		if err == nil {
			resp.Body.Close()
			if resp.StatusCode == 200 {
				return
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("%s is not ready: %v", url, err)
		}
	}
}

// call is one request of the differential test.
type call struct {
	node        int // 0 is the leader, 1 a follower
	method      string
	path        string
	contentType string
	body        string
}

func (c call) String() string {
	return fmt.Sprintf("node %d: %s %s %s %s", c.node, c.method, c.path, c.contentType, c.body)
}

// answerOf makes the call and renders what is compared of the answer.
func answerOf(t *testing.T, cl *http.Client, urls []string, c call) string {
	req, err := http.NewRequest(c.method, urls[c.node]+c.path, strings.NewReader(c.body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", c.contentType)
	resp, err := cl.Do(req)
	if err != nil {
		t.Fatalf("%v: %v", c, err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatalf("%v: %v", c, err)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%d %s\n", resp.StatusCode, strings.ToValidUTF8(string(body), "?"))
	for _, h := range []string{
		"Content-Type", "X-Content-Type-Options", "Location", "Www-Authenticate", "Access-Control-Allow-Methods",
		"Access-Control-Allow-Headers", "Access-Control-Allow-Credentials",
	} {
		if v := resp.Header.Get(h); v != "" {
			fmt.Fprintf(&b, "%s: %s\n", h, v)
		}
	}
	fmt.Fprintf(&b, "length known: %v\n", resp.ContentLength >= 0)
	served := resp.Header.Get("X-Rqlite-Served-By")
	for i, u := range urls {
		if served == strings.TrimPrefix(u, "http://") {
			served = fmt.Sprintf("<api %d>", i)
		}
	}
	if served != "" && served[0] != '<' {
		served = "<raft>"
	}
	fmt.Fprintf(&b, "served by: %s\n", served)
	out := b.String()
	for i, u := range urls {
		out = strings.ReplaceAll(out, u, fmt.Sprintf("<url %d>", i))
	}
	for re, by := range volatile {
		out = re.ReplaceAllString(out, by)
	}
	return out
}

// volatile is what no two servers answer alike.
var volatile = map[*regexp.Regexp]string{
	regexp.MustCompile(`"raft_index":\d+`):                 `"raft_index":N`,
	regexp.MustCompile(`"sequence_number":\d+`):            `"sequence_number":N`,
	regexp.MustCompile(`"time": ?[0-9.e-]+`):               `"time":N`,
	regexp.MustCompile(`"time_s": ?"[^"]*"`):               `"time_s":"N"`,
	regexp.MustCompile(`"version": ?"[^"]*"`):              `"version":"V"`,
	regexp.MustCompile(`"addr": ?"127\.0\.0\.1:\d+"`):      `"addr":"A"`,
	regexp.MustCompile(`invalid character [^"\n]*`):        `invalid character`,
	regexp.MustCompile(`the JSON value was not[^"\n]*`):    ``,
	regexp.MustCompile(`index \d+: timeout waiting for f`): `index N: timeout waiting for f`,
}

// golden holds what the real server answered to the script when it was recorded.
const golden = "testdata/wire.json"

var update = flag.Bool("update", false, "record "+golden+" anew from the real server")

// recorded is a call of the script and its answer.
type recorded struct {
	Call   string
	Answer []string // by lines
}

// TestWire compares the double with the recorded answers of the real server.
func TestWire(t *testing.T) {
	raw, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	var want []recorded
	if err := json.Unmarshal(raw, &want); err != nil {
		t.Fatal(err)
	}
	script := differentialCalls()
	if len(want) != len(script) {
		t.Fatalf("%d answers are recorded, the script has %d calls; record them anew with -update", len(want), len(script))
	}
	c := Start(t, Nodes(2))
	cl := client(t, c)
	for i, k := range script {
		if k.String() != want[i].Call {
			t.Fatalf("call %d is %s, recorded was %s; record anew with -update", i, k, want[i].Call)
		}
		if got, want := answerOf(t, cl, c.URLs(), k), strings.Join(want[i].Answer, "\n"); got != want {
			t.Errorf("%v%s", k, difference(got, want))
		}
	}
}

// TestDifferential compares the double with a real server.
func TestDifferential(t *testing.T) {
	program := findServer(t)
	real := startServers(t, program)
	c := Start(t, Nodes(2))
	cl := client(t, c)
	var record []recorded
	for _, k := range differentialCalls() {
		want := answerOf(t, cl, real, k)
		got := answerOf(t, cl, c.URLs(), k)
		if got != want {
			t.Errorf("%v%s", k, difference(got, want))
		}
		record = append(record, recorded{k.String(), strings.Split(want, "\n")})
	}
	if !*update {
		return
	}
	raw, err := json.MarshalIndent(record, "", " ")
	if err == nil {
		err = os.WriteFile(golden, append(raw, '\n'), 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// difference shows the lines that differ.
func difference(got, want string) string {
	var b strings.Builder
	g, w := strings.Split(got, "\n"), strings.Split(want, "\n")
	for i := range max(len(g), len(w)) {
		a, z := "", ""
		if i < len(g) {
			a = g[i]
		}
		if i < len(w) {
			z = w[i]
		}
		if a != z {
			fmt.Fprintf(&b, "\n got: %s\nwant: %s", a, z)
		}
	}
	return b.String()
}

// differentialCalls is a script: later calls see what earlier ones did.
func differentialCalls() []call {
	const js = "application/json"
	var calls []call
	ex := func(path string, bodies ...string) {
		for _, b := range bodies {
			calls = append(calls, call{0, "POST", path, js, b})
		}
	}
	on := func(node int, method, path, contentType, body string) {
		calls = append(calls, call{node, method, path, contentType, body})
	}
	// Empty texts and fresh counters.
	ex("/db/execute", `[""]`, `[" "]`, `[";"]`, `["-- c"]`, `["", " "]`)
	ex("/db/query", `[""]`, `[" "]`, `[";"]`, `["-- c"]`, `["","SELECT 1"]`)
	ex("/db/request", `[""]`, `[" "]`, `["","SELECT 1"]`)
	ex("/db/execute",
		`["CREATE TABLE t(id INTEGER PRIMARY KEY, v TEXT)"]`,
		`["CREATE TABLE a(k TEXT PRIMARY KEY, n INTEGER NOT NULL CHECK(n>=0))"]`,
		`["INSERT INTO t(v) VALUES('one')"]`,
		`["CREATE TABLE IF NOT EXISTS t2(x)"]`,
		`["SELECT * FROM t"]`,
		`["UPDATE t SET v='x' WHERE id=99"]`,
		`["INSERT OR IGNORE INTO t(id,v) VALUES(1,'dup')"]`,
		`["DELETE FROM t WHERE id=99", "PRAGMA user_version", "INSERT INTO t(v) VALUES('two')"]`,
		`["INSERT INTO t2 VALUES(1); INSERT INTO t2 VALUES(2); INSERT INTO nope VALUES(1); INSERT INTO t2 VALUES(3)"]`,
		`["INSERT INTO t2 VALUES(1); -- c"]`, `["INSERT INTO t2 VALUES(1);  "]`, `["INSERT INTO t2 VALUES(1);;"]`,
		`["SYNTAX ERROR"]`, `["INSERT INTO nope VALUES(1)"]`, `["INSERT INTO a VALUES('x',-1)"]`, `["INSERT INTO a VALUES('x',NULL)"]`,
		`["INSERT INTO a VALUES('x',1)","INSERT INTO a VALUES('x',2)","INSERT INTO a VALUES('y',2)"]`,
	)
	ex("/db/query", `["SELECT * FROM t2","SELECT count(*) FROM t"]`, `["INSERT INTO t2 VALUES(9)","SELECT 1"]`, `["SELECT 1; SELECT 2"]`,
		`["INSERT INTO t2 VALUES(9); SELECT 3"]`, `["SELECT nope"]`, `["SELECT * FROM t WHERE 0"]`, `["SELECT 1 AS a, 2 AS a"]`,
		`["PRAGMA journal_mode=DELETE"]`, `["  pragma main.synchronous = 0"]`, `["PRAGMA wal_checkpoint(TRUNCATE)"]`, `["/* c */ PRAGMA query_only=0"]`,
		`["SELECT sqrt(4)"]`, `["SELECT \"text\""]`)
	// Values in.
	ex("/db/execute", `["CREATE TABLE v(i, x)"]`)
	for i, p := range []string{
		`1`, `-1`, `9223372036854775807`, `-0`, `1.0`, `1e3`, `9223372036854775808`, `18446744073709551615`, `true`, `false`, `null`, `"s"`, `""`,
		`"x'4142'"`, `"X'4142'"`, `" x'4142' "`, `"x''"`, `"x'abc'"`, `"x'zz'"`, `"\u00a0x'41'\u3000"`, `[1,2,255]`, `[]`, `"\ud800"`, `"\ud83d\ude00"`, `"A\u0000B"`,
		`"<a href='x'>&\u2028\u2029é</a>"`, `"\b\f\n\r\t\u0001\u007f\"\\/"`, `1e20`, `1e21`, `1e-7`, `1.5e-7`, `-1.25`, `1E2`, `0.1`, `123456789.125`,
	} {
		ex("/db/execute", fmt.Sprintf(`[["INSERT INTO v VALUES(%d,?)",%s]]`, i, p))
		ex("/db/query", fmt.Sprintf(`[["SELECT ?, typeof(?), hex(?)",%s,%s,%s]]`, p, p, p))
	}
	ex("/db/query", `["SELECT *, typeof(x) FROM v"]`)
	ex("/db/query?pretty&associative", `["SELECT *, typeof(x) FROM v","SELECT nope","SELECT 1 AS b,2 AS a,3 AS a","SELECT 1 AS b WHERE 0"]`)
	ex("/db/query?blob_array", `["SELECT *, typeof(x) FROM v"]`)
	ex("/db/query", `[["SELECT :v, @v, $v",{"v":7}]]`, `[["SELECT :v",7]]`, `[["SELECT :v",{":v":7}]]`, `[["SELECT :v",{"w":7}]]`, `[["SELECT :v",{"w":7},8]]`,
		`[["SELECT ?",1,2,3]]`, `[["SELECT ?, ?",1]]`, `[["SELECT ?"]]`, `[["SELECT ?",{}]]`, `[["SELECT ?2, ?1",1,2]]`, `[["SELECT 1",5]]`,
		`[["SELECT ?; SELECT ?",1,2]]`, `[["SELECT ?, :a",1,{"a":2}]]`, `[["SELECT :a, ?",{"a":2},1]]`, `[["SELECT :a, :b",{"a":1,"b":2}]]`)
	ex("/db/execute", `[["INSERT INTO t2 VALUES(?)"]]`, `[["INSERT INTO t2 VALUES(?)",{}]]`, `[["INSERT INTO t2 SELECT ? UNION SELECT ?",1]]`, `[["INSERT INTO t2 VALUES(:v)",{"w":1}]]`,
		`[["INSERT INTO t2 VALUES(:v)",{"v":"n"}]]`, `[["INSERT INTO t2 VALUES(?); INSERT INTO t2 VALUES(?)",11,12]]`, `[["INSERT INTO t2 VALUES(?); INSERT INTO t2 VALUES(?)",11]]`,
		`[["INSERT INTO t2 VALUES(?)",1,2]]`, `[["INSERT INTO t2 VALUES(:v)",{"1v":"n"}]]`)
	ex("/db/query", `["SELECT x, typeof(x) FROM t2"]`)
	// Bodies.
	ex("/db/execute", ``, `nope`, `["SELECT 1"`, `[["SELECT 1"]`, `{}`, `"SELECT 1"`, `[1]`, `[[1]]`, `[[]]`, `[{}]`, `[null]`, `["SELECT 1",null]`, `[]`,
		`[["SELECT ?",{"a":{}}]]`, `[["SELECT ?",[1,256]]]`, `[["SELECT ?",[-1]]]`, `[["SELECT ?",[1.5]]]`, `[["SELECT ?",[1,"a"]]]`, `[["SELECT ?",1e999]]`,
		`[["SELECT ?",[null]]]`, `[["SELECT ?",[[]]]]`, `[["SELECT ?",[true]]]`, `["SELECT 1"]junk`, `["SELECT 1" "SELECT 2"]`, `["SELECT 1",]`, `[,"SELECT 1"]`, `["a"}`, `  [ "SELECT 1" ] `, `[["SELECT 1",]]`, `tru`, `123`, `[1x`)
	on(0, "POST", "/db/execute", "text/plain", "INSERT INTO t(v) VALUES('plain')")
	on(0, "POST", "/db/query", "text/plain; charset=utf-8", "SELECT 1")
	on(0, "POST", "/db/request", "text/plain", "SELECT 1")
	on(0, "POST", "/db/query", "application/x-www-form-urlencoded", `["SELECT 1"]`)
	// Methods, paths, parameters.
	for _, m := range []string{"GET", "PUT", "HEAD", "OPTIONS", "DELETE"} {
		for _, p := range []string{"/db/execute", "/db/query", "/db/request", "/readyz", "/leader", "/nope", "/status?key=store.nope"} {
			on(0, m, p, js, "")
		}
	}
	ex("/db/executeXYZ", `["SELECT 1"]`)
	ex("/db/execute/", `["SELECT 1"]`)
	ex("//db/execute", `["SELECT 1"]`)
	for _, q := range []string{"timeout=5", "retries=a", "freshness_strict", "q=", "x=%zz", "a;b=1", "freshness=x", "db_timeout=1", "linearizable_timeout=z", "level=bogus", "level=NONE", "level=none&level=strong", "timings=false", "raft_index", "level=strong&raft_index", "level=linearizable", "level=linearizable&raft_index", "level=auto", "transaction", "freshness=1s&level=none", "freshness=1s&freshness_strict&level=none", "pretty", "qualify_columns"} {
		ex("/db/query?"+q, `["SELECT 1","SELECT * FROM t"]`)
		ex("/db/request?"+q, `["SELECT 1","UPDATE t SET v=v WHERE id=1"]`)
		calls = append(calls, call{1, "POST", "/db/query?" + q, js, `["SELECT 1"]`})
	}
	on(0, "GET", "/db/query?q=SELECT%201", js, "")
	on(0, "GET", "/db/query?q=SELECT+nope&timings", js, "")
	// RETURNING.
	ex("/db/execute", `["DELETE FROM t"]`)
	for _, s := range []string{
		"INSERT INTO t(v) VALUES('r') RETURNING id", "INSERT INTO t(v) VALUES('r') returning id, v", `INSERT INTO t(v) VALUES('r') RETURNING\nid`,
		"INSERT INTO t(v) VALUES('r') RETURNING*", `INSERT INTO t(v) VALUES('r') RETURNING\tid`, "INSERT INTO t(v) VALUES('returning x')",
		"UPDATE t SET v='returning x' WHERE id=1", "UPDATE t SET v='z' WHERE id=99 RETURNING id", "DELETE FROM t WHERE id=1 RETURNING id, v",
		"UPDATE t SET v='q' WHERE v IS NOT DISTINCT FROM 'r' RETURNING id", "UPDATE t SET v='q' WHERE id<1_000 RETURNING id",
		"INSERT INTO t(id,v) VALUES(5,'c') ON CONFLICT(id) DO UPDATE SET v='u' WHERE t.v<>'u' RETURNING id, v",
		"INSERT INTO t(id,v) VALUES(5,'c') ON CONFLICT(id) DO UPDATE SET v='u' RETURNING id, v",
		"INSERT INTO t(id,v) VALUES(5,'c') ON CONFLICT(id) DO NOTHING ON CONFLICT DO NOTHING RETURNING id, v",
		"INSERT INTO t([v]) VALUES('b') RETURNING id", "INSERT INTO t(`v`) VALUES('b') RETURNING id", "INSERT INTO t WITH c AS (SELECT 77, 'w') SELECT * FROM c RETURNING id",
		"WITH c AS (SELECT 78 AS id) UPDATE t SET v='cte' WHERE id IN (SELECT id FROM c) RETURNING id", "/* returning x */ INSERT INTO t(v) VALUES('c')",
		"INSERT INTO t(v) VALUES('m') RETURNING id; INSERT INTO t(v) VALUES('n')", "INSERT INTO t(v) VALUES('b') RETURNING id -- returning ",
		"UPDATE t SET v='p' WHERE (id,v) IN (VALUES (5,'u')) RETURNING id", "DELETE FROM t WHERE id IN (SELECT id FROM t WHERE v='nope') RETURNING id",
		"INSERT INTO t(v) VALUES('x') RETURNING id, id+1, v||'!' AS w, x'41'", "INSERT INTO a VALUES('x',1) RETURNING k", "REPLACE INTO a VALUES('x',7) RETURNING n", "INSERT INTO t(v) SELECT value FROM json_each('[1,2]') RETURNING id, v",
	} {
		ex("/db/execute", `["`+s+`"]`, `["SELECT changes()"]`)
		ex("/db/request?transaction", `["`+s+`"]`)
		ex("/db/request?associative", `["`+s+`","INSERT INTO t2 VALUES(1)","SELECT nope","INSERT INTO nope VALUES(1)"]`)
	}
	// Transactions.
	for _, ep := range []string{"/db/execute?transaction", "/db/request?transaction", "/db/execute", "/db/request"} {
		ex(ep,
			`["INSERT INTO a VALUES('t1',1)","INSERT INTO a VALUES('x',1)","INSERT INTO a VALUES('t2',1)"]`,
			`["INSERT INTO a VALUES('h1',40)","INSERT INTO nope VALUES(1)","INSERT INTO a VALUES('h2',41)"]`,
			`["SELECT count(*) FROM a","SELECT nope","SELECT abs(-9223372036854775808)","SELECT 2"]`,
			`["INSERT OR ROLLBACK INTO a VALUES('x',1)","INSERT INTO a VALUES('h3',41)"]`,
			`["SAVEPOINT s","INSERT INTO a VALUES('sp',1)","RELEASE s"]`,
			`["INSERT INTO a VALUES('rb',1)","ROLLBACK","INSERT INTO a VALUES('rc',1)"]`,
			`[["INSERT INTO a VALUES(?,?)","few"],"SELECT 1"]`,
			`["CREATE TABLE ddl(x)","INSERT INTO ddl VALUES(1)","SELECT * FROM ddl","ALTER TABLE ddl ADD COLUMN y","SELECT * FROM ddl","DROP TABLE ddl","SELECT * FROM ddl"]`,
		)
		// A read-only list that is nothing but transaction control runs on one of
		// the real server's pool of connections, and is not repeatable there.
		if ep != "/db/request" {
			ex(ep, `["BEGIN"]`, `["INSERT INTO a VALUES('open',1)"]`, `["ROLLBACK"]`, `["COMMIT"]`)
		}
		ex("/db/query", `["SELECT * FROM a ORDER BY k"]`)
		ex("/db/execute", `["DELETE FROM a WHERE k<>'x'"]`)
	}
	ex("/db/query?transaction", `["SELECT 1","SELECT nope","SELECT 2"]`)
	// Types out.
	ex("/db/execute", `["CREATE TABLE ty(b BOOLEAN, d DATE, dt DATETIME, ts TIMESTAMP, r REAL, n NUMERIC(10,2), vc VARCHAR(10), bl BLOB, tx TEXT, j JSON, s STRING)"]`,
		`["INSERT INTO ty VALUES(2,'2024-01-02','2024-01-02 03:04:05',1700000000,1.0,2.5,x'41',x'4142',x'4142',x'4142',x'4142')"]`,
		`["INSERT INTO ty VALUES(-1,1700000000000,'nope','2024-01-02T03:04:05.5Z',1e300,1,'t','text in blob','t','{}','s')"]`,
		`["INSERT INTO ty VALUES(NULL,NULL,'2024-01-02 03:04:05+02:00',-5,NULL,NULL,NULL,NULL,NULL,NULL,NULL)"]`)
	ex("/db/query", `["SELECT * FROM ty"]`, `["SELECT coalesce(b,1), r+1, bl||x'', tx, CAST(bl AS BLOB) FROM ty"]`, `["SELECT x'00ff'"]`, `["SELECT 1 AS x UNION ALL SELECT x'4142'"]`,
		`["SELECT NULL AS x UNION ALL SELECT 1"]`, `["SELECT 9e999"]`, `["SELECT 1","SELECT -9e999"]`)
	ex("/db/execute", `["INSERT INTO ty(r) VALUES(9e999) RETURNING r"]`, `["DELETE FROM ty WHERE r=9e999"]`)
	ex("/db/query?qualify_columns", `["SELECT t.id, a.k, 1 FROM t, a LIMIT 1"]`)
	ex("/db/query", `["EXPLAIN QUERY PLAN SELECT * FROM t"]`, `["PRAGMA foreign_keys"]`, `["PRAGMA table_info(a)"]`)
	// Followers.
	for _, q := range []string{"", "?redirect", "?redirect&level=weak&x=%2F", "?level=none", "?level=linearizable&raft_index", "?level=strong&raft_index"} {
		for _, ep := range []string{"/db/execute", "/db/query", "/db/request"} {
			on(1, "POST", ep+q, js, `["SELECT count(*) FROM t2"]`)
		}
	}
	on(1, "GET", "/db/query?redirect&q=SELECT%201", js, "")
	on(1, "POST", "/db/request?raft_index&level=linearizable", js, `["SELECT 1"]`)
	on(1, "POST", "/db/execute", js, `["INSERT INTO nope VALUES(1)","INSERT INTO t2 VALUES(1)"]`)
	on(1, "POST", "/db/execute", js, `nope`)
	for n := range 2 {
		on(n, "GET", "/nodes?ver=2", "", "")
		on(n, "GET", "/nodes", "", "")
		on(n, "GET", "/nodes?ver=2&pretty", "", "")
		on(n, "GET", "/leader", "", "")
		on(n, "GET", "/readyz", "", "")
		on(n, "GET", "/readyz?sync", "", "")
		on(n, "GET", "/readyz?noleader", "", "")
		on(n, "GET", "/status?key=store.leader", "", "")
		on(n, "GET", "/status?key=store.raft.state", "", "")
		on(n, "GET", "/status?key=nope.x", "", "")
		on(n, "POST", "/db/execute?queue&wait", js, `["INSERT INTO t2 VALUES(100)"]`)
		on(n, "POST", "/db/execute?queue&wait", js, `nope`)
		on(n, "POST", "/db/execute?queue", js, `[]`)
	}
	on(0, "GET", "/", "", "")
	return calls
}
