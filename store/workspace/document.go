package workspace

import (
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/quorate/quorate/store"
)

// NewID returns an id for an event: 128 bits in hexadecimal, the first 48 of them
// the milliseconds since 1970, the others random. So ids made about the same time
// lie side by side in the index that keeps them unique, and a batch of appends writes
// a few of its pages instead of one for each event. (The idea is that of UUID version
// 7, RFC 9562.) Nothing else depends on the time in it.
func NewID() string {
	var b [16]byte
	_, _ = rand.Read(b[6:]) // never fails
	ms := uint64(time.Now().UnixMilli())
	binary.BigEndian.PutUint16(b[0:], uint16(ms>>32))
	binary.BigEndian.PutUint32(b[2:], uint32(ms))
	return hex.EncodeToString(b[:])
}

// newToken returns a random token for a write, of 128 bits.
func newToken() string {
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
