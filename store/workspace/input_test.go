package workspace_test

import (
	"errors"
	"testing"

	"github.com/quorate/quorate/store/workspace"
)

// TestTextsThatJSONWouldChangeAreRefused: what is stored is what the caller gets
// back, or nothing.
func TestTextsThatJSONWouldChangeAreRefused(t *testing.T) {
	s := openStore(t, openEngine(t, ""))
	for _, change := range []func(e *workspace.Entry){
		func(e *workspace.Entry) { e.Actor.Name = "\xff" },
		func(e *workspace.Entry) { e.Actor.ClientID = "a\xc3" },
		func(e *workspace.Entry) { e.Causation = &workspace.Causation{Depth: 1, RunID: "\xed\xa0\x80"} },
	} {
		e := entry("a")
		change(&e)
		if _, err := s.Append(t.Context(), ref, e); !errors.Is(err, workspace.ErrInvalid) {
			t.Errorf("%+v: got %v", e, err)
		}
	}
}

func TestAPayloadMayNotHaveATypeOfItsOwn(t *testing.T) {
	for _, payload := range []any{map[string]any{"a": 1, "type": "b"}, struct {
		Kind string `json:"type"`
	}{"b"}} {
		if e, err := workspace.NewEvent("a", payload); !errors.Is(err, workspace.ErrInvalid) {
			t.Errorf("%v became %s, %v", payload, e, err)
		}
	}
	for want, payload := range map[string]any{
		`{"type":"a"}`:                        struct{}{},
		`{"type":"a","Type":"b","Path":"\\"}`: struct{ Type, Path string }{"b", `\`},
		`{"type":"a","of":{"type":"b"}}`:      map[string]any{"of": map[string]any{"type": "b"}},
	} {
		if e, err := workspace.NewEvent("a", payload); err != nil || string(e) != want {
			t.Errorf("%v became %s, %v", payload, e, err)
		}
	}
}

// TestAnIDThatIsGivenTwiceIsNoMismatch: there is nothing in the log that it could
// differ from.
func TestAnIDThatIsGivenTwiceIsNoMismatch(t *testing.T) {
	s := openStore(t, openEngine(t, ""))
	if _, err := s.Append(t.Context(), ref, entry("a"), entry("a")); !errors.Is(err, workspace.ErrDuplicate) || errors.Is(err, workspace.ErrMismatch) {
		t.Errorf("got %v", err)
	}
}
