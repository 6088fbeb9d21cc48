package store

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// pair is a member of an object as encoding/json sees it.
type pair struct {
	key   string
	value string // literal
}

// pairsOf lists an object's members in order, repeated keys too, by another road
// than the code under test.
func pairsOf(t *testing.T, text string) []pair {
	t.Helper()
	decoder := json.NewDecoder(strings.NewReader(text))
	if token, err := decoder.Token(); err != nil || token != json.Delim('{') {
		t.Fatalf("%q is not an object: %v", text, err)
	}
	var pairs []pair
	for decoder.More() {
		key, err := decoder.Token()
		if err != nil {
			t.Fatal(err)
		}
		var value json.RawMessage
		if err := decoder.Decode(&value); err != nil {
			t.Fatal(err)
		}
		var compact bytes.Buffer
		if err := json.Compact(&compact, value); err != nil {
			t.Fatal(err)
		}
		pairs = append(pairs, pair{key.(string), compact.String()})
	}
	return pairs
}

func lastOf(pairs []pair, key string) int {
	for i := len(pairs) - 1; i >= 0; i-- {
		if pairs[i].key == key {
			return i
		}
	}
	return -1
}

func mustObject(t *testing.T, raw string) Object {
	t.Helper()
	o, err := ParseObject(raw)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// TestObjectAgainstModel does random steps on an Object and on a list of pairs.
func TestObjectAgainstModel(t *testing.T) {
	keys := []string{"a", "b", "", "é", `q"\`, "\x00", "\uFFFD", "long key number one"}
	literals := []string{"1.0", "9007199254740993", `"\ud800"`, `"\u0000"`, `{"x":1,"x":2}`, "[]", `[{"y":[1e3]}]`, "null", `"<&>"`}
	random := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		var o Object
		var model []pair
		if random.IntN(2) == 0 {
			o = mustObject(t, `{"a":1,"\u0061":2.0,"\ud800":3, "b" : [ 4 ]}`)
			model = []pair{{"a", "1"}, {"a", "2.0"}, {"\uFFFD", "3"}, {"b", "[4]"}}
		}
		for range 30 {
			key, literal := keys[random.IntN(len(keys))], literals[random.IntN(len(literals))]
			before, text := o, o.Raw()
			switch at := lastOf(model, key); random.IntN(3) {
			case 0, 1:
				if err := o.Set(key, json.RawMessage(literal)); err != nil {
					t.Fatal(err)
				}
				if at >= 0 {
					model[at].value = literal
				} else {
					model = append(model, pair{key, literal})
				}
			case 2:
				if o.Delete(key) != (at >= 0) {
					t.Fatalf("Delete(%q) disagrees with the model", key)
				}
				model = slices.DeleteFunc(model, func(p pair) bool { return p.key == key })
			}
			if before.Raw() != text {
				t.Fatal("a change shows in a copy")
			}
			if got := pairsOf(t, o.Raw()); !slices.Equal(got, model) {
				t.Fatalf("object %v, model %v", got, model)
			}
			checkObjectReads(t, o, model)
		}
	}
}

func checkObjectReads(t *testing.T, o Object, model []pair) {
	t.Helper()
	var keys []string
	for _, p := range model {
		if !slices.Contains(keys, p.key) {
			keys = append(keys, p.key)
		}
	}
	if !slices.Equal(o.Keys(), keys) || o.Len() != len(keys) {
		t.Fatalf("Keys %q, Len %d; want %q", o.Keys(), o.Len(), keys)
	}
	for _, key := range keys {
		var got json.RawMessage
		found, err := o.Get(key, &got)
		if want := model[lastOf(model, key)].value; err != nil || !found || string(got) != want || !o.Has(key) {
			t.Fatalf("Get(%q) = %s, %v, %v; want %s", key, got, found, err, want)
		}
	}
	var got any = "untouched"
	if found, err := o.Get("no such key", &got); found || err != nil || got != "untouched" || o.Has("no such key") {
		t.Fatalf("Get of a missing key: %v, %v, %v", got, found, err)
	}
}

func TestObjectValues(t *testing.T) {
	var o Object
	type inner struct {
		Name string `json:"name"`
		HTML string `json:"html"`
	}
	for _, c := range []struct {
		value any
		want  string
	}{
		{nil, "null"}, {true, "true"}, {-5, "-5"}, {int64(1) << 62, "4611686018427387904"}, {1.5, "1.5"}, {"<a&b>\n", `"<a&b>\n"`},
		{inner{"n", "<b>"}, `{"name":"n","html":"<b>"}`}, {json.Number("1.50"), "1.50"}, {json.RawMessage(" [ 1.0 ] "), "[1.0]"},
		{json.RawMessage(nil), "null"}, {Object{}, "{}"}, {List{}, "[]"}, {mustObject(t, `{"z":1e3}`), `{"z":1e3}`},
		{map[string]any{"b": "<", "a": []int{1}}, `{"a":[1],"b":"<"}`}, {struct{ O Object }{mustObject(t, `{"h":"<"}`)}, `{"O":{"h":"<"}}`},
	} {
		if err := o.Set("k", c.value); err != nil {
			t.Errorf("Set(%v): %v", c.value, err)
		}
		if got := o.Raw(); got != `{"k":`+c.want+`}` {
			t.Errorf("Set(%v): %s", c.value, got)
		}
	}

	o = mustObject(t, `{"s":"é\u0041","n":1.50,"o":{"a":1},"l":[1,2],"null":null}`)
	var s string
	var n json.Number
	var sub Object
	var list List
	for key, v := range map[string]any{"s": &s, "n": &n, "o": &sub, "l": &list} {
		if found, err := o.Get(key, v); !found || err != nil {
			t.Errorf("Get(%q): %v, %v", key, found, err)
		}
	}
	if s != "éA" || n != "1.50" || sub.Raw() != `{"a":1}` || list.Raw() != "[1,2]" {
		t.Errorf("got %q, %s, %s, %s", s, n, sub.Raw(), list.Raw())
	}
	if found, err := o.Get("l", &sub); !found || !errors.Is(err, ErrInvalidData) || sub.Raw() != `{"a":1}` {
		t.Errorf("an array read into an Object: %v, %v, %s", found, err, sub.Raw())
	}
	if found, err := o.Get("s", &list); !found || err == nil {
		t.Errorf("a text read into a List: %v, %v", found, err)
	}
	var whole struct{ S string }
	if err := o.Decode(&whole); err != nil || whole.S != "éA" {
		t.Errorf("Decode: %v, %+v", err, whole)
	}
	if err := o.Decode(new(int)); err == nil {
		t.Error("an object decodes into an int")
	}
}

func TestObjectRefuses(t *testing.T) {
	deep := func(n int) json.RawMessage { return json.RawMessage(strings.Repeat("[", n) + strings.Repeat("]", n)) }
	o := mustObject(t, `{"a":1}`)
	before := o
	for name, err := range map[string]error{
		"channel":         o.Set("a", make(chan int)),
		"bad raw":         o.Set("a", json.RawMessage("{")),
		"two values":      o.Set("a", json.RawMessage("1,2")),
		"injection":       o.Set("b", json.RawMessage(`1,"c":2`)),
		"empty raw":       o.Set("b", json.RawMessage("")),
		"raw not UTF-8":   o.Set("a", json.RawMessage("\"\xff\"")),
		"key not UTF-8":   o.Set("\xff", 1),
		"too deep":        o.Set("a", deep(maxValueDepth)),
		"too deep at end": o.Set("b", deep(maxValueDepth)),
	} {
		if err == nil {
			t.Errorf("%s is accepted", name)
		}
	}
	if o != before {
		t.Errorf("a refused Set changed the object to %s", o.Raw())
	}
	if err := o.Set("a", deep(maxValueDepth-1)); err != nil {
		t.Errorf("the deepest value allowed: %v", err)
	}
	for _, raw := range []string{"", "[]", "null", "1", `{"a":1}x`, "{", "{\"a\":\"\xff\"}"} {
		if _, err := ParseObject(raw); !errors.Is(err, ErrInvalidData) {
			t.Errorf("ParseObject(%q): %v", raw, err)
		}
		if err := json.Unmarshal([]byte(raw), new(Object)); err == nil && raw != "null" {
			t.Errorf("an Object unmarshals from %q", raw)
		}
	}
	for _, v := range []any{1, "{}", []int{1}, nil, json.RawMessage("[]"), make(chan int)} {
		if _, err := NewObject(v); err == nil {
			t.Errorf("NewObject(%v) is accepted", v)
		}
	}
}

// TestDeepObjectsCanBeLoaded: the deepest text that can be put into an Execution
// still decodes.
func TestDeepObjectsCanBeLoaded(t *testing.T) {
	n := maxValueDepth
	deepest := mustObject(t, strings.Repeat(`{"a":`, n)+"1"+strings.Repeat("}", n))
	e := NewExecution("d")
	e.Context = deepest
	text, err := e.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := decodeExecution(e.ID, string(text), 0); err != nil {
		t.Error(err)
	}
	if err := e.SetChild("c", Child{Result: deepest}); err == nil {
		t.Error("a child deeper than can be loaded is accepted")
	}
	if err := e.Deferred.Append(deepest); err == nil {
		t.Error("an element deeper than can be loaded is accepted")
	}
}

func TestObjectZeroAndEqual(t *testing.T) {
	var zero Object
	parsed := mustObject(t, " { } ")
	if parsed != zero || zero.Raw() != "{}" || zero.Len() != 0 || zero.Keys() != nil {
		t.Error("an empty object is not the zero Object")
	}
	if err := parsed.Set("a", 1); err != nil || !parsed.Delete("a") || parsed != zero {
		t.Errorf("an emptied object is %q", parsed.raw)
	}
	if o, err := NewObject(struct{}{}); err != nil || o != zero {
		t.Errorf("NewObject of an empty struct: %q, %v", o.raw, err)
	}
	text, err := json.Marshal(struct {
		O Object
		L List
	}{})
	if err != nil || string(text) != `{"O":{},"L":[]}` {
		t.Errorf("zero values marshal to %s, %v", text, err)
	}
}

func TestList(t *testing.T) {
	var l List
	if l.Len() != 0 || l.Raw() != "[]" {
		t.Errorf("the zero List: %d, %s", l.Len(), l.Raw())
	}
	want := "["
	for i := range 5 {
		copied, text := l, l.Raw()
		if err := l.Append(map[string]any{"n": i, "t": "<,]"}); err != nil {
			t.Fatal(err)
		}
		if copied.Raw() != text {
			t.Error("an Append shows in a copy")
		}
		if i > 0 {
			want += ","
		}
		want += fmt.Sprintf(`{"n":%d,"t":"<,]"}`, i)
		if l.Raw() != want+"]" || l.Len() != i+1 {
			t.Fatalf("%d: %s", l.Len(), l.Raw())
		}
	}
	var decoded []struct{ N int }
	if err := l.Decode(&decoded); err != nil || len(decoded) != 5 || decoded[4].N != 4 {
		t.Errorf("Decode: %v, %v", decoded, err)
	}
	before := l
	if err := l.Append(func() {}); err == nil || l != before {
		t.Errorf("Append of a function: %v", err)
	}
	parsed, err := ParseList(` [ 1.0 , "a b" , [ ] ] `)
	if err != nil || parsed.Raw() != `[1.0,"a b",[]]` || parsed.Len() != 3 {
		t.Errorf("ParseList: %s, %v", parsed.Raw(), err)
	}
	for _, raw := range []string{"{}", "", "[", "[1]]", "null"} {
		if _, err := ParseList(raw); !errors.Is(err, ErrInvalidData) {
			t.Errorf("ParseList(%q): %v", raw, err)
		}
	}
	if err := json.Unmarshal([]byte("null"), &parsed); err != nil || parsed.Len() != 3 {
		t.Errorf("null changed a List: %v", err)
	}
}

func FuzzObjectSet(f *testing.F) {
	for _, raw := range []string{"{}", `{"a":1,"a":2}`, `{"\u0061":1.0,"b":{"a":[1]}}`, ` { "a" : 1 } `, `{"\ud800":1}`, `{"a":"}"}`} {
		for _, key := range []string{"a", "b", "", "\uFFFD", "\xff", `"`} {
			f.Add(raw, key, "x<y")
		}
	}
	f.Fuzz(func(t *testing.T, raw, key, value string) {
		o, err := ParseObject(raw)
		if err != nil {
			if !errors.Is(err, ErrInvalidData) {
				t.Fatal(err)
			}
			return
		}
		model := pairsOf(t, raw)
		if err := o.Set(key, value); err != nil {
			if strings.ToValidUTF8(key, "") == key {
				t.Fatal(err)
			}
			return
		}
		literal := string(appendQuoted(nil, value))
		if at := lastOf(model, key); at >= 0 {
			model[at].value = literal
		} else {
			model = append(model, pair{key, literal})
		}
		if got := pairsOf(t, o.Raw()); !slices.Equal(got, model) {
			t.Fatalf("object %q, want %q", got, model)
		}
		checkObjectReads(t, o, model)
		if again := mustObject(t, o.Raw()); again != o {
			t.Fatal("the object's text parses to another object")
		}
		if !o.Delete(key) || o.Has(key) || o.Delete(key) {
			t.Fatal("Delete does not delete")
		}
		mustObject(t, o.Raw())
	})
}
