package client

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/quorate/quorate/store/engine"
)

// benchRows is how many rows the benchmarks' requests and answers have; each has
// an id, a document of half a kilobyte, a version and a time.
const benchRows = 256

var benchDocument = func() string {
	var b strings.Builder
	b.WriteString(`{"id":"0123456789abcdef0123456789abcdef","status":"RUNNING","context":{`)
	for i := 0; b.Len() < 500; i++ {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `"key%d":"value <%d>"`, i, i)
	}
	b.WriteString(`}}`)
	return b.String()
}()

func benchStatements() []engine.Statement {
	sql := `INSERT INTO executions (id, data, version, at) VALUES ` + strings.Repeat(`(?,?,?,?),`, benchRows-1) + `(?,?,?,?)`
	args := make([]engine.Value, 0, 4*benchRows)
	for i := range benchRows {
		args = append(args, engine.Text(fmt.Sprintf("%032x", i)), engine.Text(benchDocument), engine.Int(int64(i)+1<<53), engine.Float(1.7e9+float64(i)/8))
	}
	return []engine.Statement{{SQL: sql, Args: args}}
}

func BenchmarkEncode(b *testing.B) {
	stmts := benchStatements()
	buf, err := appendStatements(nil, stmts)
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(len(buf)))
	b.ReportAllocs()
	for b.Loop() {
		if buf, err = appendStatements(buf[:0], stmts); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkEncodeGorqlite does what gorqlite does with a list of statements.
func BenchmarkEncodeGorqlite(b *testing.B) {
	stmts := benchStatements()
	args := make([]any, 0, len(stmts[0].Args))
	for _, v := range stmts[0].Args {
		switch v.Kind() {
		case engine.KindInt:
			n, _ := v.Int()
			args = append(args, n)
		case engine.KindFloat:
			f, _ := v.Float()
			args = append(args, f)
		default:
			s, _ := v.Text()
			args = append(args, s)
		}
	}
	first, err := appendStatements(nil, stmts)
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(len(first))) // the same content, for comparable rates
	b.ReportAllocs()
	for b.Loop() {
		list := make([][]any, 0, 1)
		one := make([]any, 0, len(args)+1)
		list = append(list, append(append(one, stmts[0].SQL), args...))
		if _, err := json.Marshal(list); err != nil {
			b.Fatal(err)
		}
	}
}

func benchAnswer(b *testing.B) []byte {
	b.Helper()
	rows := make([][]any, benchRows)
	for i := range rows {
		rows[i] = []any{fmt.Sprintf("%032x", i), benchDocument, int64(i) + 1<<53, 1.7e9 + float64(i)/8}
	}
	answer, err := json.Marshal(map[string]any{"results": []any{map[string]any{
		"columns": []string{"id", "data", "version", "at"},
		"types":   []string{"text", "text", "integer", "real"},
		"values":  rows,
	}}})
	if err != nil {
		b.Fatal(err)
	}
	return answer
}

func BenchmarkDecode(b *testing.B) {
	answer := benchAnswer(b)
	b.SetBytes(int64(len(answer)))
	b.ReportAllocs()
	for b.Loop() {
		d, err := decodeAnswer(answer, 1)
		if err != nil || d.results[0].Len() != benchRows {
			b.Fatal(err)
		}
	}
}

// BenchmarkDecodeGorqlite does what gorqlite does with an answer.
func BenchmarkDecodeGorqlite(b *testing.B) {
	answer := benchAnswer(b)
	b.SetBytes(int64(len(answer)))
	b.ReportAllocs()
	for b.Loop() {
		var d struct {
			Results []struct {
				Columns      []string `json:"columns,omitempty"`
				Types        []string `json:"types,omitempty"`
				Values       [][]any  `json:"values,omitempty"`
				LastInsertID *int64   `json:"last_insert_id,omitempty"`
				RowsAffected *int64   `json:"rows_affected,omitempty"`
				Time         float64  `json:"time,omitempty"`
				Error        string   `json:"error,omitempty"`
			} `json:"results"`
			Error string `json:"error,omitempty"`
		}
		if err := json.Unmarshal(answer, &d); err != nil || len(d.Results[0].Values) != benchRows {
			b.Fatal(err)
		}
	}
}

// The encoder allocates nothing once its buffer is large enough.
func TestEncodingDoesNotAllocate(t *testing.T) {
	stmts := benchStatements()
	buf, err := appendStatements(nil, stmts)
	if err != nil {
		t.Fatal(err)
	}
	if n := testing.AllocsPerRun(10, func() { buf, err = appendStatements(buf[:0], stmts) }); n != 0 || err != nil {
		t.Errorf("%v allocations, %v", n, err)
	}
}
