package client

import (
	"encoding/base64"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/quorate/quorate/store/engine"
)

// DecodeError says that a value in an answer could not be represented exactly.
// It comes inside an [*engine.Error] with reason [engine.ErrProtocol].
type DecodeError struct {
	// Statement is the position of the statement in the request.
	Statement int
	// Column is the name of the column.
	Column string
	// Problem says what is wrong with the value.
	Problem string
}

// Error returns the statement, the column and the problem.
func (e *DecodeError) Error() string {
	return fmt.Sprintf("statement %d, column %q: %s", e.Statement, e.Column, e.Problem)
}

// decoded is the content of an answer of /db/execute or /db/query.
type decoded struct {
	results []engine.Result

	failed  int    // position of the first result that holds an error, or -1
	message string // its text

	top    string // top-level error
	hasTop bool

	// value is the first value that could not be represented. The rest of the
	// answer is decoded nevertheless, since it says whether a write was applied.
	value *DecodeError
}

// decodeAnswer decodes an answer. All numbers are read from their digits, never
// through a float64, unless they are reals. Strings are copied, so data may be
// reused. The error is about the syntax of the answer; errors that the answer
// reports are in the result.
func decodeAnswer(data []byte, want int) (decoded, error) {
	p := parser{data: data}
	out := decoded{failed: -1}
	sawResults := false
	err := p.object(func(key []byte) error {
		switch string(key) {
		case "results":
			if sawResults {
				return p.fault("two lists of results")
			}
			sawResults = true
			out.results = make([]engine.Result, 0, min(want, 1024))
			return p.array(func() error { return p.result(&out) })
		case "error":
			s, null, err := p.stringOrNull()
			if err == nil && !null {
				out.top, out.hasTop = s, true
			}
			return err
		}
		return p.skip()
	})
	if err != nil {
		return decoded{}, err
	}
	p.space()
	if p.pos != len(p.data) {
		return decoded{}, p.fault("junk after the answer")
	}
	if !sawResults && !out.hasTop {
		return decoded{}, p.fault("neither results nor an error")
	}
	return out, nil
}

// result reads one element of "results".
func (p *parser) result(out *decoded) error {
	index := len(out.results)
	var (
		res     engine.Result
		classes []class
		sawCols bool
		late    = -1 // where "values" is, if it came before "columns" or "types"
		sawType bool
	)
	err := p.object(func(key []byte) error {
		switch string(key) {
		case "columns":
			sawCols = true
			if p.null() {
				return nil
			}
			res.Columns = []string{}
			return p.array(func() error {
				s, err := p.string()
				res.Columns = append(res.Columns, s)
				return err
			})
		case "types":
			sawType = true
			if p.null() {
				return nil
			}
			return p.array(func() error {
				s, err := p.rawString()
				classes = append(classes, classOf(s))
				return err
			})
		case "values":
			if p.null() {
				return nil
			}
			if !sawCols || !sawType {
				late = p.pos
				return p.skip()
			}
			return p.rows(out, index, &res, classes)
		case "last_insert_id":
			n, err := p.integer()
			res.LastInsertID = n
			return err
		case "rows_affected":
			n, err := p.integer()
			res.RowsAffected = n
			return err
		case "error":
			s, null, err := p.stringOrNull()
			if err == nil && !null && out.failed < 0 {
				out.failed, out.message = index, s
			}
			return err
		}
		return p.skip()
	})
	if err != nil {
		return err
	}
	if late >= 0 {
		end := p.pos
		p.pos = late
		if err := p.rows(out, index, &res, classes); err != nil {
			return err
		}
		p.pos = end
	}
	out.results = append(out.results, res)
	return nil
}

// rows reads the rows of a result.
func (p *parser) rows(out *decoded, index int, res *engine.Result, classes []class) error {
	width := len(res.Columns)
	if len(classes) != 0 && len(classes) != width {
		return p.fault("columns and types differ in number")
	}
	if len(res.Values) != 0 {
		return p.fault("two lists of values")
	}
	return p.array(func() error {
		col := 0
		err := p.array(func() error {
			if col >= width {
				return p.fault("more values than columns")
			}
			cl := classOther
			if len(classes) != 0 {
				cl = classes[col]
			}
			v, problem, err := p.value(cl)
			if err != nil {
				return err
			}
			if problem != "" && out.value == nil {
				out.value = &DecodeError{Statement: index, Column: res.Columns[col], Problem: problem}
			}
			res.Values = append(res.Values, v)
			col++
			return nil
		})
		if err == nil && col != width {
			err = p.fault("fewer values than columns")
		}
		return err
	})
}

// class is what a column's declared type says about its values.
type class uint8

const (
	classOther class = iota
	classInt
	classReal
	classBlob
)

// classOf follows SQLite's rules of column affinity, whose order matters
// (sqlite.org/datatype3.html, section 3.1). A type of an expression is one of
// "integer", "real", "text", "blob".
func classOf(decl []byte) class {
	s := strings.ToLower(string(decl))
	switch {
	case strings.Contains(s, "int"):
		return classInt
	case strings.Contains(s, "char"), strings.Contains(s, "clob"), strings.Contains(s, "text"):
		return classOther
	case s == "blob":
		return classBlob
	case strings.Contains(s, "real"), strings.Contains(s, "floa"), strings.Contains(s, "doub"):
		return classReal
	}
	return classOther
}

// value reads a value of a row. A problem, if not empty, says why the value
// cannot be represented.
func (p *parser) value(cl class) (v engine.Value, problem string, err error) {
	switch c := p.peek(); c {
	case '"':
		s, err := p.string()
		if err != nil {
			return v, "", err
		}
		if cl == classBlob {
			// Blobs arrive in base64; a text that somebody put into a blob
			// column does not, and usually is not valid base64.
			if b, err := base64.StdEncoding.Strict().DecodeString(s); err == nil {
				return engine.Blob(string(b)), "", nil
			}
		}
		return engine.Text(s), "", nil
	case 'n':
		return engine.Null(), "", p.literal("null")
	case 't':
		return engine.Int(1), "", p.literal("true")
	case 'f':
		return engine.Int(0), "", p.literal("false")
	case '[', '{':
		return v, "not a scalar", p.skip()
	}
	tok, whole, err := p.number()
	if err != nil {
		return v, "", err
	}
	v, problem = numberValue(tok, whole, cl)
	return v, problem, nil
}

// numberValue turns the text of a number into a value. The wire prints whole
// reals like integers, so the column's class decides.
func numberValue(tok []byte, whole bool, cl class) (engine.Value, string) {
	if cl == classReal {
		// The class of an expression is its first row's, so a large integer may
		// stand here, which a float64 would round. As an integer nothing is lost
		// in either case.
		if n, ok := parseInt(tok); whole && ok && (n > 1<<53 || n < -1<<53) {
			return engine.Int(n), ""
		}
		return realValue(tok)
	}
	if whole {
		if n, ok := parseInt(tok); ok {
			return engine.Int(n), ""
		}
		if cl != classInt {
			// No integer is that large, so it is a real.
			return realValue(tok)
		}
		return engine.Null(), "integer " + clip(tok) + " is out of range"
	}
	if cl == classInt {
		n, integral, fits := exactInt(tok)
		switch {
		case integral && fits:
			return engine.Int(n), ""
		case integral:
			return engine.Null(), "integer " + clip(tok) + " is out of range"
		}
	}
	return realValue(tok)
}

func realValue(tok []byte) (engine.Value, string) {
	f, err := strconv.ParseFloat(string(tok), 64)
	if err != nil || math.IsInf(f, 0) {
		return engine.Null(), "real " + clip(tok) + " is out of range"
	}
	return engine.Float(f), ""
}

// clip shortens a number for an error message.
func clip(tok []byte) string {
	if len(tok) > 32 {
		return string(tok[:32]) + "..."
	}
	return string(tok)
}

// parseInt parses a whole number. It reports false if it is not an int64.
func parseInt(tok []byte) (int64, bool) {
	neg := len(tok) > 0 && tok[0] == '-'
	digits := tok
	if neg {
		digits = tok[1:]
	}
	if len(digits) == 0 {
		return 0, false
	}
	if len(digits) < 19 {
		n := int64(0)
		for _, c := range digits {
			n = n*10 + int64(c-'0')
		}
		if neg {
			n = -n
		}
		return n, true
	}
	n, err := strconv.ParseInt(string(tok), 10, 64)
	return n, err == nil
}

// exactInt reads a number with a fraction or an exponent as an integer, from
// its digits. It reports whether it is integral, and whether it fits an int64.
func exactInt(tok []byte) (n int64, integral, fits bool) {
	neg := tok[0] == '-'
	if neg {
		tok = tok[1:]
	}
	mantissa, exponent := tok, 0
	for i, c := range tok {
		if c == 'e' || c == 'E' {
			e, err := strconv.Atoi(string(tok[i+1:]))
			if err != nil {
				return 0, false, false
			}
			mantissa, exponent = tok[:i], e
			break
		}
	}
	var buf [64]byte
	digits := buf[:0]
	seenPoint := false
	for _, c := range mantissa {
		if c == '.' {
			seenPoint = true
			continue
		}
		digits = append(digits, c)
		if seenPoint {
			exponent--
		}
	}
	for len(digits) > 0 && digits[0] == '0' {
		digits = digits[1:]
	}
	for len(digits) > 0 && digits[len(digits)-1] == '0' {
		digits = digits[:len(digits)-1]
		exponent++
	}
	switch {
	case len(digits) == 0:
		return 0, true, true
	case exponent < 0:
		return 0, false, false
	case len(digits)+exponent > 19:
		return 0, true, false
	}
	for range exponent {
		digits = append(digits, '0')
	}
	text := string(digits)
	if neg {
		text = "-" + text
	}
	n, err := strconv.ParseInt(text, 10, 64)
	return n, true, err == nil
}

// integer reads a counter: an integer, or null for 0.
func (p *parser) integer() (int64, error) {
	if p.null() {
		return 0, nil
	}
	tok, whole, err := p.number()
	if err != nil {
		return 0, err
	}
	if whole {
		if n, ok := parseInt(tok); ok {
			return n, nil
		}
	} else if n, integral, fits := exactInt(tok); integral && fits {
		return n, nil
	}
	return 0, p.fault("counter " + clip(tok) + " is not an int64")
}

// topLevelError returns the top-level error of an answer, if it has one. It
// looks at nothing else.
func topLevelError(data []byte) (text string, ok bool) {
	p := parser{data: data}
	// An answer that cannot be parsed is for whoever wants its content to refuse.
	_ = p.object(func(key []byte) error {
		if string(key) != "error" {
			return p.skip()
		}
		s, null, err := p.stringOrNull()
		if err == nil && !null {
			text, ok = s, true
		}
		return err
	})
	return text, ok
}
