package workspace

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/quorate/quorate/store"
)

// NewID returns a random id, of 128 bits in hexadecimal.
func NewID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}

// checkDocument checks a JSON document that is stored as it is.
func checkDocument(field string, doc []byte) error {
	switch {
	case len(doc) > MaxDocument:
		return &store.InvalidError{Field: field, Reason: fmt.Sprintf("is %d bytes, above the limit of %d", len(doc), MaxDocument)}
	case !utf8.Valid(doc):
		return &store.InvalidError{Field: field, Reason: "is not valid UTF-8"}
	case !json.Valid(doc):
		return &store.InvalidError{Field: field, Reason: "is not valid JSON"}
	}
	return nil
}

// layout writes times into JSON and text columns: microseconds, with their zone.
const layout = "2006-01-02T15:04:05.000000Z07:00"

// micros returns t as the engines store and compare it. The zero time is 0.
func micros(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMicro()
}

// instant is the inverse of micros, in UTC.
func instant(us int64) time.Time {
	if us == 0 {
		return time.Time{}
	}
	return time.UnixMicro(us).UTC()
}

// exact returns t as it will be read back: in microseconds, its zone kept, and
// without the monotonic clock.
func exact(t time.Time) time.Time {
	if t.IsZero() {
		return t
	}
	return t.Round(0).Truncate(time.Microsecond)
}
