package store

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
)

// sample returns an Execution's JSON of about size bytes, with a context as
// applications have them: short and long texts, numbers, nested objects.
func sample(size int) string {
	e := NewExecution("orders/checkout")
	e.ID = strings.Repeat("0123456789abcdef", 2)
	e.DefinitionFQN, e.RootPath, e.ActivePath = "shop.orders/checkout@3", "/", "/paying/waiting"
	e.Status, e.CreatedAt, e.UpdatedAt = StatusRunning, 1700000000.25, 1700000123.5
	base, _ := e.appendJSON(nil, 7)
	items := []any{}
	for n := 0; len(base)+160*len(items) < size; n++ {
		items = append(items, map[string]any{
			"sku": fmt.Sprintf("SKU-%06d", n), "count": n, "price": float64(n) * 1.25, "gift": n%2 == 0,
			"note": "A sentence that says \"please\", and then some more words for its length.", "tags": []int{1, 2, 3},
		})
	}
	if len(items) > 0 {
		if err := e.Context.Set("items", items); err != nil {
			panic(err)
		}
	}
	text, err := e.appendJSON(nil, 7)
	if err != nil {
		panic(err)
	}
	return string(text)
}

func mustDecode(tb testing.TB, text string) *Execution {
	tb.Helper()
	e, err := parseExecution(text)
	if err != nil {
		tb.Fatal(err)
	}
	return e
}

func TestNewExecutionJSON(t *testing.T) {
	e := NewExecution("d<&>")
	if e.Status != StatusPending || e.Version != 0 || len(e.ID) != 32 {
		t.Errorf("a new execution: %+v", e)
	}
	const rest = `"definition_id":"d<&>","definition_fqn":null,"root_path":"","status":"PENDING","outcome":null,"error":null,` +
		`"active_path":null,"history":{},"context":{},"processed_events":0,"version":1,"priority":0,"parent_id":null,"child_id":null,` +
		`"deferred":[],"children":{},"invoke_seq":{}`
	got, err := e.appendJSON([]byte("before "), 1)
	if want := `before {"id":"` + e.ID + `",` + rest + "}"; err != nil || string(got) != want {
		t.Errorf("encoded as\n%s, want\n%s; %v", got, want, err)
	}
	e.CreatedAt, e.FinishedAt = 1700000000.125, 1e-7
	got, err = e.appendJSON(nil, 1)
	if want := `{"id":"` + e.ID + `",` + rest + `,"created_at":1700000000.125,"finished_at":1e-07}`; err != nil || string(got) != want {
		t.Errorf("encoded as\n%s, want\n%s; %v", got, want, err)
	}
}

// fullText has every known field with an unusual literal, and unknown ones.
const fullText = `{"x":{"n":9007199254740993,"n":1.0},"i\u0064":"a\/b","definition_id":"\u0064","status":"RUNN\u0049NG",` +
	`"definition_fqn":"\ud800","root_path":null,"outcome":{"a":[1e3]},"error":5,"active_path":"é😀","history":{"a":"\u0000","a":2},` +
	`"y":"<&>","context":{"big":123456789012345678901234567890,"f":1.0,"e":1E+3},"processed_events":12.0,"version":3e0,"priority":-0,` +
	`"parent_id":"","child_id":false,"deferred":[{"id":"1","n":1.50}],"children":{"c":{"root_path":"r","z":1.0,"key":7,"result":{"a":1.0}}},` +
	`"invoke_seq":{"p":1.0},"created_at":1.70e9,"updated_at":-0.0,"finished_at":null,"":0}`

func TestExecutionKeepsItsText(t *testing.T) {
	spaced := "\n" + strings.NewReplacer(`":`, "\" :\t", `,"`, " ,\r\n\"", "[", "[ ").Replace(fullText) + " "
	for name, text := range map[string]string{"compact": fullText, "spaced": spaced} {
		e, err := decodeExecution("a/b", text, 3)
		if err != nil {
			t.Fatal(name, err)
		}
		want := Execution{
			ID: "a/b", DefinitionID: "d", DefinitionFQN: "\uFFFD", Status: StatusRunning, ActivePath: "é😀", ProcessedEvents: 12, Version: 3,
			CreatedAt: 1.7e9, History: e.History, Context: e.Context, Deferred: e.Deferred, Children: e.Children, InvokeSeq: e.InvokeSeq, origin: e.origin,
		}
		if *e != want {
			t.Errorf("%s: decoded to %+v", name, *e)
		}
		if e.History.Raw() != `{"a":"\u0000","a":2}` || e.Deferred.Len() != 1 {
			t.Errorf("%s: history %s, deferred %s", name, e.History.Raw(), e.Deferred.Raw())
		}
		if got, err := e.appendJSON(nil, 3); err != nil || string(got) != fullText {
			t.Errorf("%s: encoded as\n%s, want\n%s; %v", name, got, fullText, err)
		}
		got, err := e.appendJSON(nil, 4)
		if want := strings.Replace(fullText, "3e0", "4", 1); err != nil || string(got) != want {
			t.Errorf("%s: with the next version encoded as\n%s, want\n%s; %v", name, got, want, err)
		}
	}
}

// TestExecutionChangesOneField sets each field in turn: it alone changes.
func TestExecutionChangesOneField(t *testing.T) {
	object, list := mustObject(t, `{"new":1}`), List{`[1]`}
	for name, c := range map[string]struct {
		change func(e *Execution)
		want   string
	}{
		"id":               {func(e *Execution) { e.ID = "n" }, `"n"`},
		"definition_id":    {func(e *Execution) { e.DefinitionID = "n" }, `"n"`},
		"definition_fqn":   {func(e *Execution) { e.DefinitionFQN = "" }, "null"},
		"root_path":        {func(e *Execution) { e.RootPath = `/"<` }, `"/\"<"`},
		"status":           {func(e *Execution) { e.Status = StatusDone }, `"DONE"`},
		"outcome":          {func(e *Execution) { e.Outcome = "ok" }, `"ok"`},
		"error":            {func(e *Execution) { e.Error = "\x01\xff" }, `"\u0001` + "\uFFFD" + `"`},
		"active_path":      {func(e *Execution) { e.ActivePath = "" }, "null"},
		"history":          {func(e *Execution) { e.History = Object{} }, "{}"},
		"context":          {func(e *Execution) { e.Context = object }, `{"new":1}`},
		"processed_events": {func(e *Execution) { e.ProcessedEvents++ }, "13"},
		"priority":         {func(e *Execution) { e.Priority = 4 }, "4"},
		"parent_id":        {func(e *Execution) { e.ParentID = "p" }, `"p"`},
		"child_id":         {func(e *Execution) { e.ChildID = "c" }, `"c"`},
		"deferred":         {func(e *Execution) { e.Deferred = list }, "[1]"},
		"children":         {func(e *Execution) { e.Children.Delete("c") }, "{}"},
		"invoke_seq":       {func(e *Execution) { e.InvokeSeq = object }, `{"new":1}`},
		"created_at":       {func(e *Execution) { e.CreatedAt = 0 }, "null"},
		"updated_at":       {func(e *Execution) { e.UpdatedAt = 0.5 }, "0.5"},
		"finished_at":      {func(e *Execution) { e.FinishedAt = 1e22 }, "1e+22"},
	} {
		e := mustDecode(t, fullText)
		clone := e.Clone()
		c.change(e)
		got, err := e.appendJSON(nil, 3)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		want := pairsOf(t, fullText)
		want[lastOf(want, name)].value = c.want
		if pairs := pairsOf(t, string(got)); !slices.Equal(pairs, want) {
			t.Errorf("%s: encoded as %s", name, got)
		}
		again := mustDecode(t, string(got))
		if text, err := again.appendJSON(nil, 3); err != nil || string(text) != string(got) {
			t.Errorf("%s: encoded again as %s, %v", name, text, err)
		}
		if text, err := clone.appendJSON(nil, 3); err != nil || string(text) != fullText {
			t.Errorf("%s: the change shows in a clone: %s, %v", name, text, err)
		}

		// The same change where the field was absent appends it, if it is set.
		e = mustDecode(t, `{"id":"i","definition_id":"d","status":"RUNNING","version":3}`)
		before := *e
		c.change(e)
		got, err = e.appendJSON(nil, 3)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		want = pairsOf(t, before.origin.raw)
		switch value := c.want; {
		case name == "processed_events":
			want = append(want, pair{name, "1"})
		case lastOf(want, name) >= 0:
			want[lastOf(want, name)].value = value
		case *e != before:
			want = append(want, pair{name, value})
		}
		if pairs := pairsOf(t, string(got)); !slices.Equal(pairs, want) {
			t.Errorf("%s: absent, then set, encoded as %s", name, got)
		}
	}
}

func TestExecutionAbsentVersionIsAdded(t *testing.T) {
	e, err := decodeExecution("i", `{"id":"i","definition_id":"d","status":"DONE","z":1.0}`, 9)
	if err != nil || e.Version != 9 {
		t.Fatal(e, err)
	}
	e.ChildID, e.CreatedAt = "c", 5
	got, err := e.appendJSON(nil, 10)
	if want := `{"id":"i","definition_id":"d","status":"DONE","z":1.0,"version":10,"child_id":"c","created_at":5}`; err != nil || string(got) != want {
		t.Errorf("encoded as %s, want %s; %v", got, want, err)
	}
}

func TestExecutionRepeatedFields(t *testing.T) {
	const text = `{"status":"nonsense","id":"other","version":"x","id":"i","definition_id":"d","status":"DONE","context":[],"version":1,"context":{"a":1},"id":"i"}`
	e, err := decodeExecution("i", text, 1)
	if err != nil {
		t.Fatal(err)
	}
	e.Status = StatusFailed
	e.Context = Object{}
	got, err := e.appendJSON(nil, 2)
	want := strings.NewReplacer(`"DONE"`, `"FAILED"`, `{"a":1}`, "{}", `"version":1`, `"version":2`).Replace(text)
	if err != nil || string(got) != want {
		t.Errorf("encoded as\n%s, want\n%s; %v", got, want, err)
	}
}

func TestDecodeExecutionRefuses(t *testing.T) {
	with := func(name, literal string) string {
		return `{"id":"the id","definition_id":"d","status":"DONE","` + name + `":` + literal + "}"
	}
	for text, reason := range map[string]string{
		"":      "unexpected end",
		"null":  "not a JSON object",
		"[]":    "not a JSON object",
		`"{}"`:  "not a JSON object",
		"{}":    "id is missing",
		"{":     "unexpected end",
		"{'a':": "instead of a key",
		`{"id":"other","definition_id":"d","status":"DONE"}`:                      "is another",
		`{"id":"","definition_id":"d","status":"DONE"}`:                           "id is empty",
		`{"id":5,"definition_id":"d","status":"DONE"}`:                            "id is empty or not a text",
		`{"definition_id":"d","status":"DONE"}`:                                   "id is missing",
		`{"id":"the id","status":"DONE"}`:                                         "definition_id is missing",
		`{"id":"the id","definition_id":null,"status":"DONE"}`:                    "definition_id is empty or not a text",
		`{"id":"the id","definition_id":"d"}`:                                     "status is missing",
		`{"id":"the id","definition_id":"d","status":"SECRET"}`:                   "status is not one",
		`{"id":"the id","definition_id":"d","status":"done"}`:                     "status is not one",
		`{"id":"the id","definition_id":"d","status":null}`:                       "status is not one",
		with("version", "-1"):                                                     "version is negative",
		with("version", "1.5"):                                                    "version is not an integer",
		with("version", `"1"`):                                                    "version is not an integer",
		with("version", "9223372036854775808"):                                    "version is not an integer",
		with("priority", "5"):                                                     "priority is not one of 0 to 4",
		with("priority", "-1"):                                                    "priority is not one of 0 to 4",
		with("priority", "null"):                                                  "priority is not an integer",
		with("processed_events", `"many"`):                                        "processed_events is not an integer",
		with("history", "[]"):                                                     "history is not an object",
		with("context", "null"):                                                   "context is not an object",
		with("children", `"{}"`):                                                  "children is not an object",
		with("invoke_seq", "0"):                                                   "invoke_seq is not an object",
		with("deferred", "{}"):                                                    "deferred is not an array",
		with("created_at", `"now"`):                                               "created_at is not null or a number",
		with("updated_at", "1e400"):                                               "updated_at is not null or a number",
		with("x", "1") + "SECRET":                                                 "after the end",
		with("x", "1") + "{}":                                                     "after the end",
		with("x", "01"):                                                           "unexpected character",
		with("x", "\"SECRET\xff\""):                                               "not UTF-8",
		with("x", strings.Repeat("[", maxDepth)+strings.Repeat("]", maxDepth)):    "too many nested levels",
		with("x", strings.Repeat(`{"":`, 99999)):                                  "too many nested levels",
		strings.Replace(with("x", "1"), `"DONE"`, `"DONE","status":"SECRET"`, 1):  "status is not one",
		strings.Replace(with("x", "1"), `"the id"`, `"the id","id":"SECRET"`, 1):  "is another",
		strings.Replace(with("x", "1"), `"the id"`, `"the id","i\u0064":"no"`, 1): "is another",
	} {
		_, err := decodeExecution("the id", text, 1)
		var invalid *InvalidDataError
		if !errors.As(err, &invalid) || !errors.Is(err, ErrInvalidData) {
			t.Errorf("%.60q: %v", text, err)
			continue
		}
		if invalid.ID != "the id" || !strings.Contains(invalid.Reason, reason) || !strings.Contains(err.Error(), `"the id"`) {
			t.Errorf("%.60q: %v, want %q", text, err, reason)
		}
		if strings.Contains(err.Error(), "SECRET") || len(err.Error()) > 120 {
			t.Errorf("the error quotes the data: %v", err)
		}
		if strings.Contains(reason, "another") {
			continue
		}
		e := Execution{ID: "old"}
		if err := e.UnmarshalJSON([]byte(text)); !errors.Is(err, ErrInvalidData) || e.ID != "old" {
			t.Errorf("%.60q unmarshals: %v", text, err)
		}
	}
	if _, err := decodeExecution("the id", with("x", strings.Repeat("[", maxDepth-1)+strings.Repeat("]", maxDepth-1)), 1); err != nil {
		t.Errorf("the deepest document allowed: %v", err)
	}
}

func TestExecutionRefusesToEncode(t *testing.T) {
	for name, change := range map[string]func(e *Execution){
		"no id":         func(e *Execution) { e.ID = "" },
		"no definition": func(e *Execution) { e.DefinitionID = "" },
		"status":        func(e *Execution) { e.Status = "SLEEPING" },
		"version":       func(e *Execution) { e.Version = -1 },
		"priority":      func(e *Execution) { e.Priority = 5 },
		"NaN":           func(e *Execution) { e.CreatedAt = math.NaN() },
		"infinity":      func(e *Execution) { e.FinishedAt = math.Inf(-1) },
	} {
		for _, e := range []*Execution{NewExecution("d"), mustDecode(t, fullText)} {
			change(e)
			if text, err := e.MarshalJSON(); err == nil {
				t.Errorf("%s: encoded as %s", name, text)
			}
		}
	}
}

func TestExecutionMarshalUnmarshal(t *testing.T) {
	e := NewExecution("d")
	e.Version, e.Context = 4, mustObject(t, `{"n":9007199254740993}`)
	e.token, e.tokenKnown = "t", true
	for _, v := range []any{e, *e} {
		text, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		again := Execution{token: "old", tokenKnown: true}
		if err := json.Unmarshal(text, &again); err != nil {
			t.Fatal(err)
		}
		if again.Version != 4 || again.Context != e.Context || again.ID != e.ID || again.tokenKnown || again.token != "" {
			t.Errorf("%T: %+v", v, again)
		}
	}
	clone := e.Clone()
	if *clone != *e {
		t.Error("a clone differs")
	}
}

func TestChild(t *testing.T) {
	e := mustDecode(t, fullText)
	child, found, err := e.Child("c")
	if err != nil || !found || child.RootPath != "r" || child.Key != "" || child.Finished || child.Result.Raw() != `{"a":1.0}` {
		t.Fatalf("%+v, %v, %v", child, found, err)
	}
	before := e.Children
	if err := e.SetChild("c", child); err != nil || e.Children != before {
		t.Errorf("an unchanged child changes the text to %s, %v", e.Children.Raw(), err)
	}
	child.Finished, child.Outcome = true, "<ok>"
	if err := e.SetChild("c", child); err != nil {
		t.Fatal(err)
	}
	if err := e.SetChild("new", Child{Key: "k"}); err != nil {
		t.Fatal(err)
	}
	want := `{"c":{"root_path":"r","z":1.0,"key":7,"result":{"a":1.0},"finished":true,"outcome":"<ok>"},` +
		`"new":{"root_path":"","finished":false,"outcome":null,"result":{},"submachine":null,"key":"k"}}`
	if e.Children.Raw() != want {
		t.Errorf("children are\n%s, want\n%s", e.Children.Raw(), want)
	}
	child.Key, child.RootPath, child.Finished, child.Outcome, child.Result = "k", "", false, "", Object{}
	text, err := child.MarshalJSON()
	if want := `{"root_path":"","z":1.0,"key":"k","result":{}}`; err != nil || string(text) != want {
		t.Errorf("encoded as %s, want %s; %v", text, want, err)
	}
	if _, found, err := e.Child("nobody"); found || err != nil {
		t.Errorf("a missing child: %v, %v", found, err)
	}
	if text, err := (Child{origin: mustChild(t, "{}").origin, Key: "k"}).MarshalJSON(); err != nil || string(text) != `{"key":"k"}` {
		t.Errorf("an empty child with a key: %s, %v", text, err)
	}
	for _, bad := range []string{"1", "null", `"c"`, `{"finished":1}`, `{"result":[]}`, `{"result":null}`} {
		if err := e.Children.Set("bad", json.RawMessage(bad)); err != nil {
			t.Fatal(err)
		}
		_, found, err := e.Child("bad")
		var invalid *InvalidDataError
		if !found || !errors.As(err, &invalid) || invalid.ID != e.ID || !strings.Contains(invalid.Reason, `"bad"`) {
			t.Errorf("%s as a child: %v, %v", bad, found, err)
		}
		if err := new(Child).UnmarshalJSON([]byte(bad)); !errors.Is(err, ErrInvalidData) {
			t.Errorf("%s unmarshals into a Child: %v", bad, err)
		}
	}
}

func mustChild(t *testing.T, text string) Child {
	t.Helper()
	var c Child
	if err := c.UnmarshalJSON([]byte(text)); err != nil {
		t.Fatal(err)
	}
	return c
}

func TestHotPathAllocations(t *testing.T) {
	text := sample(4 << 10)
	e := mustDecode(t, text)
	if n := testing.AllocsPerRun(50, func() {
		if _, err := decodeExecution(e.ID, text, 7); err != nil {
			t.Fatal(err)
		}
	}); n > 2 {
		t.Errorf("decoding allocates %v times", n)
	}
	e.ActivePath = "/elsewhere"
	fresh := e.Clone()
	fresh.origin = nil
	buf := make([]byte, 0, 2*len(text))
	for name, e := range map[string]*Execution{"loaded": e, "new": fresh} {
		if n := testing.AllocsPerRun(50, func() {
			if _, err := e.appendJSON(buf, 8); err != nil {
				t.Fatal(err)
			}
		}); n != 0 {
			t.Errorf("encoding a %s execution into a buffer allocates %v times", name, n)
		}
		if n := testing.AllocsPerRun(50, func() {
			if _, err := e.appendJSON(nil, 8); err != nil {
				t.Fatal(err)
			}
		}); n > 2 { // one, and another if the race detector watches
			t.Errorf("encoding a %s execution allocates %v times", name, n)
		}
	}
}

func FuzzDecodeExecution(f *testing.F) {
	f.Add(fullText, "changed")
	f.Add(sample(600), "<\xff>")
	f.Add(` { "id" : "i", "definition_id":"d" , "status":"DONE" } `, "")
	f.Add(`{"id":"i","id":"j","definition_id":"d","status":"DONE","status":"FAILED","version":1,"version":2.0,"priority":4}`, "x")
	for _, seed := range jsonSeeds {
		f.Add(seed, "x")
		f.Add(`{"id":"i","definition_id":"d","status":"DONE","version":7,"x":`+seed+"}", "x")
	}
	f.Fuzz(func(t *testing.T, text, outcome string) {
		parsed, invalid := parseExecution(text)
		if invalid != nil {
			if _, err := decodeExecution("i", text, 1); !errors.Is(err, ErrInvalidData) {
				t.Fatalf("decodeExecution: %v; parseExecution: %v", err, invalid)
			}
			return
		}
		e, err := decodeExecution(parsed.ID, text, parsed.Version)
		if err != nil {
			t.Fatal(err)
		}
		var compact bytes.Buffer
		if err := json.Compact(&compact, []byte(text)); err != nil {
			t.Fatalf("decoded, but is not JSON: %v", err)
		}
		model := pairsOf(t, text)
		want := compact.String()
		if lastOf(model, "version") < 0 {
			want = want[:len(want)-1] + `,"version":0}`
			model = append(model, pair{"version", "0"})
		}
		got, err := e.appendJSON(nil, e.Version)
		if err != nil || string(got) != want {
			t.Fatalf("encoded as\n%q, want\n%q; %v", got, want, err)
		}

		// Change two fields and the version: all else is as it was.
		set := func(name, literal string) {
			if at := lastOf(model, name); at >= 0 {
				model[at].value = literal
			} else {
				model = append(model, pair{name, literal})
			}
		}
		version := (e.Version + 1) & math.MaxInt64
		set("version", fmt.Sprint(version))
		if at := lastOf(model, "outcome"); outcome != "" && (at < 0 || e.Outcome != outcome) {
			e.Outcome = outcome
			set("outcome", string(appendQuoted(nil, outcome)))
		}
		if err := e.Context.Set("fuzz", "<&>"); err != nil {
			t.Fatal(err)
		}
		// Known fields that were absent come behind, in their order.
		changed, err := e.appendJSON(nil, version)
		if err != nil {
			t.Fatal(err)
		}
		set("context", e.Context.Raw())
		sortAppended(model, pairsOf(t, text))
		if got := pairsOf(t, string(changed)); !slices.Equal(got, model) {
			t.Fatalf("changed to\n%q, want\n%q", got, model)
		}
		again, err := decodeExecution(e.ID, string(changed), version)
		if err != nil {
			t.Fatal(err)
		}
		if fixed, err := again.appendJSON(nil, version); err != nil || string(fixed) != string(changed) {
			t.Fatalf("encoded again as\n%q, want\n%q; %v", fixed, changed, err)
		}
	})
}

// sortAppended brings the members of model behind those of original into the
// order of the known fields.
func sortAppended(model, original []pair) {
	slices.SortFunc(model[len(original):], func(a, b pair) int {
		return executionField(a.key) - executionField(b.key)
	})
}

func TestFieldTables(t *testing.T) {
	for i, name := range executionNames {
		if executionField(name) != i {
			t.Errorf("executionField(%q) = %d, want %d", name, executionField(name), i)
		}
	}
	if executionField("ID") != -1 || executionFields > maxFields || eventFields > maxFields || childFields > maxFields {
		t.Error("the field tables do not fit")
	}
}

var sampleSizes = []struct {
	name string
	size int
}{{"512B", 400}, {"100KiB", 100 << 10}}

// plainExecution is what encoding/json is compared with: the same fields, nested
// documents as raw text.
type plainExecution struct {
	ID              string          `json:"id"`
	DefinitionID    string          `json:"definition_id"`
	DefinitionFQN   *string         `json:"definition_fqn"`
	RootPath        string          `json:"root_path"`
	Status          Status          `json:"status"`
	Outcome         *string         `json:"outcome"`
	Error           *string         `json:"error"`
	ActivePath      *string         `json:"active_path"`
	History         json.RawMessage `json:"history"`
	Context         json.RawMessage `json:"context"`
	ProcessedEvents int64           `json:"processed_events"`
	Version         int64           `json:"version"`
	Priority        int             `json:"priority"`
	ParentID        *string         `json:"parent_id"`
	ChildID         *string         `json:"child_id"`
	Deferred        json.RawMessage `json:"deferred"`
	Children        json.RawMessage `json:"children"`
	InvokeSeq       json.RawMessage `json:"invoke_seq"`
	CreatedAt       *float64        `json:"created_at"`
	UpdatedAt       *float64        `json:"updated_at"`
	FinishedAt      *float64        `json:"finished_at"`
}

func benchmarkSizes(b *testing.B, run func(b *testing.B, text string)) {
	for _, s := range sampleSizes {
		b.Run(s.name, func(b *testing.B) {
			text := sample(s.size)
			b.SetBytes(int64(len(text)))
			b.ReportAllocs()
			run(b, text)
		})
	}
}

func BenchmarkEncodeNew(b *testing.B) {
	benchmarkSizes(b, func(b *testing.B, text string) {
		e := mustDecode(b, text)
		e.origin = nil
		buf := make([]byte, 0, 2*len(text)+1024)
		for b.Loop() {
			if _, err := e.appendJSON(buf[:0], 8); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func BenchmarkEncodeLoaded(b *testing.B) {
	benchmarkSizes(b, func(b *testing.B, text string) {
		e := mustDecode(b, text)
		e.ActivePath = "/paying/done"
		buf := make([]byte, 0, 2*len(text)+1024)
		for b.Loop() {
			if _, err := e.appendJSON(buf[:0], 8); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func BenchmarkDecode(b *testing.B) {
	benchmarkSizes(b, func(b *testing.B, text string) {
		id := mustDecode(b, text).ID
		for b.Loop() {
			if _, err := decodeExecution(id, text, 7); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func BenchmarkDecodeSpaced(b *testing.B) {
	benchmarkSizes(b, func(b *testing.B, text string) {
		id := mustDecode(b, text).ID
		text = strings.NewReplacer(`":`, `": `, `,"`, `, "`).Replace(text)
		for b.Loop() {
			if _, err := decodeExecution(id, text, 7); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// The encoding/json figures to hold the others against.

func BenchmarkPlainEncode(b *testing.B) {
	benchmarkSizes(b, func(b *testing.B, text string) {
		var e plainExecution
		if err := json.Unmarshal([]byte(text), &e); err != nil {
			b.Fatal(err)
		}
		for b.Loop() {
			if _, err := json.Marshal(&e); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func BenchmarkPlainDecode(b *testing.B) {
	benchmarkSizes(b, func(b *testing.B, text string) {
		for b.Loop() {
			var e plainExecution
			if err := json.Unmarshal([]byte(text), &e); err != nil {
				b.Fatal(err)
			}
		}
	})
}
