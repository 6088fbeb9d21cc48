package client

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/quorate/quorate/store/engine"
)

func TestStatementsAreEncoded(t *testing.T) {
	got, err := appendStatements(nil, []engine.Statement{
		{SQL: "SELECT 1"},
		{SQL: `INSERT INTO t VALUES (?,?,?,?,?,?)`, Args: []engine.Value{
			engine.Null(), engine.Int(math.MinInt64), engine.Float(1), engine.Float(-0.5), engine.Text("<a>&'\"\\\n\x01\u2028😀"), engine.Blob("\x00A\xff"),
		}},
	})
	want := `[["SELECT 1"],["INSERT INTO t VALUES (?,?,?,?,?,?)",null,-9223372036854775808,1.0,-0.5,"<a>&'\"\\\n\u0001` + "\u2028" + `😀",[0,65,255]]]`
	if err != nil || string(got) != want {
		t.Errorf("got  %s, %v\nwant %s", got, err, want)
	}
}

// A whole real without a fraction would be bound as an integer.
func TestRealsLookLikeReals(t *testing.T) {
	for _, f := range []float64{0, math.Copysign(0, -1), 1, -1, 1e15, 1 << 53, 1e20, 1e21, 1e300, 5e-324, math.MaxFloat64, 0.1, 1.0 / 3} {
		s := string(appendReal(nil, f))
		if !strings.ContainsAny(s, ".e") || !json.Valid([]byte(s)) {
			t.Errorf("%v: %s", f, s)
		}
		if v, problem := realValue([]byte(s)); problem != "" || v != engine.Float(f) {
			t.Errorf("%v: %s reads back as %v", f, s, v)
		}
	}
}

func TestUnbindableStatementsAreRefused(t *testing.T) {
	for name, s := range map[string]engine.Statement{
		"empty SQL":        {SQL: ""},
		"SQL not UTF-8":    {SQL: "SELECT '\xff'"},
		"infinite real":    {SQL: "SELECT ?", Args: []engine.Value{engine.Float(math.Inf(1))}},
		"no number":        {SQL: "SELECT ?", Args: []engine.Value{engine.Float(math.NaN())}},
		"text not UTF-8":   {SQL: "SELECT ?", Args: []engine.Value{engine.Text("a\xff")}},
		"blob literal":     {SQL: "SELECT ?", Args: []engine.Value{engine.Text("x'4142'")}},
		"with white space": {SQL: "SELECT ?", Args: []engine.Value{engine.Text("\u00a0 X'' \u2003")}},
	} {
		if _, err := appendStatements(nil, []engine.Statement{s}); !errors.Is(err, ErrUnbindable) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, s := range []string{"", "x", "x'", "x'414", "x'414'", "xx'41'", "x'4g'", "x''x", "ax'41'", "'x'", "ünï", "x\"41\""} {
		if looksLikeBlob(s) {
			t.Errorf("%q is taken for a blob", s)
		}
	}
}

func FuzzEncode(f *testing.F) {
	f.Add("SELECT ?", "x'41", int64(1), 1.5)
	f.Add("\x00", "<>&\u2028\"\\", int64(math.MinInt64), math.Copysign(0, -1))
	f.Fuzz(func(t *testing.T, sql, text string, n int64, r float64) {
		body, err := appendStatements(nil, []engine.Statement{{SQL: sql, Args: []engine.Value{engine.Text(text), engine.Int(n), engine.Float(r), engine.Blob(text)}}})
		if err != nil {
			return
		}
		dec := json.NewDecoder(bytes.NewReader(body))
		dec.UseNumber()
		var got [][]any
		if err := dec.Decode(&got); err != nil {
			t.Fatalf("%s: %v", body, err)
		}
		row := got[0]
		if row[0] != sql || row[1] != text {
			t.Fatalf("texts %q %q became %q %q", sql, text, row[0], row[1])
		}
		if m, err := row[2].(json.Number).Int64(); err != nil || m != n {
			t.Fatalf("integer %d became %v", n, row[2])
		}
		if v, problem := realValue([]byte(row[3].(json.Number))); problem != "" || v != engine.Float(r) {
			t.Fatalf("real %v became %v", r, row[3])
		}
		if len(row[4].([]any)) != len(text) {
			t.Fatalf("blob of %d bytes became %v", len(text), row[4])
		}
	})
}
