package store

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// Limits bounds what one call may carry. Zero fields take their defaults.
type Limits struct {
	// MaxName is the largest size of an id, path or other name, in bytes.
	// Default 1,024.
	MaxName int
	// MaxState is the largest size of an execution's JSON, in bytes. Default
	// 16 MiB.
	MaxState int
	// MaxCommit is the largest size of all that a commit carries, in bytes.
	// Default 32 MiB.
	MaxCommit int
	// MaxRows is the largest number of side writes of a commit (emits, timers,
	// spawns), and of the numbers of one acknowledgement. Default 100,000.
	MaxRows int
}

func (l Limits) withDefaults() (Limits, error) {
	for _, f := range []struct {
		name string
		v    *int
		def  int
	}{
		{"MaxName", &l.MaxName, 1024},
		{"MaxState", &l.MaxState, 16 << 20},
		{"MaxCommit", &l.MaxCommit, 32 << 20},
		{"MaxRows", &l.MaxRows, 100_000},
	} {
		if *f.v < 0 {
			return l, &InvalidError{Field: "Limits." + f.name, Reason: "is negative"}
		}
		if *f.v == 0 {
			*f.v = f.def
		}
	}
	return l, nil
}

func tooLarge(field string, size, limit int) error {
	return &InvalidError{Field: field, Reason: fmt.Sprintf("is %d, above the limit of %d", size, limit), tooLarge: true}
}

// name checks an id or path: every engine can keep what passes.
func (l *Limits) name(field, s string) error {
	if s == "" {
		return &InvalidError{Field: field, Reason: "is empty"}
	}
	return l.text(field, s)
}

// text checks a name that may be empty.
func (l *Limits) text(field, s string) error {
	switch {
	case len(s) > l.MaxName:
		return tooLarge(field, len(s), l.MaxName)
	case strings.IndexByte(s, 0) >= 0:
		return &InvalidError{Field: field, Reason: "contains a NUL character"}
	case !utf8.ValidString(s):
		return &InvalidError{Field: field, Reason: "is not valid UTF-8"}
	case isBlobLiteral(s):
		return &InvalidError{Field: field, Reason: "has the shape of a blob literal (x'...'), which rqlite would store as a blob"}
	}
	return nil
}

// isBlobLiteral reports whether rqlite may take the text for a blob: after
// trimming white space an x or X and a quoted string to the end.
func isBlobLiteral(s string) bool {
	if len(s) < 3 || strings.IndexByte(s, '\'') < 0 {
		return false
	}
	s = strings.TrimSpace(s)
	return len(s) >= 3 && (s[0] == 'x' || s[0] == 'X') && s[1] == '\'' && s[len(s)-1] == '\''
}

// document checks an encoded JSON document.
func document(field, s string, limit int) error {
	if len(s) > limit {
		return tooLarge(field, len(s), limit)
	}
	if !utf8.ValidString(s) {
		return &InvalidError{Field: field, Reason: "is not valid UTF-8"}
	}
	return nil
}
