package rqlitetest

import (
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// Request bodies: a JSON array whose elements are a SQL string, or an array of a
// SQL string and its parameters. The server decodes it as a stream, so the first
// fault found in reading order decides the answer and whatever follows the
// closing bracket is not looked at.

var (
	errNoStatements   = errors.New("no statements")
	errInvalidJSON    = errors.New("invalid JSON body")
	errInvalidRequest = errors.New("invalid request")
)

// maxDepth is the nesting at which a JSON value is refused.
const maxDepth = 10000

// parseStatements decodes a request body.
func parseStatements(body []byte) ([]statement, error) {
	d := decoder{in: body}
	d.space()
	if d.end() {
		return nil, errInvalidJSON
	}
	if c := d.in[d.at]; c != '[' {
		if c == '{' {
			return nil, errInvalidRequest
		}
		if _, err := d.item(1); err != nil {
			return nil, errInvalidJSON
		}
		return nil, errInvalidRequest
	}
	d.at++
	var stmts []statement
	for first := true; ; first = false {
		d.space()
		if d.end() {
			return nil, errInvalidJSON
		}
		if d.in[d.at] == ']' {
			break
		}
		if !first && !d.take(',') {
			return nil, errInvalidJSON
		}
		d.space()
		if d.end() {
			return nil, errInvalidJSON
		}
		switch d.in[d.at] {
		case '"':
			s, ok := d.text()
			if !ok {
				return nil, errInvalidJSON
			}
			stmts = append(stmts, statement{sql: s})
		case '[':
			d.at++
			s, err := d.parameterized()
			if err != nil {
				return nil, err
			}
			stmts = append(stmts, s)
		case '{':
			return nil, errInvalidRequest
		default:
			if _, err := d.item(1); err != nil {
				return nil, errInvalidJSON
			}
			return nil, errInvalidRequest
		}
	}
	if len(stmts) == 0 {
		return nil, errNoStatements
	}
	return stmts, nil
}

// parameterized decodes the rest of `[sql, p1, …]`.
func (d *decoder) parameterized() (statement, error) {
	var (
		stmt   statement
		sqlOK  bool
		bad    error // the first parameter that has no value, if any
		params []parameter
	)
	n := 0
	for ; ; n++ {
		d.space()
		if d.end() {
			return stmt, errInvalidJSON
		}
		if d.in[d.at] == ']' {
			d.at++
			break
		}
		if n > 0 {
			if !d.take(',') {
				return stmt, errInvalidJSON
			}
			d.space()
		}
		if n == 0 && !d.end() && d.in[d.at] == '"' {
			s, ok := d.text()
			if !ok {
				return stmt, errInvalidJSON
			}
			stmt.sql, sqlOK = s, true
			continue
		}
		it, err := d.item(1)
		if err != nil {
			return stmt, errInvalidJSON
		}
		if n == 0 || bad != nil {
			continue
		}
		if it.kind == jsonObject {
			for _, m := range it.members {
				v, err := m.item.value()
				if err != nil {
					bad = err
					break
				}
				params = append(params, parameter{name: m.name, val: v})
			}
			continue
		}
		v, err := it.value()
		if err != nil {
			bad = err
			continue
		}
		params = append(params, parameter{val: v})
	}
	if !sqlOK {
		return stmt, errInvalidRequest
	}
	stmt.params = params
	return stmt, bad
}

type jsonKind uint8

const (
	jsonNull jsonKind = iota
	jsonBool
	jsonNumber
	jsonString
	jsonArray
	jsonObject
)

// jsonItem is a decoded JSON value.
type jsonItem struct {
	kind    jsonKind
	truth   bool
	text    string // number literal or string
	items   []jsonItem
	members []jsonMember
}

type jsonMember struct {
	name string
	item jsonItem
}

// goType names a value as the server's messages do, which print Go types.
func (it jsonItem) goType() string {
	switch it.kind {
	case jsonNull:
		return "<nil>"
	case jsonBool:
		return "bool"
	case jsonNumber:
		return "json.Number"
	case jsonString:
		return "string"
	case jsonArray:
		return "[]interface {}"
	}
	return "map[string]interface {}"
}

// value is what a JSON value is bound as. Whole numbers that fit are integers,
// all others reals; a string that reads like a blob literal is a blob; an array
// of bytes is a blob.
func (it jsonItem) value() (value, error) {
	switch it.kind {
	case jsonBool:
		if it.truth {
			return value{kind: kindInt, i: 1}, nil
		}
		return value{kind: kindInt}, nil
	case jsonNumber:
		if i, err := strconv.ParseInt(it.text, 10, 64); err == nil {
			return value{kind: kindInt, i: i}, nil
		}
		f, err := strconv.ParseFloat(it.text, 64)
		if err != nil || math.IsInf(f, 0) {
			return value{}, fmt.Errorf("invalid number %s", it.text)
		}
		return value{kind: kindReal, f: f}, nil
	case jsonString:
		if b, ok := blobLiteral(it.text); ok {
			return value{kind: kindBlob, s: b}, nil
		}
		return value{kind: kindText, s: it.text}, nil
	case jsonArray:
		b := make([]byte, len(it.items))
		for i, e := range it.items {
			if e.kind != jsonNumber {
				return value{}, fmt.Errorf("unsupported type %s", e.goType())
			}
			n, err := strconv.ParseInt(e.text, 10, 64)
			if err != nil || n < 0 || n > 255 {
				return value{}, fmt.Errorf("unsupported type %s", e.text)
			}
			b[i] = byte(n)
		}
		return value{kind: kindBlob, s: string(b)}, nil
	case jsonObject:
		return value{}, fmt.Errorf("unsupported type %s", it.goType())
	}
	return value{}, nil
}

// blobLiteral decodes text of the form x'hex', surrounded by any white space.
func blobLiteral(s string) (string, bool) {
	s = strings.TrimSpace(s)
	if len(s) < 3 || (s[0] != 'x' && s[0] != 'X') || s[1] != '\'' || s[len(s)-1] != '\'' {
		return "", false
	}
	b, err := hex.DecodeString(s[2 : len(s)-1])
	if err != nil {
		return "", false
	}
	return string(b), true
}

var errSyntax = errors.New("syntax")

// decoder reads JSON values from the front of in.
type decoder struct {
	in []byte
	at int
}

func (d *decoder) end() bool { return d.at >= len(d.in) }

func (d *decoder) space() {
	for d.at < len(d.in) {
		switch d.in[d.at] {
		case ' ', '\t', '\r', '\n':
			d.at++
		default:
			return
		}
	}
}

// take consumes c if it comes next.
func (d *decoder) take(c byte) bool {
	if d.at < len(d.in) && d.in[d.at] == c {
		d.at++
		return true
	}
	return false
}

func (d *decoder) literal(s string) bool {
	if len(d.in)-d.at >= len(s) && string(d.in[d.at:d.at+len(s)]) == s {
		d.at += len(s)
		return true
	}
	return false
}

// item reads one value of any type.
func (d *decoder) item(depth int) (jsonItem, error) {
	d.space()
	if d.end() || depth > maxDepth {
		return jsonItem{}, errSyntax
	}
	switch c := d.in[d.at]; {
	case c == '"':
		s, ok := d.text()
		if !ok {
			return jsonItem{}, errSyntax
		}
		return jsonItem{kind: jsonString, text: s}, nil
	case c == '-' || c >= '0' && c <= '9':
		s, ok := d.number()
		if !ok {
			return jsonItem{}, errSyntax
		}
		return jsonItem{kind: jsonNumber, text: s}, nil
	case c == '[':
		d.at++
		it := jsonItem{kind: jsonArray}
		d.space()
		if d.take(']') {
			return it, nil
		}
		for {
			e, err := d.item(depth + 1)
			if err != nil {
				return it, err
			}
			it.items = append(it.items, e)
			d.space()
			if d.take(']') {
				return it, nil
			}
			if !d.take(',') {
				return it, errSyntax
			}
		}
	case c == '{':
		return d.object(depth)
	case d.literal("true"):
		return jsonItem{kind: jsonBool, truth: true}, nil
	case d.literal("false"):
		return jsonItem{kind: jsonBool}, nil
	case d.literal("null"):
		return jsonItem{kind: jsonNull}, nil
	}
	return jsonItem{}, errSyntax
}

func (d *decoder) object(depth int) (jsonItem, error) {
	d.at++ // {
	it := jsonItem{kind: jsonObject}
	d.space()
	if d.take('}') {
		return it, nil
	}
	for {
		d.space()
		if d.end() || d.in[d.at] != '"' {
			return it, errSyntax
		}
		name, ok := d.text()
		if !ok {
			return it, errSyntax
		}
		d.space()
		if !d.take(':') {
			return it, errSyntax
		}
		e, err := d.item(depth + 1)
		if err != nil {
			return it, err
		}
		it.set(name, e)
		d.space()
		if d.take('}') {
			return it, nil
		}
		if !d.take(',') {
			return it, errSyntax
		}
	}
}

// set adds a member; of two with one name the last wins.
func (it *jsonItem) set(name string, e jsonItem) {
	for i := range it.members {
		if it.members[i].name == name {
			it.members[i].item = e
			return
		}
	}
	it.members = append(it.members, jsonMember{name, e})
}

// number reads a number literal by the grammar of RFC 8259.
func (d *decoder) number() (string, bool) {
	start := d.at
	d.take('-')
	if !d.take('0') && !d.digits() {
		return "", false
	}
	if d.take('.') && !d.digits() {
		return "", false
	}
	if d.take('e') || d.take('E') {
		if !d.take('+') {
			d.take('-')
		}
		if !d.digits() {
			return "", false
		}
	}
	return string(d.in[start:d.at]), true
}

func (d *decoder) digits() bool {
	start := d.at
	for d.at < len(d.in) && d.in[d.at] >= '0' && d.in[d.at] <= '9' {
		d.at++
	}
	return d.at > start
}

// text reads a string. Bytes that are not UTF-8 and lone surrogates become U+FFFD.
func (d *decoder) text() (string, bool) {
	d.at++ // opening quote
	start := d.at
	for i := start; i < len(d.in); i++ {
		switch c := d.in[i]; {
		case c == '"':
			d.at = i + 1
			return string(d.in[start:i]), true
		case c == '\\' || c >= utf8.RuneSelf:
			d.at = i
			return d.slowText(append([]byte(nil), d.in[start:i]...))
		case c < ' ':
			return "", false
		}
	}
	return "", false
}

// slowText goes on with a string that has escapes or non-ASCII bytes; out holds
// what was read so far.
func (d *decoder) slowText(out []byte) (string, bool) {
	for d.at < len(d.in) {
		switch c := d.in[d.at]; {
		case c == '"':
			d.at++
			return string(out), true
		case c < ' ':
			return "", false
		case c == '\\':
			d.at++
			if d.end() {
				return "", false
			}
			var ok bool
			if out, ok = d.escape(out); !ok {
				return "", false
			}
		case c < utf8.RuneSelf:
			out = append(out, c)
			d.at++
		default:
			r, size := utf8.DecodeRune(d.in[d.at:])
			out = utf8.AppendRune(out, r)
			d.at += size
		}
	}
	return "", false
}

// escape decodes the escape whose backslash was just read.
func (d *decoder) escape(out []byte) ([]byte, bool) {
	c := d.in[d.at]
	d.at++
	switch c {
	case '"', '\\', '/':
		return append(out, c), true
	case 'b':
		return append(out, '\b'), true
	case 'f':
		return append(out, '\f'), true
	case 'n':
		return append(out, '\n'), true
	case 'r':
		return append(out, '\r'), true
	case 't':
		return append(out, '\t'), true
	case 'u':
		r, ok := d.hex4(d.at)
		if !ok {
			return out, false
		}
		d.at += 4
		if utf16.IsSurrogate(r) {
			low, ok := d.hex4(d.at + 2)
			if ok && d.in[d.at] == '\\' && d.in[d.at+1] == 'u' {
				if both := utf16.DecodeRune(r, low); both != utf8.RuneError {
					d.at += 6
					return utf8.AppendRune(out, both), true
				}
			}
			r = utf8.RuneError
		}
		return utf8.AppendRune(out, r), true
	}
	return out, false
}

// hex4 reads the four hexadecimal digits at position at.
func (d *decoder) hex4(at int) (rune, bool) {
	if at+4 > len(d.in) {
		return 0, false
	}
	var r rune
	for _, c := range d.in[at : at+4] {
		switch {
		case c >= '0' && c <= '9':
			c -= '0'
		case c >= 'a' && c <= 'f':
			c -= 'a' - 10
		case c >= 'A' && c <= 'F':
			c -= 'A' - 10
		default:
			return 0, false
		}
		r = r<<4 | rune(c)
	}
	return r, true
}
