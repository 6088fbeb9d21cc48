package rqlitetest

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math"
	"sort"
	"strconv"
	"unicode/utf8"
)

// envelope is a whole answer of the /db endpoints.
type envelope struct {
	results  []result
	err      string
	seconds  float64
	sequence int64
	index    uint64
}

// encoding holds the parameters that change the shape of an answer.
type encoding struct {
	associative bool
	blobArray   bool
	pretty      bool
}

// errUnencodable is an answer JSON has no form for: an infinite real.
type errUnencodable struct{ value string }

func (e errUnencodable) Error() string {
	return "json: error calling MarshalJSON for type *http.DBResults: json: unsupported value: " + e.value
}

// encode renders the answer with the server's key order and its rule that zero,
// empty and false are left out.
func (e *envelope) encode(how encoding) ([]byte, error) {
	out := make([]byte, 0, 64+48*len(e.results))
	out = append(out, `{"results":[`...)
	for i := range e.results {
		if i > 0 {
			out = append(out, ',')
		}
		var err error
		if how.associative {
			out, err = e.results[i].appendAssociative(out, how)
		} else {
			out, err = e.results[i].appendArray(out, how)
		}
		if err != nil {
			return nil, err
		}
	}
	out = append(out, ']')
	if e.err != "" {
		out = append(out, `,"error":`...)
		out = appendString(out, e.err)
	}
	if e.seconds != 0 {
		out = append(out, `,"time":`...)
		out = appendReal(out, e.seconds)
	}
	if e.sequence != 0 {
		out = append(out, `,"sequence_number":`...)
		out = strconv.AppendInt(out, e.sequence, 10)
	}
	if e.index != 0 {
		out = append(out, `,"raft_index":`...)
		out = strconv.AppendUint(out, e.index, 10)
	}
	out = append(out, '}')
	if how.pretty {
		out = indent(out)
	}
	return out, nil
}

func indent(in []byte) []byte {
	var b bytes.Buffer
	if err := json.Indent(&b, in, "", "    "); err != nil {
		panic(fmt.Sprintf("rqlitetest: own JSON is malformed: %v", err))
	}
	return b.Bytes()
}

// members appends the members of a JSON object, with commas between them.
type members struct {
	out   []byte
	first bool
}

func (m *members) key(k string) {
	if m.first {
		m.first = false
	} else {
		m.out = append(m.out, ',')
	}
	m.out = append(m.out, '"')
	m.out = append(m.out, k...)
	m.out = append(m.out, '"', ':')
}

func (r *result) appendArray(out []byte, how encoding) ([]byte, error) {
	m := members{out: append(out, '{'), first: true}
	switch r.shape {
	case shapeCounters:
		r.counters(&m)
	case shapeRows:
		if len(r.columns) > 0 {
			m.key("columns")
			m.out = appendStrings(m.out, r.columns)
			m.key("types")
			m.out = appendStrings(m.out, r.types)
		}
		if n := r.rows(); n > 0 {
			m.key("values")
			m.out = append(m.out, '[')
			width := len(r.columns)
			for i := range n {
				if i > 0 {
					m.out = append(m.out, ',')
				}
				m.out = append(m.out, '[')
				for j := range width {
					if j > 0 {
						m.out = append(m.out, ',')
					}
					var err error
					if m.out, err = r.values[i*width+j].append(m.out, how.blobArray); err != nil {
						return nil, err
					}
				}
				m.out = append(m.out, ']')
			}
			m.out = append(m.out, ']')
		}
	}
	r.tail(&m)
	return append(m.out, '}'), nil
}

func (r *result) appendAssociative(out []byte, how encoding) ([]byte, error) {
	m := members{out: append(out, '{'), first: true}
	switch {
	case r.shape == shapeCounters:
		r.counters(&m)
		r.tail(&m)
		m.key("rows")
		m.out = append(m.out, "null"...)
		return append(m.out, '}'), nil
	case r.shape == shapeError && !r.queryErr:
		r.tail(&m)
		return append(m.out, '}'), nil
	}
	// Of columns with one name the last counts; names come sorted.
	last := make(map[string]int, len(r.columns))
	names := make([]string, 0, len(r.columns))
	for i, c := range r.columns {
		if _, dup := last[c]; !dup {
			names = append(names, c)
		}
		last[c] = i
	}
	sort.Strings(names)
	if len(names) > 0 {
		m.key("types")
		m.out = append(m.out, '{')
		for i, c := range names {
			if i > 0 {
				m.out = append(m.out, ',')
			}
			m.out = appendString(m.out, c)
			m.out = append(m.out, ':')
			m.out = appendString(m.out, r.types[last[c]])
		}
		m.out = append(m.out, '}')
	}
	m.key("rows")
	m.out = append(m.out, '[')
	width := len(r.columns)
	for i := range r.rows() {
		if i > 0 {
			m.out = append(m.out, ',')
		}
		m.out = append(m.out, '{')
		for j, c := range names {
			if j > 0 {
				m.out = append(m.out, ',')
			}
			m.out = appendString(m.out, c)
			m.out = append(m.out, ':')
			var err error
			if m.out, err = r.values[i*width+last[c]].append(m.out, how.blobArray); err != nil {
				return nil, err
			}
		}
		m.out = append(m.out, '}')
	}
	m.out = append(m.out, ']')
	r.tail(&m)
	return append(m.out, '}'), nil
}

func (r *result) counters(m *members) {
	if r.lastID != 0 {
		m.key("last_insert_id")
		m.out = strconv.AppendInt(m.out, r.lastID, 10)
	}
	if r.affected != 0 {
		m.key("rows_affected")
		m.out = strconv.AppendInt(m.out, r.affected, 10)
	}
}

func (r *result) tail(m *members) {
	if r.err != "" {
		m.key("error")
		m.out = appendString(m.out, r.err)
	}
	if r.seconds != 0 {
		m.key("time")
		m.out = appendReal(m.out, r.seconds)
	}
}

func (v value) append(out []byte, blobArray bool) ([]byte, error) {
	switch v.kind {
	case kindInt:
		return strconv.AppendInt(out, v.i, 10), nil
	case kindBool:
		return strconv.AppendBool(out, v.i != 0), nil
	case kindReal:
		if math.IsInf(v.f, 0) || math.IsNaN(v.f) {
			return nil, errUnencodable{strconv.FormatFloat(v.f, 'g', -1, 64)}
		}
		return appendReal(out, v.f), nil
	case kindText:
		return appendString(out, v.s), nil
	case kindBlob:
		if blobArray {
			out = append(out, '[')
			for i := range len(v.s) {
				if i > 0 {
					out = append(out, ',')
				}
				out = strconv.AppendUint(out, uint64(v.s[i]), 10)
			}
			return append(out, ']'), nil
		}
		out = append(out, '"')
		out = base64.StdEncoding.AppendEncode(out, []byte(v.s))
		return append(out, '"'), nil
	}
	return append(out, "null"...), nil
}

// appendReal prints a float64 as ECMAScript does, so whole numbers have no point
// and read back as integers.
func appendReal(out []byte, f float64) []byte {
	format := byte('f')
	if abs := math.Abs(f); abs != 0 && (abs < 1e-6 || abs >= 1e21) {
		format = 'e'
	}
	out = strconv.AppendFloat(out, f, format, -1, 64)
	if n := len(out); format == 'e' && n >= 4 && out[n-4] == 'e' && out[n-3] == '-' && out[n-2] == '0' {
		out[n-2] = out[n-1] // e-09 is written e-9
		out = out[:n-1]
	}
	return out
}

func appendStrings(out []byte, list []string) []byte {
	out = append(out, '[')
	for i, s := range list {
		if i > 0 {
			out = append(out, ',')
		}
		out = appendString(out, s)
	}
	return append(out, ']')
}

const hexDigits = "0123456789abcdef"

// appendString quotes s, escaping what HTML and JavaScript would trip over too.
func appendString(out []byte, s string) []byte {
	out = append(out, '"')
	start := 0
	for i := 0; i < len(s); {
		c := s[i]
		if c < utf8.RuneSelf {
			if c >= ' ' && c != '"' && c != '\\' && c != '<' && c != '>' && c != '&' {
				i++
				continue
			}
			out = append(out, s[start:i]...)
			switch c {
			case '"', '\\':
				out = append(out, '\\', c)
			case '\b':
				out = append(out, '\\', 'b')
			case '\f':
				out = append(out, '\\', 'f')
			case '\n':
				out = append(out, '\\', 'n')
			case '\r':
				out = append(out, '\\', 'r')
			case '\t':
				out = append(out, '\\', 't')
			default:
				out = append(out, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
			}
			i++
			start = i
			continue
		}
		r, size := utf8.DecodeRuneInString(s[i:])
		if r == utf8.RuneError && size == 1 {
			out = append(out, s[start:i]...)
			out = append(out, `\ufffd`...)
			i += size
			start = i
			continue
		}
		if r == '\u2028' || r == '\u2029' {
			out = append(out, s[start:i]...)
			out = append(out, `\u202`...)
			out = append(out, hexDigits[r&15])
			i += size
			start = i
			continue
		}
		i += size
	}
	out = append(out, s[start:]...)
	return append(out, '"')
}

func itoa(i int) string { return strconv.Itoa(i) }
