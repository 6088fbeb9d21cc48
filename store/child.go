package store

import (
	"encoding/json"
	"fmt"
	"strconv"
)

// Child is what an Execution knows of one of its children, decoded. Like an
// Execution, it remembers the text it came from. For the text fields, "" means
// null; a stored value that is neither text nor null reads as "" and keeps its
// value until the field is set.
type Child struct {
	// RootPath is the path in the definition at which the child starts.
	RootPath string
	// Finished tells whether the child has ended.
	Finished bool
	// Outcome tells how the child ended, or "".
	Outcome string
	// Result is what the child left.
	Result Object
	// Submachine names the definition the child runs, or "".
	Submachine string
	// Key is the application's name for the child, or "".
	Key string

	origin *jsonDocument
}

// The known fields of a child's JSON, in the order in which a new one has them.
const (
	childRootPath = iota
	childFinished
	childOutcome
	childResult
	childSubmachine
	childKey
	childFields
)

var childNames = [childFields]string{"root_path", "finished", "outcome", "result", "submachine", "key"}

func childField(key string) int { return indexOf(childNames[:], key) }

// Child returns the child of that id, and false if there is none. If what is
// stored there is not a child, it fails with an [*InvalidDataError] that names
// the Execution.
func (e *Execution) Child(id string) (child Child, found bool, err error) {
	m, found := e.Children.find(id)
	if !found {
		return Child{}, false, nil
	}
	child, invalid := parseChild(e.Children.raw[m.start:m.end])
	if invalid != nil {
		return Child{}, true, &InvalidDataError{ID: e.ID, Reason: fmt.Sprintf("child %q: %s", id, invalid.Reason)}
	}
	return child, true, nil
}

// SetChild makes child the child of that id: in place if there is one, else as
// the last. Errors are those of [Object.Set].
func (e *Execution) SetChild(id string, child Child) error {
	text, err := child.MarshalJSON()
	if err != nil {
		return err
	}
	return e.Children.Set(id, json.RawMessage(text))
}

// MarshalJSON returns the child as compact JSON. Note that json.Marshal escapes
// <, > and & in what it gets from here; a json.Encoder with SetEscapeHTML(false)
// does not.
func (c Child) MarshalJSON() ([]byte, error) {
	return appendFields(nil, c.origin, childNames[:], childFields, &c)
}

// UnmarshalJSON replaces the child by the one in data. It fails with an
// [*InvalidDataError] if data is not a JSON object, or if its result is not an
// object or finished not a boolean.
func (c *Child) UnmarshalJSON(data []byte) error {
	parsed, err := parseChild(string(data))
	if err != nil {
		return err
	}
	*c = parsed
	return nil
}

func parseChild(text string) (Child, *InvalidDataError) {
	d, err := parseDocument(text, childField)
	if err != nil {
		return Child{}, &InvalidDataError{Reason: err.Error()}
	}
	c := Child{origin: d}
	for _, field := range d.order[:d.count] {
		literal := d.literal(int(field))
		switch field {
		case childFinished:
			if literal != "true" && literal != "false" {
				return Child{}, &InvalidDataError{Reason: "finished is not a boolean"}
			}
			c.Finished = literal == "true"
		case childResult:
			if literal[0] != '{' {
				return Child{}, &InvalidDataError{Reason: "result is not an object"}
			}
			c.Result = makeObject(literal)
		default:
			if literal[0] == '"' {
				*c.text(int(field)) = unquote(literal)
			}
		}
	}
	return c, nil
}

// text returns the Go field of a text field.
func (c *Child) text(field int) *string {
	switch field {
	case childRootPath:
		return &c.RootPath
	case childOutcome:
		return &c.Outcome
	case childSubmachine:
		return &c.Submachine
	default:
		return &c.Key
	}
}

func (c *Child) keeps(field int, literal string) bool {
	switch field {
	case childFinished:
		return literal == strconv.FormatBool(c.Finished)
	case childResult:
		return literal == c.Result.Raw()
	default:
		return keepsText(literal, *c.text(field))
	}
}

func (c *Child) sets(field int) bool {
	switch field {
	case childFinished:
		return c.Finished
	case childResult:
		return c.Result != Object{}
	default:
		return *c.text(field) != ""
	}
}

func (c *Child) appendField(dst []byte, field int) ([]byte, error) {
	switch field {
	case childFinished:
		return strconv.AppendBool(dst, c.Finished), nil
	case childResult:
		return append(dst, c.Result.Raw()...), nil
	}
	text := *c.text(field)
	if text == "" && field != childRootPath {
		return append(dst, "null"...), nil
	}
	return appendQuoted(dst, text), nil
}
