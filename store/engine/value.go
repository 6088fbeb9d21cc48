package engine

import (
	"math"
	"strconv"
	"time"
)

// Kind is the type of a [Value].
type Kind uint8

// The kinds of values. Null is the zero value.
const (
	KindNull Kind = iota
	KindInt
	KindFloat
	KindText
	KindBlob // only ever read, never bound: rows that others wrote may hold one
	KindNow  // only ever bound, never read: see [Now]
)

// String returns the kind's name.
func (k Kind) String() string {
	switch k {
	case KindNull:
		return "null"
	case KindInt:
		return "integer"
	case KindFloat:
		return "real"
	case KindText:
		return "text"
	case KindBlob:
		return "blob"
	case KindNow:
		return "now"
	}
	return "invalid"
}

// Value is a parameter or a column value: null, a 64-bit integer, a float64, a
// text, or a blob. It is immutable, and its zero value is null. Passing values this way, not as
// interfaces, keeps a batch of thousands of parameters free of allocations.
type Value struct {
	text string
	bits uint64
	kind Kind
}

// Null returns the null value.
func Null() Value { return Value{} }

// Int returns an integer value.
func Int(v int64) Value { return Value{kind: KindInt, bits: uint64(v)} }

// Float returns a real value. It is the caller's duty that v is finite.
func Float(v float64) Value { return Value{kind: KindFloat, bits: math.Float64bits(v)} }

// Text returns a text value.
func Text(v string) Value { return Value{kind: KindText, text: v} }

// Blob returns a blob value; v holds its bytes.
func Blob(v string) Value { return Value{kind: KindBlob, text: v} }

// Now returns a parameter that becomes an integer when its statement runs: the
// microseconds since 1970 in UTC, plus offset (rounded up to a microsecond), by
// the engine's clock. All of them in one call of the engine stand for the same
// instant. Whose clock it is depends on the engine: one that all clients of the
// database share where there is such a clock, read inside the transaction (that
// of the host for SQLite, of the server for PostgreSQL), else this process's (for
// rqlite, whose nodes may differ). A request that is sent again keeps its instant.
func Now(offset time.Duration) Value {
	us := offset / time.Microsecond
	if offset%time.Microsecond > 0 {
		us++
	}
	return Value{kind: KindNow, bits: uint64(us)}
}

// At returns the integer that a value made by [Now] stands for at time t, or the
// value itself if it is of another kind. Engines use it to bind parameters.
func (v Value) At(t time.Time) Value {
	if v.kind != KindNow {
		return v
	}
	return Int(t.UnixMicro() + int64(v.bits))
}

// Offset returns the offset in microseconds of a value made by [Now] and true,
// or false if the value is of another kind.
func (v Value) Offset() (int64, bool) { return int64(v.bits), v.kind == KindNow }

// Kind returns the type of the value.
func (v Value) Kind() Kind { return v.kind }

// IsNull reports whether the value is null.
func (v Value) IsNull() bool { return v.kind == KindNull }

// Int returns the integer and true, or false if the value is of another kind.
func (v Value) Int() (int64, bool) { return int64(v.bits), v.kind == KindInt }

// Float returns the real and true, or false if the value is neither real nor
// integer. A JSON wire does not tell 3.0 from 3, so an integer that a float64
// holds exactly counts as real.
func (v Value) Float() (float64, bool) {
	switch v.kind {
	case KindFloat:
		return math.Float64frombits(v.bits), true
	case KindInt:
		f := float64(int64(v.bits))
		return f, math.Abs(f) < 1<<63 && int64(f) == int64(v.bits)
	}
	return 0, false
}

// Text returns the text and true, or false if the value is of another kind.
func (v Value) Text() (string, bool) { return v.text, v.kind == KindText }

// Bytes returns the bytes of a text or blob and true, or false for other kinds.
func (v Value) Bytes() (string, bool) {
	return v.text, v.kind == KindText || v.kind == KindBlob
}

// Size returns the approximate number of bytes the value takes on the way to
// the database.
func (v Value) Size() int { return len(v.text) + 8 }

// String formats the value for people; texts and blobs are quoted.
func (v Value) String() string {
	switch v.kind {
	case KindInt:
		return strconv.FormatInt(int64(v.bits), 10)
	case KindFloat:
		return strconv.FormatFloat(math.Float64frombits(v.bits), 'g', -1, 64)
	case KindText, KindBlob:
		return strconv.Quote(v.text)
	case KindNow:
		return "now" + signed(int64(v.bits)) + "us"
	}
	return "null"
}

func signed(n int64) string {
	if n < 0 {
		return strconv.FormatInt(n, 10)
	}
	return "+" + strconv.FormatInt(n, 10)
}
