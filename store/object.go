package store

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
)

// Object is a JSON object kept as its literal text: what you do not touch stays
// as it was written, with numbers beyond 2^53, escapes, key order and repeated
// keys. The zero value is {}.
//
// An Object is a value. Copying one is cheap, and a change to a copy never shows
// in the other. Reading is safe for concurrent use; changing one Object is not
// safe beside other uses of the same variable.
//
// White space between tokens is not kept, so two Objects are equal by == if they
// have the same text apart from it.
//
// If a key is repeated, the last of its values counts: [Object.Get] returns it,
// [Object.Set] replaces it, and the earlier ones stay as they are.
//
// An Object is valid JSON in UTF-8 with at most 999 nested levels. What is not is
// refused when it is parsed or set.
type Object struct {
	raw string // compact; "" stands for {}
}

// ParseObject returns the JSON object in raw. Any other text is refused with an
// [*InvalidDataError].
func ParseObject(raw string) (Object, error) {
	text, err := parseContainer(raw, '{', "object")
	return makeObject(text), err
}

// NewObject encodes v as JSON, as [Object.Set] does, and returns the Object it
// makes. v must encode to a JSON object: a struct or a map, for example.
func NewObject(v any) (Object, error) {
	if o, ok := v.(Object); ok {
		return o, nil
	}
	buf, err := appendValue(nil, v, maxValueDepth)
	if err != nil {
		return Object{}, err
	}
	if buf[0] != '{' {
		return Object{}, fmt.Errorf("store: %T does not encode to a JSON object", v)
	}
	return makeObject(string(buf)), nil
}

// makeObject wraps valid compact text.
func makeObject(raw string) Object {
	if raw == "{}" {
		raw = ""
	}
	return Object{raw}
}

// Raw returns the object's JSON text, without white space between tokens. It
// does not copy.
func (o Object) Raw() string {
	if o.raw == "" {
		return "{}"
	}
	return o.raw
}

// Get decodes the value of key into v, a pointer, as encoding/json does. It
// returns false, and leaves v alone, if there is no such key. To keep a number as
// it is written, decode into a json.Number, a json.RawMessage, an Object or a
// List.
func (o Object) Get(key string, v any) (found bool, err error) {
	m, ok := o.find(key)
	if !ok {
		return false, nil
	}
	literal := o.raw[m.start:m.end]
	switch v := v.(type) { // without the detour over encoding/json
	case *Object:
		if v != nil && literal[0] == '{' {
			*v = makeObject(literal)
			return true, nil
		}
	case *List:
		if v != nil && literal[0] == '[' {
			*v = makeList(literal)
			return true, nil
		}
	case *string:
		if v != nil && literal[0] == '"' {
			*v = unquote(literal)
			return true, nil
		}
	}
	if err := json.Unmarshal([]byte(literal), v); err != nil {
		return true, fmt.Errorf("store: decode the value of key %q: %w", key, err)
	}
	return true, nil
}

// Has reports whether the object has the key.
func (o Object) Has(key string) bool {
	_, ok := o.find(key)
	return ok
}

// Set encodes v as JSON and makes it the value of key: in place if the key is
// there, else as the last member. All other text stays as it is. It copies the
// object's text once, so to set many keys of a large object, build a struct or a
// map and use [NewObject].
//
// v is encoded as encoding/json does, but without HTML escaping. A
// json.RawMessage is checked and then kept literally, apart from white space
// between tokens. Set fails, and changes nothing, if v cannot be encoded or is
// nested too deep, or if key is not UTF-8.
func (o *Object) Set(key string, v any) error {
	raw, err := o.with(key, v)
	if err != nil {
		return fmt.Errorf("store: set key %q: %w", key, err)
	}
	o.raw = raw
	return nil
}

func (o Object) with(key string, v any) (string, error) {
	var scratch [128]byte
	m, ok := o.find(key)
	if ok {
		value, err := appendValue(scratch[:0], v, maxValueDepth-1)
		if err != nil {
			return "", err
		}
		return o.raw[:m.start] + string(value) + o.raw[m.end:], nil
	}
	if invalidUTF8(key) < len(key) {
		return "", &syntaxError{"key is not UTF-8", invalidUTF8(key)}
	}
	head, buf := "{", scratch[:0]
	if o.raw != "" {
		head, buf = o.raw[:len(o.raw)-1], append(buf, ',')
	}
	buf = append(appendQuoted(buf, key), ':')
	buf, err := appendValue(buf, v, maxValueDepth-1)
	if err != nil {
		return "", err
	}
	return head + string(append(buf, '}')), nil
}

// Delete removes the key, with all its values if it is repeated, and reports
// whether it was there.
func (o *Object) Delete(key string) bool {
	if !o.Has(key) {
		return false
	}
	buf := make([]byte, 0, len(o.raw))
	buf = append(buf, '{')
	for m := (member{}); m.next(o.raw); {
		if m.is(o.raw, key) {
			continue
		}
		if len(buf) > 1 {
			buf = append(buf, ',')
		}
		buf = append(buf, o.raw[m.key:m.end]...)
	}
	*o = makeObject(string(append(buf, '}')))
	return true
}

// Keys returns the keys in the order of their first appearance, each once. It is
// nil for an empty object.
func (o Object) Keys() []string {
	var keys []string
	var seen map[string]struct{}
	for m := (member{}); m.next(o.raw); {
		key := unquote(o.raw[m.key : m.start-1])
		if seen == nil {
			seen = make(map[string]struct{})
		}
		if _, ok := seen[key]; !ok {
			seen[key] = struct{}{}
			keys = append(keys, key)
		}
	}
	return keys
}

// Len returns the number of different keys.
func (o Object) Len() int { return len(o.Keys()) }

// Decode decodes the whole object into v, a pointer, as encoding/json does.
func (o Object) Decode(v any) error {
	if err := json.Unmarshal([]byte(o.Raw()), v); err != nil {
		return fmt.Errorf("store: decode an object: %w", err)
	}
	return nil
}

// MarshalJSON returns the object's text. Note that json.Marshal escapes <, > and
// & in what it gets from here; a json.Encoder with SetEscapeHTML(false) does not.
func (o Object) MarshalJSON() ([]byte, error) { return []byte(o.Raw()), nil }

// UnmarshalJSON replaces the object by the one in data, which must be a JSON
// object. As with other types, null changes nothing. Errors are those of
// [ParseObject].
func (o *Object) UnmarshalJSON(data []byte) error {
	if string(data) == "null" {
		return nil
	}
	parsed, err := ParseObject(string(data))
	if err == nil {
		*o = parsed
	}
	return err
}

// find returns the last member of that key.
func (o Object) find(key string) (found member, ok bool) {
	for m := (member{}); m.next(o.raw); {
		if m.is(o.raw, key) {
			found, ok = m, true
		}
	}
	return found, ok
}

// A member is a position in the compact text of an object: the offset of a key's
// literal and the span of its value. The zero value is before the first one.
type member struct{ key, start, end int }

// next moves to the next member, if there is one.
func (m *member) next(raw string) bool {
	m.key = m.end + 1 // behind the brace or the comma
	if m.key >= len(raw) || raw[m.key] == '}' {
		return false
	}
	m.start = skipString(raw, m.key) + 1
	m.end = skipValue(raw, m.start)
	return true
}

func (m *member) is(raw, key string) bool { return literalIs(raw[m.key:m.start-1], key) }

// List is a JSON array kept as its literal text. All that is said about [Object]
// holds for it too. The zero value is [].
type List struct {
	raw string // compact; "" stands for []
}

// ParseList returns the JSON array in raw. Any other text is refused with an
// [*InvalidDataError].
func ParseList(raw string) (List, error) {
	text, err := parseContainer(raw, '[', "array")
	return makeList(text), err
}

// makeList wraps valid compact text.
func makeList(raw string) List {
	if raw == "[]" {
		raw = ""
	}
	return List{raw}
}

// Raw returns the array's JSON text, without white space between tokens. It does
// not copy.
func (l List) Raw() string {
	if l.raw == "" {
		return "[]"
	}
	return l.raw
}

// Len returns the number of elements.
func (l List) Len() int {
	n := 0
	for i := 1; i < len(l.raw); n++ {
		i = skipValue(l.raw, i) + 1
	}
	return n
}

// Append encodes v as [Object.Set] does and adds it at the end. It copies the
// array's text once. It fails, and changes nothing, if v cannot be encoded or is
// nested too deep.
func (l *List) Append(v any) error {
	var scratch [128]byte
	head, buf := "[", scratch[:0]
	if l.raw != "" {
		head, buf = l.raw[:len(l.raw)-1], append(buf, ',')
	}
	buf, err := appendValue(buf, v, maxValueDepth-1)
	if err != nil {
		return fmt.Errorf("store: append to a list: %w", err)
	}
	l.raw = head + string(append(buf, ']'))
	return nil
}

// Decode decodes the whole array into v, a pointer, as encoding/json does.
func (l List) Decode(v any) error {
	if err := json.Unmarshal([]byte(l.Raw()), v); err != nil {
		return fmt.Errorf("store: decode a list: %w", err)
	}
	return nil
}

// MarshalJSON returns the array's text. See [Object.MarshalJSON] about HTML
// escaping.
func (l List) MarshalJSON() ([]byte, error) { return []byte(l.Raw()), nil }

// UnmarshalJSON replaces the array by the one in data, which must be a JSON
// array. As with other types, null changes nothing. Errors are those of
// [ParseList].
func (l *List) UnmarshalJSON(data []byte) error {
	if string(data) == "null" {
		return nil
	}
	parsed, err := ParseList(string(data))
	if err == nil {
		*l = parsed
	}
	return err
}

// parseContainer returns the compact text of a JSON object or array.
func parseContainer(raw string, open byte, what string) (string, error) {
	text, err := check(raw, maxValueDepth)
	if err != nil {
		return "", &InvalidDataError{Reason: err.Error()}
	}
	if s := (scanner{text: text}); s.next() != open {
		return "", &InvalidDataError{Reason: "not a JSON " + what}
	}
	return text, nil
}

// appendValue appends v as compact JSON of at most depth levels.
func appendValue(dst []byte, v any, depth int) ([]byte, error) {
	switch v := v.(type) { // without the detour over encoding/json
	case nil:
		return append(dst, "null"...), nil
	case string:
		return appendQuoted(dst, v), nil
	case bool:
		return strconv.AppendBool(dst, v), nil
	case int:
		return strconv.AppendInt(dst, int64(v), 10), nil
	case int64:
		return strconv.AppendInt(dst, v, 10), nil
	case json.RawMessage:
		if v == nil {
			return append(dst, "null"...), nil
		}
		return appendChecked(dst, string(v), depth)
	case Object:
		return appendChecked(dst, v.Raw(), depth)
	case List:
		return appendChecked(dst, v.Raw(), depth)
	}
	var buf bytes.Buffer
	encoder := json.NewEncoder(&buf)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(v); err != nil {
		return nil, err
	}
	return appendChecked(dst, buf.String(), depth) // also drops the final newline
}

func appendChecked(dst []byte, text string, depth int) ([]byte, error) {
	text, err := check(text, depth)
	return append(dst, text...), err
}
