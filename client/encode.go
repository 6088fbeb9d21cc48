package client

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/quorate/quorate/store/engine"
)

// ErrUnbindable says that a statement cannot be sent so that the database gets
// exactly what it says: text that is not UTF-8 or that rqlite would take for a
// blob literal, a real that is not finite, an empty statement. Nothing was sent.
var ErrUnbindable = errors.New("statement cannot be sent unchanged")

// appendStatements appends the request body for stmts: an array of arrays, each
// with the SQL text and its parameters. Integers keep all their digits, reals
// always look like reals (1.0, not 1, which would be bound as an integer), and
// text is quoted without the escaping for HTML that encoding/json adds.
func appendStatements(buf []byte, stmts []engine.Statement) ([]byte, error) {
	var now time.Time // what values of engine.Now stand for, read once
	buf = append(buf, '[')
	for i := range stmts {
		if i > 0 {
			buf = append(buf, ',')
		}
		s := &stmts[i]
		// The server leaves an empty statement out of its results, so that they
		// would no longer match the list.
		if s.SQL == "" || !utf8.ValidString(s.SQL) {
			return buf, fmt.Errorf("statement %d: empty or not UTF-8: %w", i, ErrUnbindable)
		}
		buf = append(buf, '[')
		buf = appendString(buf, s.SQL)
		for j := range s.Args {
			buf = append(buf, ',')
			v := s.Args[j]
			if v.Kind() == engine.KindNow {
				if now.IsZero() {
					now = time.Now()
				}
				v = v.At(now)
			}
			var problem string
			if buf, problem = appendValue(buf, v); problem != "" {
				return buf, fmt.Errorf("statement %d, parameter %d: %s: %w", i, j+1, problem, ErrUnbindable)
			}
		}
		buf = append(buf, ']')
	}
	return append(buf, ']'), nil
}

func appendValue(buf []byte, v engine.Value) (out []byte, problem string) {
	switch v.Kind() {
	case engine.KindNull:
		return append(buf, "null"...), ""
	case engine.KindInt:
		n, _ := v.Int()
		return strconv.AppendInt(buf, n, 10), ""
	case engine.KindFloat:
		f, _ := v.Float()
		if math.IsNaN(f) || math.IsInf(f, 0) {
			return buf, "real is not finite"
		}
		return appendReal(buf, f), ""
	case engine.KindText:
		s, _ := v.Text()
		if !utf8.ValidString(s) {
			return buf, "text is not UTF-8"
		}
		if looksLikeBlob(s) {
			return buf, "text would be taken for a blob literal"
		}
		return appendString(buf, s), ""
	case engine.KindBlob:
		b, _ := v.Bytes()
		return appendBytes(buf, b), ""
	}
	return buf, "unknown kind of value"
}

// appendReal appends a real in the shortest form that reads back as the same
// real, with a fraction or an exponent in it.
func appendReal(buf []byte, f float64) []byte {
	start := len(buf)
	buf = strconv.AppendFloat(buf, f, 'g', -1, 64)
	for _, c := range buf[start:] {
		if c == '.' || c == 'e' {
			return buf
		}
	}
	return append(buf, ".0"...)
}

// appendBytes appends a blob as an array of numbers, which rqlite binds as such.
func appendBytes(buf []byte, b string) []byte {
	buf = append(buf, '[')
	for i := range len(b) {
		if i > 0 {
			buf = append(buf, ',')
		}
		buf = strconv.AppendUint(buf, uint64(b[i]), 10)
	}
	return append(buf, ']')
}

// escape says what becomes of a byte inside a JSON string: 0 means that it
// stays, 'u' a \u00 escape, anything else the letter after the backslash.
var escape = func() (t [256]byte) {
	for c := range 0x20 {
		t[c] = 'u'
	}
	t['"'], t['\\'] = '"', '\\'
	t['\b'], t['\f'], t['\n'], t['\r'], t['\t'] = 'b', 'f', 'n', 'r', 't'
	return t
}()

const hexDigits = "0123456789abcdef"

// appendString appends s, which is valid UTF-8, as a JSON string.
func appendString(buf []byte, s string) []byte {
	buf = append(buf, '"')
	from := 0
	for i := 0; i < len(s); i++ {
		e := escape[s[i]]
		if e == 0 {
			continue
		}
		buf = append(buf, s[from:i]...)
		if e == 'u' {
			buf = append(buf, '\\', 'u', '0', '0', hexDigits[s[i]>>4], hexDigits[s[i]&15])
		} else {
			buf = append(buf, '\\', e)
		}
		from = i + 1
	}
	buf = append(buf, s[from:]...)
	return append(buf, '"')
}

// looksLikeBlob reports whether rqlite 8.31 and later would bind text as a
// blob: white space aside, x or X and hexadecimal digits in quotes.
func looksLikeBlob(s string) bool {
	// Nearly every text fails here.
	if len(s) < 3 || !maybeBlob(s) {
		return false
	}
	s = strings.TrimFunc(s, unicode.IsSpace)
	if len(s) < 3 || (s[0] != 'x' && s[0] != 'X') || s[1] != '\'' || s[len(s)-1] != '\'' {
		return false
	}
	digits := s[2 : len(s)-1]
	if len(digits)%2 != 0 {
		return false
	}
	for i := range len(digits) {
		c := digits[i] | 0x20
		if (digits[i] < '0' || digits[i] > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}

// maybeBlob is true for text whose first byte is x, X or may begin white space.
func maybeBlob(s string) bool {
	switch c := s[0]; {
	case c == 'x', c == 'X', c <= ' ', c >= utf8.RuneSelf:
		return true
	}
	return false
}
