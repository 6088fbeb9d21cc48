package client

import (
	"encoding/json"
	"math"
	"strconv"
	"strings"
	"testing"

	"github.com/quorate/quorate/store/engine"
)

// CL-04.
func TestMissingCountsAreZero(t *testing.T) {
	for body, want := range map[string][2]int64{
		`{"results":[{}]}`:                                     {0, 0},
		`{"results":[{"last_insert_id":41}]}`:                  {0, 41},
		`{"results":[{"rows_affected":0}]}`:                    {0, 0},
		`{"results":[{"rows_affected":1,"last_insert_id":2}]}`: {1, 2},
		`{"results":[{"rows_affected":null}]}`:                 {0, 0},
	} {
		d, err := decodeAnswer([]byte(body), 1)
		if err != nil {
			t.Errorf("%s: %v", body, err)
			continue
		}
		if got := [2]int64{d.results[0].RowsAffected, d.results[0].LastInsertID}; got != want {
			t.Errorf("%s: %v, want %v", body, got, want)
		}
	}
	d, err := decodeAnswer([]byte(`{"results":[{},{"rows_affected":1}]}`), 2)
	if err != nil || d.results[0].RowsAffected != 0 || d.results[1].RowsAffected != 1 {
		t.Errorf("a count went to another statement: %+v, %v", d.results, err)
	}
}

// CL-06.
func TestNumbersAreExact(t *testing.T) {
	const outOfRange = "out of range"
	for _, c := range []struct {
		typ, token string
		want       engine.Value
		problem    string
	}{
		{"integer", "1.7e12", engine.Int(1700000000000), ""},
		{"integer", "2.00000231e+08", engine.Int(200000231), ""},
		{"integer", "9.007199254740993e15", engine.Int(9007199254740993), ""},
		{"integer", "3.0", engine.Int(3), ""},
		{"integer", "-3.000e0", engine.Int(-3), ""},
		{"integer", "0.0", engine.Int(0), ""},
		{"integer", "9223372036854775807", engine.Int(math.MaxInt64), ""},
		{"integer", "-9223372036854775808", engine.Int(math.MinInt64), ""},
		{"integer", "9.223372036854775807e18", engine.Int(math.MaxInt64), ""},
		{"integer", "9223372036854775808", engine.Null(), outOfRange},
		{"integer", "-9223372036854775809", engine.Null(), outOfRange},
		{"integer", "1e19", engine.Null(), outOfRange},
		{"integer", "9.223372036854775808e18", engine.Null(), outOfRange},
		{"integer", "1e999999999", engine.Null(), outOfRange},
		{"integer", `"3"`, engine.Text("3"), ""},
		{"integer", "null", engine.Null(), ""},
		{"integer", "3.5", engine.Float(3.5), ""},
		{"integer", "1e-3", engine.Float(0.001), ""},
		{"bigint", "12", engine.Int(12), ""},
		{"boolean", "true", engine.Int(1), ""},
		{"boolean", "false", engine.Int(0), ""},
		{"real", "1", engine.Float(1), ""},
		{"real", "-0", engine.Float(math.Copysign(0, -1)), ""},
		{"double", "100000000000000000000", engine.Float(1e20), ""},
		{"real", "1e+21", engine.Float(1e21), ""},
		{"real", "1e999", engine.Null(), outOfRange},
		{"", "7", engine.Int(7), ""},
		{"", "7.25", engine.Float(7.25), ""},
		{"", "100000000000000000000", engine.Float(1e20), ""},
		{"blob", `"AP8="`, engine.Blob("\x00\xff"), ""},
		{"blob", `"not base64"`, engine.Text("not base64"), ""},
		{"text", `"AP8="`, engine.Text("AP8="), ""},
		{"varchar(10)", `"x"`, engine.Text("x"), ""},
	} {
		body := `{"results":[{"columns":["id","v"],"types":["text",` + strconv.Quote(c.typ) + `],"values":[["a",` + c.token + `]]}]}`
		d, err := decodeAnswer([]byte(body), 1)
		if err != nil {
			t.Errorf("%s %s: %v", c.typ, c.token, err)
			continue
		}
		got := d.results[0].Row(0)[1]
		if got != c.want {
			t.Errorf("%s %s: %v %v, want %v %v", c.typ, c.token, got.Kind(), got, c.want.Kind(), c.want)
		}
		switch {
		case c.problem == "" && d.value != nil:
			t.Errorf("%s %s: %v", c.typ, c.token, d.value)
		case c.problem != "" && (d.value == nil || d.value.Column != "v" || !strings.Contains(d.value.Problem, c.problem)):
			t.Errorf("%s %s: problem %v, want %q in column v", c.typ, c.token, d.value, c.problem)
		}
	}
}

// CL-06: columns are found by name, wherever they are, and a missing one is told.
func TestColumnsAreFoundByName(t *testing.T) {
	for _, body := range []string{
		`{"results":[{"columns":["v","id"],"types":["integer","text"],"values":[[3,"a"]]}]}`,
		`{"results":[{"types":["text","integer"],"columns":["id","v"],"values":[["a",3]]}]}`,
		`{"results":[{"values":[["a",3]],"types":["text","integer"],"columns":["id","v"],"time":0.1}]}`,
		`{"time":1e-3, "results" : [ { "columns":["id","v"], "extra":{"a":[1,{"b":null}]}, "types":["text","integer"], "values":[ ["a", 3] ] } ] } ` + "\n",
	} {
		d, err := decodeAnswer([]byte(body), 1)
		if err != nil {
			t.Errorf("%s: %v", body, err)
			continue
		}
		r := &d.results[0]
		i := r.Column("v")
		if i < 0 || r.Len() != 1 || r.Row(0)[i] != engine.Int(3) {
			t.Errorf("%s: %+v", body, r)
		}
		if r.Column("version") != -1 {
			t.Errorf("%s: found a column that is not there", body)
		}
	}
}

func TestMissingRowsAreNoRows(t *testing.T) {
	d, err := decodeAnswer([]byte(`{"results":[{"columns":["id"],"types":["integer"]},{"columns":["id"],"types":["integer"],"values":[]}]}`), 2)
	if err != nil {
		t.Fatal(err)
	}
	for i := range d.results {
		if d.results[i].Len() != 0 || d.results[i].Columns == nil {
			t.Errorf("result %d: %+v", i, d.results[i])
		}
	}
}

func TestMalformedAnswersAreRefused(t *testing.T) {
	for _, body := range []string{
		``, ` `, `null`, `[]`, `"x"`, `<html></html>`, `{`, `{}`, `{"results":[]`, `{"results":[]}x`, `{"results":[]}{}`,
		`{"results":{}}`, `{"results":[1]}`, `{"results":[],"results":[]}`, `{"results":[{"rows_affected":"1"}]}`,
		`{"results":[{"rows_affected":1.5}]}`, `{"results":[{"rows_affected":9223372036854775808}]}`,
		`{"results":[{"columns":["a"],"types":["text"],"values":[["x","y"]]}]}`,
		`{"results":[{"columns":["a","b"],"types":["text","text"],"values":[["x"]]}]}`,
		`{"results":[{"columns":["a","b"],"types":["text"],"values":[["x","y"]]}]}`,
		`{"results":[{"columns":["a"],"types":["text"],"values":[["x"]],"values":[["y"]]}]}`,
		`{"results":[{"columns":["a"],"types":["text"],"values":["x"]}]}`,
		`{"results":[{"columns":["a"],"types":["text"],"values":[[01]]}]}`,
		`{"results":[{"columns":["a"],"types":["text"],"values":[[1.]]}]}`,
		`{"results":[{"columns":["a"],"types":["text"],"values":[[+1]]}]}`,
		`{"results":[{"columns":["a"],"types":["text"],"values":[[NaN]]}]}`,
		`{"results":[{"columns":["a"],"types":["text"],"values":[[nul]]}]}`,
		"{\"results\":[{\"columns\":[\"a\nb\"]}]}", `{"results":[{"columns":["\x"]}]}`, `{"results":[{"columns":["\u12"]}]}`,
		`{"results":[{"x":` + strings.Repeat("[", 100_000) + `]}]}`,
	} {
		if _, err := decodeAnswer([]byte(body), 1); err == nil {
			t.Errorf("%.80s: accepted", body)
		}
	}
}

func TestErrorsInAnswersAreFound(t *testing.T) {
	d, err := decodeAnswer([]byte(`{"results":[],"error":"leadership \u003cl\u003e"}`), 1)
	if err != nil || !d.hasTop || d.top != "leadership <l>" {
		t.Errorf("%+v, %v", d, err)
	}
	if s, ok := topLevelError([]byte(`{"results":[{"error":"inner"}],"error":"outer"}`)); !ok || s != "outer" {
		t.Errorf("topLevelError: %q, %v", s, ok)
	}
	d, err = decodeAnswer([]byte(`{"results":[{"rows_affected":1},{"error":"UNIQUE constraint failed: t.id"}]}`), 3)
	if err != nil || d.failed != 1 || d.message != "UNIQUE constraint failed: t.id" || d.hasTop {
		t.Errorf("%+v, %v", d, err)
	}
}

func TestStringsAreUnescaped(t *testing.T) {
	for quoted, want := range map[string]string{
		`"\u003c\u0026\"\\\/\b\f\n\r\t"`: "<&\"\\/\b\f\n\r\t",
		`"\ud83d\ude00"`:                 "😀",
		`"\ud83d"`:                       "\ufffd",
		`"\ud83dx"`:                      "\ufffdx",
		`"\ud83d\u0041"`:                 "\ufffdA",
		`"a\u0000b"`:                     "a\x00b",
		`"é漢字😀"`:                         "é漢字😀",
	} {
		p := parser{data: []byte(quoted)}
		if got, err := p.string(); err != nil || got != want {
			t.Errorf("%s: %q, %v, want %q", quoted, got, err, want)
		}
	}
}

func FuzzDecode(f *testing.F) {
	for _, s := range []string{
		`{"results":[{"last_insert_id":1,"rows_affected":1}]}`,
		`{"results":[{"columns":["id","n"],"types":["text","integer"],"values":[["a\u003c\ud83d\ude00",9223372036854775807],[null,1.7e12]]}]}`,
		`{"results":[{"columns":["b","r"],"types":["blob","real"],"values":[["AP8=",1],["x",-0]]}],"time":0.01}`,
		`{"results":[{"values":[["a",3]],"columns":["id","v"],"types":["text","integer"]}]}`,
		`{"results":[{"error":"no such table: t"}]}`,
		`{"results":[],"error":"leadership lost while committing log"}`,
		`{"results":[{"columns":["a"],"types":["integer"],"values":[[9223372036854775808]]}]}`,
		`{"results":[{"rows_affected":1}]}x`,
		`<html><body>502</body></html>`,
		``,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		before := string(data)
		d, err := decodeAnswer(data, 4)
		if string(data) != before {
			t.Fatal("the answer was changed")
		}
		if err != nil {
			return
		}
		if !json.Valid(data) {
			t.Fatalf("accepted what is no JSON: %q", data)
		}
		size := 0
		for i := range d.results {
			r := &d.results[i]
			if len(r.Columns) > 0 && len(r.Values)%len(r.Columns) != 0 {
				t.Fatalf("result %d: %d values in %d columns", i, len(r.Values), len(r.Columns))
			}
			size += len(r.Values)
		}
		if size > len(data) {
			t.Fatalf("%d values from %d bytes", size, len(data))
		}
		if d.failed >= len(d.results) {
			t.Fatalf("failed statement %d of %d", d.failed, len(d.results))
		}
		// Top-level errors are found alike by the short way.
		if s, ok := topLevelError(data); ok != d.hasTop || s != d.top {
			t.Fatalf("topLevelError %q, %v; decoded %q, %v", s, ok, d.top, d.hasTop)
		}
	})
}

// FuzzNumber compares the exact reading of numbers with big arithmetic.
func FuzzNumber(f *testing.F) {
	for _, s := range []string{"0", "-0", "1.7e12", "3.0", "9223372036854775807", "9223372036854775808", "1e-5", "123456789e-3", "1e400", "-1.50e1"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		p := parser{data: []byte(s)}
		tok, whole, err := p.number()
		if err != nil || p.pos != len(s) || len(s) > 60 {
			return
		}
		if strings.TrimSpace(s) != string(tok) {
			return
		}
		want, ok := exactByBig(string(tok))
		v, problem := numberValue(tok, whole, classInt)
		switch {
		case problem != "":
			if ok && want.IsInt64() {
				t.Fatalf("%s: %s", s, problem)
			}
		case v.Kind() == engine.KindInt:
			n, _ := v.Int()
			if !ok || !want.IsInt64() || want.Int64() != n {
				t.Fatalf("%s: read as %d", s, n)
			}
		default:
			if ok {
				t.Fatalf("%s: an integer, read as %v", s, v)
			}
		}
	})
}
