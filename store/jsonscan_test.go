package store

import (
	"bytes"
	"encoding/json"
	"math/big"
	"strings"
	"testing"
	"unicode/utf8"
)

// jsonSeeds are texts at the edges of the grammar, good and bad.
var jsonSeeds = []string{
	"", " ", "{}", "[]", "null", "true", "false", "nul", "tru", "truex", "nullnull", `""`, `"`, `"\`, `"\"`, `"\u12`, `"\u123g"`,
	`"\ud800"`, `"\ud83d\ude00"`, `"\ud800\u0041"`, `"\ud800\ud800\udc00"`, `"\u0000"`, "\"\x00\"", "\"\x1f\"", "\"\x7f\"",
	`"\/\b\f\n\r\t\"\\"`, `"\a"`, "0", "-0", "-", "01", "1.", ".1", "1.0", "1e3", "1E+3", "1e", "1e+", "-1.5e-10", "+1", "0x1", "1e400",
	"9007199254740993", "123456789012345678901234567890123456789012345678901234567890", "[1,2,]", "[,]", "[1 2]", "{,}", `{"a"}`,
	`{"a":}`, `{"a":1,}`, `{"a":1 "b":2}`, `{a:1}`, `{1:1}`, `{"a":1}}`, `[}`, `{]`, "[[[[[]]]]", "[[[[]]]]", `{"a":{"b":[{"c":[]}]}}`,
	" \t\r\n{ \"a\" : [ 1 , \"x y\" ] } \n", "\v1", "\u00a01", "\xef\xbb\xbf1", "\"\xff\"", "\"é😀 \"", "\"12345678\xff90\"", `{"a":1,"a":2}`,
	"1 2", "[1]\x00", "\x00", `"12345678\"90123456\\789"`, "\"1234567\x01890\"", "[0,-1,1.25,\"\",{},[]]",
	strings.Repeat("[", maxDepth) + strings.Repeat("]", maxDepth), strings.Repeat("[", maxDepth+1) + strings.Repeat("]", maxDepth+1),
	strings.Repeat(`{"a":[`, 40) + strings.Repeat(`]}`, 40), strings.Repeat(`{"a":[`, 40) + strings.Repeat(`}]`, 40),
}

// depthOf counts nested levels in valid JSON by another road than the scanner.
func depthOf(t *testing.T, text string) int {
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.UseNumber()
	depth, deepest := 0, 0
	for {
		token, err := decoder.Token()
		if err != nil {
			if depth != 0 {
				t.Fatalf("tokens end early: %v", err)
			}
			return deepest
		}
		switch token {
		case json.Delim('{'), json.Delim('['):
			depth++
			deepest = max(deepest, depth)
		case json.Delim('}'), json.Delim(']'):
			depth--
		}
	}
}

func checkScan(t *testing.T, text string) {
	t.Helper()
	s := scanner{text: text}
	err := s.value(maxDepth)
	if err == nil {
		err = s.end()
	}
	valid := json.Valid([]byte(text))
	if err == nil != valid {
		if valid && depthOf(t, text) > maxDepth {
			return
		}
		t.Fatalf("json.Valid %v, scanner: %v", valid, err)
	}
	if !valid {
		return
	}
	if wide := strings.ContainsFunc(text, func(r rune) bool { return r >= utf8.RuneSelf }); wide && !s.wide {
		t.Fatal("the scanner missed that there is more than ASCII")
	}

	var want bytes.Buffer
	if err := json.Compact(&want, []byte(text)); err != nil {
		t.Fatal(err)
	}
	compact, err := check(text, maxDepth)
	if utf8.ValidString(text) != (err == nil) {
		t.Fatalf("UTF-8 %v, check: %v", utf8.ValidString(text), err)
	}
	if err != nil {
		return
	}
	if compact != want.String() {
		t.Fatalf("compact %q, want %q", compact, want.String())
	}
	if s.spaced != (compact != text) {
		t.Fatalf("spaced %v, although compact text differs: %v", s.spaced, compact != text)
	}
	if end := skipValue(compact, 0); end != len(compact) {
		t.Fatalf("skipValue stopped at %d of %d", end, len(compact))
	}

	switch {
	case compact[0] == '"':
		var want string
		if err := json.Unmarshal([]byte(compact), &want); err != nil {
			t.Fatal(err)
		}
		got := unquote(compact)
		if got != want {
			t.Fatalf("unquote %q, want %q", got, want)
		}
		if !literalIs(compact, want) || literalIs(compact, want+"x") {
			t.Fatal("literalIs disagrees with unquote")
		}
	case isNumber(compact):
		checkNumber(t, compact)
	}
}

func checkNumber(t *testing.T, literal string) {
	t.Helper()
	if len(literal) > 400 || strings.Count(literal, "e")+strings.Count(literal, "E") > 0 && len(literal[strings.IndexAny(literal, "eE"):]) > 5 {
		return // math/big would expand the exponent
	}
	exact, ok := new(big.Rat).SetString(literal)
	if !ok {
		t.Fatalf("math/big refuses %q", literal)
	}
	n, got := parseInteger(literal)
	want := exact.IsInt() && exact.Num().IsInt64()
	if got != want || want && n != exact.Num().Int64() {
		t.Fatalf("parseInteger(%q) = %d, %v; want %v, %v", literal, n, got, exact, want)
	}
}

func FuzzScan(f *testing.F) {
	for _, seed := range jsonSeeds {
		f.Add(seed)
	}
	f.Fuzz(checkScan)
}

func FuzzQuote(f *testing.F) {
	for _, seed := range []string{"", "a", "\x00\x1f\x7f\"\\/", "é😀\u2028", "\xff", "a\xc3", "\xed\xa0\x80", "<&>", "\uFFFD"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, s string) {
		literal := string(appendQuoted(nil, s))
		var decoded string
		if err := json.Unmarshal([]byte(literal), &decoded); err != nil {
			t.Fatalf("%q: %v", literal, err)
		}
		var want strings.Builder
		for _, r := range s { // a byte that is not UTF-8 becomes U+FFFD
			want.WriteRune(r)
		}
		if decoded != want.String() || unquote(literal) != decoded {
			t.Fatalf("%q: encoding/json reads %q, unquote %q, want %q", literal, decoded, unquote(literal), want.String())
		}
		if !utf8.ValidString(literal) {
			t.Fatalf("%q is not UTF-8", literal)
		}
	})
}

func TestScanDepth(t *testing.T) {
	for _, open := range []string{"[", `{"a":`} {
		closing := map[string]string{"[": "]", `{"a":`: "}"}[open]
		for depth := 1; depth <= maxDepth; depth += 37 {
			text := strings.Repeat(open, depth) + "1" + strings.Repeat(closing, depth)
			if _, err := check(text, depth); err != nil {
				t.Fatalf("%d levels of %s: %v", depth, open, err)
			}
			if _, err := check(text, depth-1); err == nil || !strings.Contains(err.Error(), "too many nested levels") {
				t.Fatalf("%d levels of %s with one less allowed: %v", depth, open, err)
			}
		}
	}
}

func TestParseIntegerRange(t *testing.T) {
	for literal, want := range map[string]int64{
		"9223372036854775807": 1<<63 - 1, "-9223372036854775808": -1 << 63, "0e99999999999999999999": 0, "-0.000e-5": 0,
		"1e18": 1e18, "9223372036854775807.000": 1<<63 - 1, "92233720368547758070e-1": 1<<63 - 1, "0.0012e4": 12, "1200e-2": 12,
	} {
		if n, ok := parseInteger(literal); !ok || n != want {
			t.Errorf("parseInteger(%s) = %d, %v", literal, n, ok)
		}
	}
	for _, literal := range []string{
		"9223372036854775808", "1e19", "1e20", "1.5e30", "1e99999999999999999999", "1e-99999999999999999999", "1.5", "12e-1", "null", `"1"`, "{}", "true",
	} {
		if n, ok := parseInteger(literal); ok {
			t.Errorf("parseInteger(%s) = %d", literal, n)
		}
	}
}

func TestScanDoesNotAllocate(t *testing.T) {
	text := sample(4 << 10)
	if n := testing.AllocsPerRun(50, func() {
		s := scanner{text: text}
		if s.value(maxDepth) != nil {
			t.Fatal("the sample is not valid")
		}
	}); n != 0 {
		t.Errorf("a scan allocates %v times", n)
	}
}
