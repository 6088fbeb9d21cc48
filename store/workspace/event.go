package workspace

import (
	"bytes"
	"encoding/json"
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/quorate/quorate/store"
)

// Entry is what a caller appends to a log.
type Entry struct {
	// ID identifies the event in its workspace for ever; [NewID] makes one.
	ID string `json:"id"`
	// Actor is who caused it.
	Actor Actor `json:"actor"`
	// Causation is the run that caused it, nil if none did.
	Causation *Causation `json:"causation"`
	// CorrelationID is the id of the first event of its chain of causes. If it is
	// empty, the event is the first of one and gets its own.
	CorrelationID string `json:"correlation_id"`
	// TraceParent is the W3C trace context, or empty.
	TraceParent string `json:"traceparent,omitempty"`
	// Event is the application's data: a JSON object whose first key is "type",
	// with a text, such as {"type":"order:placed","total":5}. Its bytes are kept
	// as they are.
	Event json.RawMessage `json:"event"`
}

// Envelope is an event in a log.
type Envelope struct {
	// Seq is its position, from 1 and without gaps.
	Seq int64 `json:"seq"`
	// TS is when it was appended, by the clock of who did, in microseconds. It
	// never decreases along a log: where a clock lags behind the last event's TS,
	// it is that one, in UTC.
	TS time.Time `json:"ts"`
	// WorkspaceID is the id of the workspace.
	WorkspaceID string `json:"workspace_id"`
	// Type is the event's type, as its JSON says.
	Type string `json:"-"`
	Entry
}

// Causation says which run caused an event.
type Causation struct {
	FiringID string `json:"firing_id"`
	RunID    string `json:"run_id"`
	// Depth is the length of the chain of causes, from 1.
	Depth int `json:"depth"`
}

// Actor is who caused an event. Kind says which of the other fields mean
// something: "user" (ID, Name), "agent" (Rule, RunID, Name), "external_agent"
// (ClientID, Name), "system" and "source" (Name), "evaluator" (Name, Version), or
// a kind of the application's own.
type Actor struct {
	Kind     string `json:"kind"`
	ID       string `json:"id,omitempty"`
	Rule     string `json:"rule,omitempty"`
	RunID    string `json:"run_id,omitempty"`
	ClientID string `json:"client_id,omitempty"`
	Name     string `json:"name,omitempty"`
	Version  string `json:"version,omitempty"`
}

// System returns the actor that is part of the application itself.
func System(name string) Actor { return Actor{Kind: "system", Name: name} }

// User returns the actor that is a person.
func User(id, name string) Actor { return Actor{Kind: "user", ID: id, Name: name} }

// NewEntry returns an entry of a payload that encodes as a JSON object, with a
// new id. typ becomes the object's first key; the payload must not have a "type"
// of its own. The error is [ErrInvalid].
//
// To make publishing repeatable, set the entry's ID to one of your own, and take a
// [*DuplicateError] whose Same is true for success.
func NewEntry[T any](typ string, actor Actor, payload T) (Entry, error) {
	event, err := NewEvent(typ, payload)
	return Entry{ID: NewID(), Actor: actor, Event: event}, err
}

// NewEvent returns the JSON of an event of a payload: see [NewEntry].
func NewEvent[T any](typ string, payload T) (json.RawMessage, error) {
	body, err := marshal(payload)
	if err != nil {
		return nil, &store.InvalidError{Field: "payload", Reason: "cannot be encoded: " + err.Error()}
	}
	rest, ok := bytes.CutPrefix(bytes.TrimSpace(body), []byte("{"))
	if !ok {
		return nil, &store.InvalidError{Field: "payload", Reason: "is not a JSON object"}
	}
	if bytes.Contains(body, []byte(`type"`)) || bytes.IndexByte(body, '\\') >= 0 {
		var keys map[string]json.RawMessage
		if err := json.Unmarshal(body, &keys); err != nil {
			return nil, &store.InvalidError{Field: "payload", Reason: "cannot be encoded: " + err.Error()}
		}
		if _, twice := keys["type"]; twice {
			return nil, &store.InvalidError{Field: "payload", Reason: `has a "type" of its own`}
		}
	}
	name, err := marshal(typ)
	if err != nil {
		return nil, &store.InvalidError{Field: "type", Reason: "cannot be encoded"}
	}
	out := make([]byte, 0, len(body)+len(name)+10)
	out = append(append(out, `{"type":`...), name...)
	if rest = bytes.TrimLeft(rest, " \t\r\n"); rest[0] != '}' {
		out = append(out, ',')
	}
	out = append(out, rest...)
	if _, err := typeOf(out); err != nil {
		return nil, err
	}
	return out, nil
}

// Decode decodes an event's JSON, its "type" included.
func Decode[T any](e Envelope) (T, error) {
	var v T
	if err := json.Unmarshal(e.Event, &v); err != nil {
		return v, fmt.Errorf("event %q at %d: %w", e.ID, e.Seq, err)
	}
	return v, nil
}

// marshal encodes v as JSON, without the escapes that only HTML needs.
func marshal(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

var errFirstKey = &store.InvalidError{Field: "Entry.Event", Reason: `is not a JSON object whose first key is "type", with a text`}

// typeOf checks an event's JSON and returns its type.
func typeOf(event []byte) (string, error) {
	if len(event) > MaxDocument {
		return "", &store.InvalidError{Field: "Entry.Event", Reason: fmt.Sprintf("is %d bytes, above the limit of %d", len(event), MaxDocument)}
	}
	if err := checkDocument("Entry.Event", event); err != nil {
		return "", err
	}
	// The usual form needs no decoder: it is known to be valid.
	if rest, ok := bytes.CutPrefix(event, []byte(`{"type":"`)); ok {
		if end := bytes.IndexAny(rest, `"\\`); rest[end] == '"' {
			typ := string(rest[:end])
			return typ, checkName("type of Entry.Event", typ)
		}
	}
	dec := json.NewDecoder(bytes.NewReader(event))
	var typ string
	for _, want := range []any{json.Delim('{'), "type", nil} {
		tok, err := dec.Token()
		if err != nil || want != nil && tok != want {
			return "", errFirstKey
		}
		if want == nil {
			var ok bool
			if typ, ok = tok.(string); !ok {
				return "", errFirstKey
			}
		}
	}
	return typ, checkName("type of Entry.Event", typ)
}

// cause and effect of an entry as they are stored beside the event.
type entryMeta struct {
	Actor         Actor      `json:"actor"`
	Causation     *Causation `json:"causation"`
	CorrelationID string     `json:"correlation_id"`
	TraceParent   string     `json:"traceparent,omitempty"`
}

// record is an entry, checked and encoded.
type record struct {
	entry Entry
	typ   string
	meta  string
	event string
}

// encode checks an entry and encodes it. It copies what the caller may change.
func encode(e Entry) (record, error) {
	if err := checkName("Entry.ID", e.ID); err != nil {
		return record{}, err
	}
	if e.CorrelationID == "" {
		e.CorrelationID = e.ID
	}
	for _, f := range []struct{ field, value string }{
		{"Entry.Actor.Kind", e.Actor.Kind}, {"Entry.CorrelationID", e.CorrelationID}, {"Entry.TraceParent", e.TraceParent},
	} {
		if f.value == "" && f.field == "Entry.TraceParent" {
			continue
		}
		if err := checkName(f.field, f.value); err != nil {
			return record{}, err
		}
	}
	texts := []string{e.Actor.ID, e.Actor.Rule, e.Actor.RunID, e.Actor.ClientID, e.Actor.Name, e.Actor.Version}
	if e.Causation != nil {
		c := *e.Causation
		texts = append(texts, c.FiringID, c.RunID)
		if c.Depth < 1 {
			return record{}, &store.InvalidError{Field: "Entry.Causation.Depth", Reason: "is less than 1"}
		}
		e.Causation = &c
	}
	for _, s := range texts {
		if !utf8.ValidString(s) { // JSON would replace what is not
			return record{}, &store.InvalidError{Field: "Entry.Actor or Entry.Causation", Reason: "is not valid UTF-8"}
		}
	}
	typ, err := typeOf(e.Event)
	if err != nil {
		return record{}, err
	}
	meta, err := marshal(entryMeta{e.Actor, e.Causation, e.CorrelationID, e.TraceParent})
	if err != nil {
		return record{}, &store.InvalidError{Field: "Entry", Reason: "cannot be encoded"}
	}
	r := record{entry: e, typ: typ, meta: string(meta), event: string(e.Event)}
	r.entry.Event = json.RawMessage(r.event)
	return r, nil
}

// size estimates what the record takes on its way to the database.
func (r *record) size() int { return len(r.entry.ID) + len(r.typ) + len(r.meta) + len(r.event) + 96 }

// envelope returns the record as it is in the log. clock is the time that its
// writer read.
func (r *record) envelope(ref Ref, seq, ts int64, clock time.Time) Envelope {
	return Envelope{Seq: seq, TS: stamp(ts, clock), WorkspaceID: ref.Workspace, Type: r.typ, Entry: r.entry}
}

// stamp returns the time of an event: the writer's clock, in its own zone, unless
// the log was ahead of it.
func stamp(ts int64, clock time.Time) time.Time {
	if clock.UnixMicro() == ts {
		return clock
	}
	return time.UnixMicro(ts).UTC()
}
