package store

import (
	"bytes"
	"encoding/json"
	"errors"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

func TestNewID(t *testing.T) {
	form := regexp.MustCompile("^[0-9a-f]{32}$")
	seen := map[string]bool{}
	for range 1000 {
		id := NewID()
		if !form.MatchString(id) || seen[id] {
			t.Fatalf("id %q is malformed or repeated", id)
		}
		seen[id] = true
	}
}

func TestNewEvent(t *testing.T) {
	before := time.Now()
	e, err := NewEvent("paid", map[string]any{"html": "<b>", "n": 1})
	if err != nil {
		t.Fatal(err)
	}
	if e.CreatedTime.Before(before.Round(0)) || e.CreatedTime.Location() != time.UTC || len(e.ID) != 32 {
		t.Errorf("a new event: %+v", e)
	}
	text, err := e.appendJSON(nil)
	want := `{"id":"` + e.ID + `","kind":"paid","created_time":"` + e.CreatedTime.Format(time.RFC3339Nano) +
		`","received_time":null,"data":{"html":"<b>","n":1}}`
	if err != nil || string(text) != want {
		t.Errorf("encoded as %s, want %s", text, want)
	}
	var again Event
	if err := json.Unmarshal(text, &again); err != nil || again.ID != e.ID || !again.CreatedTime.Equal(e.CreatedTime) || again.Data != e.Data {
		t.Errorf("decoded to %+v, %v", again, err)
	}
	if empty, err := NewEvent("k", nil); err != nil || empty.Data != (Object{}) {
		t.Errorf("no data: %v, %v", empty.Data, err)
	}
	for _, data := range []any{1, "x", func() {}} {
		if _, err := NewEvent("k", data); err == nil {
			t.Errorf("data %v is accepted", data)
		}
	}
}

func TestEventKeepsItsText(t *testing.T) {
	const text = `{"v":1.0,"kind":"a\u0062","id":"e\/1","created_time":"2024-05-06T07:08:09.1234567890+02:00","x":"\ud800",` +
		`"received_time":"yesterday","data":{"n":9007199254740993,"d":1,"d":2}}`
	var e Event
	if err := e.UnmarshalJSON([]byte(strings.ReplaceAll(text, ",", " , "))); err != nil {
		t.Fatal(err)
	}
	if e.ID != "e/1" || e.Kind != "ab" || !e.CreatedTime.Equal(time.Date(2024, 5, 6, 5, 8, 9, 123456789, time.UTC)) || !e.ReceivedTime.IsZero() {
		t.Errorf("decoded to %+v", e)
	}
	if got, err := e.appendJSON(nil); err != nil || string(got) != text {
		t.Errorf("encoded as %s, %v", got, err)
	}
	e.CreatedTime = e.CreatedTime.UTC() // the same instant
	e.ReceivedTime = time.Date(2025, 1, 2, 3, 4, 5, 6, time.UTC)
	want := strings.Replace(text, "yesterday", "2025-01-02T03:04:05.000000006Z", 1)
	if got, err := e.appendJSON(nil); err != nil || string(got) != want {
		t.Errorf("encoded as %s, want %s; %v", got, want, err)
	}
	e.ReceivedTime = time.Time{}
	if got, err := e.appendJSON(nil); err != nil || string(got) != text {
		t.Errorf("changed back and encoded as %s, %v", got, err)
	}
	e.CreatedTime = time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)
	if got, err := e.appendJSON(nil); err == nil {
		t.Errorf("the year 10000 is encoded as %s", got)
	}
}

func TestEventAbsentFields(t *testing.T) {
	e, err := parseEvent(`{"id":"1"}`)
	if err != nil {
		t.Fatal(err)
	}
	if got, _ := e.appendJSON(nil); string(got) != `{"id":"1"}` {
		t.Errorf("encoded as %s", got)
	}
	e.Kind = "k"
	if err := e.Data.Set("a", 1); err != nil {
		t.Fatal(err)
	}
	if got, _ := e.appendJSON(nil); string(got) != `{"id":"1","kind":"k","data":{"a":1}}` {
		t.Errorf("encoded as %s", got)
	}
}

func TestEventRefuses(t *testing.T) {
	for _, text := range []string{
		"", "null", "[]", "{}", `{"id":1}`, `{"id":""}`, `{"id":"a","kind":1}`, `{"id":"a","data":[]}`, `{"id":"a","data":null}`,
		`{"id":"a"}{}`, `{"id":"a",}`, "{\"id\":\"\xff\"}", `{"id":"a","d":` + strings.Repeat("[", maxDepth) + strings.Repeat("]", maxDepth) + "}",
	} {
		e := Event{ID: "old"}
		err := e.UnmarshalJSON([]byte(text))
		var invalid *InvalidDataError
		if !errors.As(err, &invalid) || !errors.Is(err, ErrInvalidData) || e.ID != "old" {
			t.Errorf("%.40q: %v", text, err)
		}
	}
	if text, err := (Event{}).MarshalJSON(); err == nil {
		t.Errorf("an event without an id is encoded as %s", text)
	}
}

func FuzzEvent(f *testing.F) {
	f.Add(`{"id":"1","kind":"k","created_time":"2024-01-01T00:00:00Z","received_time":null,"data":{}}`)
	f.Add(`{"id":"1","id":"2","kind":"k","kind":"\u006c","x":[1.0],"data":{"a":1,"a":2}}`)
	f.Add(` { "\u0069d" : "1" , "created_time" : 5, "received_time":"2024-01-01T00:00:00.123456789123+01:00" } `)
	f.Add(`{"id":"\ud800","created_time":"0001-01-01T00:00:00Z","received_time":"2024-01-01T00:00:00+25:00"}`)
	f.Fuzz(func(t *testing.T, text string) {
		e, err := parseEvent(text)
		if err != nil {
			if !errors.Is(err, ErrInvalidData) {
				t.Fatal(err)
			}
			return
		}
		var want bytes.Buffer
		if err := json.Compact(&want, []byte(text)); err != nil {
			t.Fatalf("decoded, but is not JSON: %v", err)
		}
		got, err := e.appendJSON(nil)
		if err != nil || string(got) != want.String() {
			t.Fatalf("encoded as %q, want %q; %v", got, want.String(), err)
		}

		// A change shows in its own field and nowhere else.
		e.Kind += "+"
		changed, err := e.appendJSON(nil)
		if err != nil {
			t.Fatal(err)
		}
		model := pairsOf(t, text)
		if at := lastOf(model, "kind"); at >= 0 {
			model[at].value = string(appendQuoted(nil, e.Kind))
		} else {
			model = append(model, pair{"kind", string(appendQuoted(nil, e.Kind))})
		}
		if got := pairsOf(t, string(changed)); !slices.Equal(got, model) {
			t.Fatalf("changed to %q, want %q", got, model)
		}
		again, err := parseEvent(string(changed))
		if err != nil || again.Kind != e.Kind || again.ID != e.ID || !utf8.ValidString(again.Kind) {
			t.Fatalf("decoded again to %+v, %v", again, err)
		}
	})
}
