package store

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// Event is a message to or from an Execution, as the outbox holds it.
//
// An Event that was decoded from JSON remembers its text. Encoding it again
// keeps the literal text of all that was not changed, and fields that are not
// known here, in place. Copying an Event is cheap; it may be read concurrently.
type Event struct {
	// ID identifies the event, so that it takes effect once although it may be
	// delivered more than once. By default 32 lower-case hexadecimal digits.
	ID string
	// Kind is the application's name for the sort of event.
	Kind string
	// CreatedTime is when the event was made. Zero means null. JSON holds it in
	// RFC 3339 with up to nanoseconds.
	CreatedTime time.Time
	// ReceivedTime is when the event arrived. Zero means null.
	ReceivedTime time.Time
	// Data is the event's content.
	Data Object

	origin *jsonDocument
}

// NewEvent returns an event with a new ID, created now (UTC). data is encoded as
// [NewObject] does; nil means {}.
func NewEvent(kind string, data any) (Event, error) {
	e := Event{ID: NewID(), Kind: kind, CreatedTime: time.Now().UTC().Round(0)}
	if data == nil {
		return e, nil
	}
	var err error
	if e.Data, err = NewObject(data); err != nil {
		return Event{}, fmt.Errorf("store: data of a new event: %w", err)
	}
	return e, nil
}

// NewID returns a new random identifier: 128 bits as 32 lower-case hexadecimal
// digits.
//
// The bits come from crypto/rand. The generators of math/rand/v2 are faster, but
// their state is copied when a virtual machine is cloned or restored from a
// snapshot, and then two workers make the same ids. The kernel's generator is
// made to notice that, and nobody can guess its next id.
func NewID() string {
	var bits [16]byte
	var text [32]byte
	_, _ = rand.Read(bits[:]) // never fails: the program ends instead
	hex.Encode(text[:], bits[:])
	return string(text[:])
}

// The known fields of an event's JSON, in the order in which a new one has them.
const (
	eventID = iota
	eventKind
	eventCreatedTime
	eventReceivedTime
	eventData
	eventFields
)

var eventNames = [eventFields]string{"id", "kind", "created_time", "received_time", "data"}

func eventField(key string) int { return indexOf(eventNames[:], key) }

func indexOf(names []string, key string) int {
	for i, name := range names {
		if name == key {
			return i
		}
	}
	return -1
}

// MarshalJSON returns the event as JSON. It fails if a time is outside the years
// 0 to 9999, which RFC 3339 cannot hold. Note that json.Marshal escapes <, > and
// & in what it gets from here; a json.Encoder with SetEscapeHTML(false) does not.
func (e Event) MarshalJSON() ([]byte, error) { return e.appendJSON(nil) }

// UnmarshalJSON replaces the event by the one in data. It fails with an
// [*InvalidDataError] if data is not a JSON object with a text id that is not
// empty, or if its kind is not a text or its data not an object. A time that is
// not in RFC 3339 reads as zero and keeps its text until it is set.
func (e *Event) UnmarshalJSON(data []byte) error {
	parsed, err := parseEvent(string(data))
	if err != nil {
		return err
	}
	*e = parsed
	return nil
}

func parseEvent(text string) (Event, error) {
	d, err := parseDocument(text, eventField)
	if err != nil {
		return Event{}, &InvalidDataError{Reason: err.Error()}
	}
	e := Event{origin: d}
	id := d.literal(eventID)
	if id == "" || id[0] != '"' || id == `""` {
		return Event{}, &InvalidDataError{Reason: "id is missing or not a text"}
	}
	e.ID = unquote(id)
	if kind := d.literal(eventKind); kind != "" {
		if kind[0] != '"' {
			return Event{}, &InvalidDataError{ID: e.ID, Reason: "kind is not a text"}
		}
		e.Kind = unquote(kind)
	}
	if data := d.literal(eventData); data != "" {
		if data[0] != '{' {
			return Event{}, &InvalidDataError{ID: e.ID, Reason: "data is not an object"}
		}
		e.Data = makeObject(data)
	}
	e.CreatedTime = parseTime(d.literal(eventCreatedTime))
	e.ReceivedTime = parseTime(d.literal(eventReceivedTime))
	return e, nil
}

// parseTime returns the time in a JSON value, or zero if there is none.
func parseTime(literal string) time.Time {
	if literal == "" || literal[0] != '"' {
		return time.Time{}
	}
	t, err := time.Parse(time.RFC3339Nano, unquote(literal))
	if err != nil {
		return time.Time{}
	}
	return t
}

// appendJSON appends the event as compact JSON.
func (e *Event) appendJSON(dst []byte) ([]byte, error) {
	return appendFields(dst, e.origin, eventNames[:], eventFields, e)
}

func (e *Event) keeps(field int, literal string) bool {
	switch field {
	case eventID:
		return literalIs(literal, e.ID)
	case eventKind:
		return literalIs(literal, e.Kind)
	case eventCreatedTime:
		return parseTime(literal).Equal(e.CreatedTime)
	case eventReceivedTime:
		return parseTime(literal).Equal(e.ReceivedTime)
	default:
		return literal == e.Data.Raw()
	}
}

func (e *Event) sets(field int) bool {
	switch field {
	case eventID:
		return true
	case eventKind:
		return e.Kind != ""
	case eventCreatedTime:
		return !e.CreatedTime.IsZero()
	case eventReceivedTime:
		return !e.ReceivedTime.IsZero()
	default:
		return e.Data != Object{}
	}
}

func (e *Event) appendField(dst []byte, field int) ([]byte, error) {
	switch field {
	case eventID:
		if e.ID == "" {
			return nil, errors.New("store: an event without an id")
		}
		return appendQuoted(dst, e.ID), nil
	case eventKind:
		return appendQuoted(dst, e.Kind), nil
	case eventCreatedTime:
		return appendTime(dst, e.CreatedTime)
	case eventReceivedTime:
		return appendTime(dst, e.ReceivedTime)
	default:
		return append(dst, e.Data.Raw()...), nil
	}
}

func appendTime(dst []byte, t time.Time) ([]byte, error) {
	if t.IsZero() {
		return append(dst, "null"...), nil
	}
	dst, err := t.AppendText(append(dst, '"')) // RFC 3339 with nanoseconds, or an error
	if err != nil {
		return nil, fmt.Errorf("store: encode a time of an event: %w", err)
	}
	return append(dst, '"'), nil
}

var (
	_ json.Marshaler   = Event{}
	_ json.Unmarshaler = (*Event)(nil)
)
