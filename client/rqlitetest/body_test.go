package rqlitetest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"
)

// reference decodes a body with encoding/json the way the server's rules are
// stated, as an independent check of the hand-written decoder.
func reference(body []byte) ([]statement, error) {
	d := json.NewDecoder(bytes.NewReader(body))
	d.UseNumber()
	tok, err := d.Token()
	if err != nil {
		return nil, errInvalidJSON
	}
	if tok != json.Delim('[') {
		return nil, errInvalidRequest
	}
	var stmts []statement
	for d.More() {
		tok, err := d.Token()
		if err != nil {
			return nil, errInvalidJSON
		}
		if s, ok := tok.(string); ok {
			stmts = append(stmts, statement{sql: s})
			continue
		}
		if tok != json.Delim('[') {
			return nil, errInvalidRequest
		}
		var items []any
		for d.More() {
			var item any
			if d.Decode(&item) != nil {
				return nil, errInvalidJSON
			}
			items = append(items, item)
		}
		if _, err := d.Token(); err != nil {
			return nil, errInvalidJSON
		}
		if len(items) == 0 {
			return nil, errInvalidRequest
		}
		sql, ok := items[0].(string)
		if !ok {
			return nil, errInvalidRequest
		}
		s := statement{sql: sql}
		for _, item := range items[1:] {
			if m, ok := item.(map[string]any); ok {
				for name, v := range m {
					p, err := referenceValue(v)
					if err != nil {
						return nil, err
					}
					s.params = append(s.params, parameter{name, p})
				}
				continue
			}
			p, err := referenceValue(item)
			if err != nil {
				return nil, err
			}
			s.params = append(s.params, parameter{"", p})
		}
		stmts = append(stmts, s)
	}
	if _, err := d.Token(); err != nil {
		return nil, errInvalidJSON
	}
	if len(stmts) == 0 {
		return nil, errNoStatements
	}
	return stmts, nil
}

func referenceValue(v any) (value, error) {
	switch v := v.(type) {
	case nil:
		return value{}, nil
	case bool:
		return nativeValue(v)
	case json.Number:
		if i, err := v.Int64(); err == nil {
			return value{kind: kindInt, i: i}, nil
		}
		f, err := v.Float64()
		if err != nil {
			return value{}, fmt.Errorf("invalid number %s", v)
		}
		return value{kind: kindReal, f: f}, nil
	case string:
		if b, ok := blobLiteral(v); ok {
			return value{kind: kindBlob, s: b}, nil
		}
		return value{kind: kindText, s: v}, nil
	case []any:
		b := make([]byte, len(v))
		for i, e := range v {
			n, ok := e.(json.Number)
			if !ok {
				return value{}, fmt.Errorf("unsupported type %T", e)
			}
			i64, err := n.Int64()
			if err != nil || i64 < 0 || i64 > 255 {
				return value{}, fmt.Errorf("unsupported type %s", n)
			}
			b[i] = byte(i64)
		}
		return value{kind: kindBlob, s: string(b)}, nil
	}
	return value{}, fmt.Errorf("unsupported type %T", v)
}

func FuzzParseStatements(f *testing.F) {
	for _, s := range []string{
		``, `[]`, `["a"]`, `[["a",1,-2.5e3,true,false,null,"x'41'",[1,2],"\ud83d\ude00\ud800\n"]]`, `[["a",{"k":1}]]`, `[["a",{"k":{}}]]`, `["a"]junk`, `["a",]`,
		`[1]`, `{}`, `"s"`, `nope`, `[["a"}`, `["a"}`, `[[1]]`, `[["a",1e999]]`, `[["a",[256]]]`, `[["a",[]]]`, `["` + "\xff" + `"]`, `[["a"],"b",["c",null]]`, " \n[\t\"a\"\r] ", `["a" "b"]`,
		`[[`, `[["a",`, `["\u00`, `["a\`, `[-]`, `[["a",01]]`, `[["a",1.]]`, `[["a",1e]]`, `[tru`, `[["a",[[[[]]]]]]`, "[\"\x01\"]",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		got, err := parseStatements(body)
		want, wantErr := reference(body)
		if bytes.Count(body, []byte{':'}) > 1 {
			// The reference takes the names of an object in random order.
			if (err == nil) != (wantErr == nil) {
				t.Fatalf("%q: error %v, want %v", body, err, wantErr)
			}
			return
		}
		if fmt.Sprint(err) != fmt.Sprint(wantErr) {
			t.Fatalf("%q: error %v, want %v", body, err, wantErr)
		}
		if !reflect.DeepEqual(got, want) {
			t.Fatalf("%q: got %+v, want %+v", body, got, want)
		}
	})
}

func TestParseStatementsDepth(t *testing.T) {
	deep := `[["a",` + strings.Repeat("[", maxDepth+1)
	if _, err := parseStatements([]byte(deep)); !errors.Is(err, errInvalidJSON) {
		t.Errorf("nesting too deep: error %v, want %v", err, errInvalidJSON)
	}
}

func FuzzAppendString(f *testing.F) {
	for _, s := range []string{"", "a", "<>&\u2028\u2029\"\\\b\f\n\r\t\x00\x7f", "\xff\xfe", "é世\U0001F600"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		want, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		if got := appendString(nil, s); string(got) != string(want) {
			t.Errorf("%q: got %s, want %s", s, got, want)
		}
	})
}

func FuzzAppendReal(f *testing.F) {
	for _, v := range []float64{0, 1, -1.5, 1e20, 1e21, 1e-6, 1e-7, 1e300, 1e-300, math.MaxFloat64, math.SmallestNonzeroFloat64, math.Copysign(0, -1)} {
		f.Add(v)
	}
	f.Fuzz(func(t *testing.T, v float64) {
		want, err := json.Marshal(v)
		if err != nil {
			if _, err := (value{kind: kindReal, f: v}).append(nil, false); err == nil {
				t.Errorf("%v has no JSON form, but was encoded", v)
			}
			return
		}
		if got := appendReal(nil, v); string(got) != string(want) {
			t.Errorf("%v: got %s, want %s", v, got, want)
		}
	})
}

func FuzzReturnsRows(f *testing.F) {
	for _, s := range []string{"INSERT INTO t VALUES(1) RETURNING id", "returning ", "'returning ", "/* returning ", "-- returning \n", "[a] returning x", "((((returning "} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if returnsRows(s) && !strings.Contains(strings.ToLower(s), "returning ") {
			t.Errorf("%q is said to return rows", s)
		}
	})
}

func TestReturnsRows(t *testing.T) {
	for sql, want := range map[string]bool{
		"INSERT INTO t VALUES(1) RETURNING id":                          true,
		"insert into t values(1) returning id":                          true,
		"INSERT INTO t VALUES(1) RETURNING\nid":                         false,
		"INSERT INTO t VALUES('returning x')":                           false,
		"INSERT INTO t VALUES(1) -- returning x":                        false,
		"UPDATE t SET a=1 WHERE b IS NOT DISTINCT FROM 1 RETURNING a ":  false,
		"INSERT INTO t([k]) VALUES(1) RETURNING k, v":                   false,
		"INSERT INTO t VALUES(1) RETURNING \"a\", 'it''s'":              true,
		"INSERT INTO t VALUES(1); INSERT INTO t VALUES(2) RETURNING id": false,
	} {
		if got := returnsRows(sql); got != want {
			t.Errorf("returnsRows(%q) = %v, want %v", sql, got, want)
		}
	}
}
