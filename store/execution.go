package store

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
)

// ErrInvalidData is what every [*InvalidDataError] is, for errors.Is.
var ErrInvalidData = errors.New("store: invalid data")

// InvalidDataError reports stored or given JSON that is not what it should be: an
// [Execution], an [Event], a [Child], an [Object] or a [List].
type InvalidDataError struct {
	// ID is the id of the row or document at fault, or "" where it has none.
	ID string
	// Reason says what is wrong and where. It never quotes the data.
	Reason string
}

// Error names the id and the reason.
func (e *InvalidDataError) Error() string {
	if e.ID == "" {
		return ErrInvalidData.Error() + ": " + e.Reason
	}
	return ErrInvalidData.Error() + " of " + strconv.Quote(e.ID) + ": " + e.Reason
}

// Unwrap returns [ErrInvalidData].
func (e *InvalidDataError) Unwrap() error { return ErrInvalidData }

// Execution is the state of one run of a definition: what the store keeps under
// an id, as one JSON document.
//
// An Execution that was loaded remembers the text it came from. When it is
// encoded again, each field that still has its loaded value keeps its literal
// text, and so do fields of the document that are not known here. Optional fields
// that were absent read as their defaults and stay absent until they are set.
//
// For the fields that may be null, "" or 0 means null. A text field whose stored
// value is neither text nor null reads as "", and keeps its value until it is set.
//
// An Execution is not safe for concurrent use; a [Execution.Clone] of it is
// independent.
type Execution struct {
	// ID identifies the Execution. By default 32 lower-case hexadecimal digits.
	ID string
	// DefinitionID names the definition that runs.
	DefinitionID string
	// DefinitionFQN is the fully qualified name of the definition, or "".
	DefinitionFQN string
	// RootPath is the path in the definition at which the run starts.
	RootPath string
	// Status is PENDING in a new Execution.
	Status Status
	// Outcome tells how the run ended, or "".
	Outcome string
	// Error is what made the run fail, or "".
	Error string
	// ActivePath is the path in the definition where the run stands, or "".
	ActivePath string
	// History and Context belong to the application.
	History Object
	Context Object
	// ProcessedEvents is a counter of the application's. The store never changes it.
	ProcessedEvents int64
	// Version is the version at which the Execution was loaded, 0 if it never was
	// stored. The store counts it, a commit tests it.
	Version int64
	// Priority is 0 to 4, by default 0.
	Priority int
	// ParentID and ChildID are the ids of the Execution that spawned this one, and
	// of this one among its parent's children, or "".
	ParentID string
	ChildID  string
	// Deferred are events put aside to be handled later.
	Deferred List
	// Children maps the ids of children to what is known of them: see
	// [Execution.Child] and [Execution.SetChild].
	Children Object
	// InvokeSeq maps a path to the number of invocations there.
	InvokeSeq Object
	// CreatedAt, UpdatedAt and FinishedAt are seconds since 1970-01-01 UTC, 0 for
	// null. The store never changes them.
	CreatedAt  float64
	UpdatedAt  float64
	FinishedAt float64

	origin     *jsonDocument // what it was decoded from, or nil
	token      string        // the commit token of the loaded version
	tokenKnown bool
	// baseDefinition and baseStatus are what the row has in its indexed columns,
	// if tokenKnown.
	baseDefinition string
	baseStatus     Status
}

// The known fields of an Execution's JSON, in the order in which a new one has them.
const (
	fieldID = iota
	fieldDefinitionID
	fieldDefinitionFQN
	fieldRootPath
	fieldStatus
	fieldOutcome
	fieldError
	fieldActivePath
	fieldHistory
	fieldContext
	fieldProcessedEvents
	fieldVersion
	fieldPriority
	fieldParentID
	fieldChildID
	fieldDeferred
	fieldChildren
	fieldInvokeSeq
	fieldCreatedAt // from here on, a new document has only what is set
	fieldUpdatedAt
	fieldFinishedAt
	executionFields
)

var executionNames = [executionFields]string{
	"id", "definition_id", "definition_fqn", "root_path", "status", "outcome", "error",
	"active_path", "history", "context", "processed_events", "version", "priority",
	"parent_id", "child_id", "deferred", "children", "invoke_seq", "created_at",
	"updated_at", "finished_at",
}

// executionField is the index of key in executionNames, or -1. Decoding calls it
// for each key, and a switch is faster than a map or a loop.
func executionField(key string) int {
	switch key {
	case "id":
		return fieldID
	case "definition_id":
		return fieldDefinitionID
	case "definition_fqn":
		return fieldDefinitionFQN
	case "root_path":
		return fieldRootPath
	case "status":
		return fieldStatus
	case "outcome":
		return fieldOutcome
	case "error":
		return fieldError
	case "active_path":
		return fieldActivePath
	case "history":
		return fieldHistory
	case "context":
		return fieldContext
	case "processed_events":
		return fieldProcessedEvents
	case "version":
		return fieldVersion
	case "priority":
		return fieldPriority
	case "parent_id":
		return fieldParentID
	case "child_id":
		return fieldChildID
	case "deferred":
		return fieldDeferred
	case "children":
		return fieldChildren
	case "invoke_seq":
		return fieldInvokeSeq
	case "created_at":
		return fieldCreatedAt
	case "updated_at":
		return fieldUpdatedAt
	case "finished_at":
		return fieldFinishedAt
	}
	return -1
}

const maxPriority = 4

// NewExecution returns a new Execution of a definition, to be changed and then
// committed: with a new id ([NewID]), status PENDING and version 0.
func NewExecution(definitionID string) *Execution {
	return &Execution{ID: NewID(), DefinitionID: definitionID, Status: StatusPending}
}

// Clone returns an independent copy. It is cheap: the texts are shared, and
// nothing can change them.
func (e *Execution) Clone() *Execution {
	clone := *e
	return &clone
}

// MarshalJSON returns the Execution as compact JSON, with its Version. It fails
// for what could not be loaded again, such as an unknown status or a time that is
// not a number. Note that json.Marshal escapes <, > and & in what it gets from
// here; a json.Encoder with SetEscapeHTML(false) does not.
func (e Execution) MarshalJSON() ([]byte, error) { return e.appendJSON(nil, e.Version) }

// UnmarshalJSON replaces the Execution by the one in data. It fails with an
// [*InvalidDataError] if data is not an Execution. The result is not tied to a
// stored row by anything but its ID and Version.
func (e *Execution) UnmarshalJSON(data []byte) error {
	parsed, err := parseExecution(string(data))
	if err != nil {
		return err
	}
	*e = *parsed
	return nil
}

// appendJSON appends the Execution as compact JSON, with the given version.
func (e *Execution) appendJSON(dst []byte, version int64) ([]byte, error) {
	if err := e.encodable(version); err != nil {
		return nil, err
	}
	size := 512 + len(e.History.raw) + len(e.Context.raw) + len(e.Children.raw) +
		len(e.InvokeSeq.raw) + len(e.Deferred.raw) + len(e.Outcome) + len(e.Error)
	if e.origin != nil { // a change adds at most what it puts in
		size = max(size, len(e.origin.raw)+64)
	}
	dst = slices.Grow(dst, size)
	return appendFields(dst, e.origin, executionNames[:], fieldCreatedAt, versioned{e, version})
}

// encodable refuses what JSON cannot hold and what decoding would refuse.
func (e *Execution) encodable(version int64) error {
	switch {
	case e.ID == "":
		return errors.New("store: an execution without an id")
	case e.DefinitionID == "":
		return fmt.Errorf("store: execution %q has no definition id", e.ID)
	case !e.Status.Valid():
		return fmt.Errorf("store: execution %q has the unknown status %q", e.ID, string(e.Status))
	case version < 0:
		return fmt.Errorf("store: execution %q has the negative version %d", e.ID, version)
	case e.Priority < 0 || e.Priority > maxPriority:
		return fmt.Errorf("store: execution %q has priority %d, not one of 0 to %d", e.ID, e.Priority, maxPriority)
	}
	for _, t := range [...]float64{e.CreatedAt, e.UpdatedAt, e.FinishedAt} {
		if math.IsNaN(t) || math.IsInf(t, 0) {
			return fmt.Errorf("store: execution %q has the time %v, which JSON cannot hold", e.ID, t)
		}
	}
	return nil
}

// decodeExecution returns the Execution in data, the row of that id and version.
// The texts in it share data's memory. Its errors are [*InvalidDataError].
func decodeExecution(id, data string, version int64) (*Execution, error) {
	e, err := parseExecution(data)
	if err != nil {
		return nil, &InvalidDataError{ID: id, Reason: err.Reason}
	}
	if e.ID != id {
		return nil, &InvalidDataError{ID: id, Reason: "the id in the document is another"}
	}
	e.Version = version
	return e, nil
}

// parseExecution decodes a document by itself. It returns the concrete error
// type, for decodeExecution to put the row's id in.
func parseExecution(text string) (*Execution, *InvalidDataError) {
	d, err := parseDocument(text, executionField)
	if err != nil {
		return nil, &InvalidDataError{Reason: err.Error()}
	}
	e := &Execution{origin: d}
	for _, field := range d.order[:d.count] {
		if problem := e.read(int(field), d.literal(int(field))); problem != "" {
			return nil, &InvalidDataError{ID: e.ID, Reason: executionNames[field] + " " + problem}
		}
	}
	for _, field := range [...]int{fieldID, fieldDefinitionID, fieldStatus} {
		if d.literal(field) == "" {
			return nil, &InvalidDataError{ID: e.ID, Reason: executionNames[field] + " is missing"}
		}
	}
	return e, nil
}

// read sets a field from its JSON. It returns what is wrong with it, or "".
func (e *Execution) read(field int, literal string) (problem string) {
	if text := e.text(field); text != nil {
		if literal[0] == '"' {
			*text = unquote(literal)
		}
		switch field {
		case fieldID, fieldDefinitionID:
			if *text == "" {
				return "is empty or not a text"
			}
		case fieldStatus:
			if !e.Status.Valid() {
				return "is not one that is known"
			}
		}
		return ""
	}
	if object := e.object(field); object != nil {
		if literal[0] != '{' {
			return "is not an object"
		}
		*object = makeObject(literal)
		return ""
	}
	if seconds := e.seconds(field); seconds != nil {
		var ok bool
		if *seconds, ok = parseFloat(literal); !ok && literal != "null" {
			return "is not null or a number in the range of float64"
		}
		return ""
	}
	if field == fieldDeferred {
		if literal[0] != '[' {
			return "is not an array"
		}
		e.Deferred = makeList(literal)
		return ""
	}
	n, ok := parseInteger(literal)
	switch {
	case !ok:
		return "is not an integer in the range of int64"
	case field == fieldProcessedEvents:
		e.ProcessedEvents = n
	case field == fieldVersion:
		if n < 0 {
			return "is negative"
		}
		e.Version = n
	case field == fieldPriority:
		if n < 0 || n > maxPriority {
			return "is not one of 0 to 4"
		}
		e.Priority = int(n)
	}
	return ""
}

// text returns the Go field of a text field, or nil for other fields.
func (e *Execution) text(field int) *string {
	switch field {
	case fieldID:
		return &e.ID
	case fieldDefinitionID:
		return &e.DefinitionID
	case fieldDefinitionFQN:
		return &e.DefinitionFQN
	case fieldRootPath:
		return &e.RootPath
	case fieldStatus:
		return (*string)(&e.Status)
	case fieldOutcome:
		return &e.Outcome
	case fieldError:
		return &e.Error
	case fieldActivePath:
		return &e.ActivePath
	case fieldParentID:
		return &e.ParentID
	case fieldChildID:
		return &e.ChildID
	}
	return nil
}

// object returns the Go field of an object, or nil for other fields.
func (e *Execution) object(field int) *Object {
	switch field {
	case fieldHistory:
		return &e.History
	case fieldContext:
		return &e.Context
	case fieldChildren:
		return &e.Children
	case fieldInvokeSeq:
		return &e.InvokeSeq
	}
	return nil
}

// seconds returns the Go field of a time, or nil for other fields.
func (e *Execution) seconds(field int) *float64 {
	switch field {
	case fieldCreatedAt:
		return &e.CreatedAt
	case fieldUpdatedAt:
		return &e.UpdatedAt
	case fieldFinishedAt:
		return &e.FinishedAt
	}
	return nil
}

// versioned is an Execution to be encoded with a version that it does not have.
type versioned struct {
	*Execution
	version int64
}

func (v versioned) integer(field int) int64 {
	switch field {
	case fieldVersion:
		return v.version
	case fieldPriority:
		return int64(v.Priority)
	default:
		return v.ProcessedEvents
	}
}

func (v versioned) keeps(field int, literal string) bool {
	if text := v.text(field); text != nil {
		return keepsText(literal, *text)
	}
	if object := v.object(field); object != nil {
		return literal == object.Raw()
	}
	if seconds := v.seconds(field); seconds != nil {
		old, _ := parseFloat(literal)
		return old == *seconds
	}
	if field == fieldDeferred {
		return literal == v.Deferred.Raw()
	}
	old, ok := parseInteger(literal)
	return ok && old == v.integer(field)
}

func (v versioned) sets(field int) bool {
	if text := v.text(field); text != nil {
		return *text != ""
	}
	if object := v.object(field); object != nil {
		return *object != Object{}
	}
	if seconds := v.seconds(field); seconds != nil {
		return *seconds != 0
	}
	if field == fieldDeferred {
		return v.Deferred != List{}
	}
	return field == fieldVersion || v.integer(field) != 0
}

func (v versioned) appendField(dst []byte, field int) ([]byte, error) {
	if text := v.text(field); text != nil {
		if *text == "" && field != fieldRootPath {
			return append(dst, "null"...), nil
		}
		return appendQuoted(dst, *text), nil
	}
	if object := v.object(field); object != nil {
		return append(dst, object.Raw()...), nil
	}
	if seconds := v.seconds(field); seconds != nil {
		return appendSeconds(dst, *seconds), nil
	}
	if field == fieldDeferred {
		return append(dst, v.Deferred.Raw()...), nil
	}
	return strconv.AppendInt(dst, v.integer(field), 10), nil
}

// keepsText reports whether a text field still has the value of its literal,
// where "" stands for all that is not a text.
func keepsText(literal, text string) bool {
	if literal[0] != '"' {
		return text == ""
	}
	return literalIs(literal, text)
}

// appendSeconds appends a time that [Execution.encodable] has passed.
func appendSeconds(dst []byte, seconds float64) []byte {
	if seconds == 0 {
		return append(dst, "null"...)
	}
	format := byte('f')
	if abs := math.Abs(seconds); abs < 1e-6 || abs >= 1e21 {
		format = 'e'
	}
	return strconv.AppendFloat(dst, seconds, format, -1, 64)
}
