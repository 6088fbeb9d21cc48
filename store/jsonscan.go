package store

import (
	"fmt"
	"math/bits"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// This file reads and writes JSON (RFC 8259) as text. Nothing here builds a tree
// or changes a value: a document is a string, a value in it is a substring.

// maxDepth is how many objects and arrays may be open at once in a whole
// document. An [Object] or a [List] is always placed inside one, so it has one
// level less: then nothing that was built can be too deep to be loaded again.
const (
	maxDepth      = 1000
	maxValueDepth = maxDepth - 1
)

// maxText is the size in bytes from which a text is refused. Documents keep
// their offsets as uint32; databases stop well below this.
const maxText = 1<<31 - 1

// A syntaxError says what is wrong with a text and where. It never quotes it.
type syntaxError struct {
	problem string
	offset  int
}

func (e *syntaxError) Error() string {
	return fmt.Sprintf("%s at byte %d", e.problem, e.offset)
}

// A scanner checks JSON text from front to back, looking at each byte once. It
// accepts exactly what encoding/json.Valid accepts, with its own depth limit.
type scanner struct {
	text   string
	pos    int
	spaced bool // white space between tokens was passed
	wide   bool // a byte above 0x7f was passed
}

// next skips white space and returns the byte at pos, or 0 at the end. A NUL
// byte starts no token, so 0 leads to a syntax error in both cases.
func (s *scanner) next() byte {
	if s.pos < len(s.text) {
		if c := s.text[s.pos]; c > ' ' {
			return c
		}
	}
	return s.skipSpace()
}

func (s *scanner) skipSpace() byte {
	for s.pos < len(s.text) {
		c := s.text[s.pos]
		if !isSpace(c) {
			return c
		}
		s.spaced = true
		s.pos++
	}
	return 0
}

func isSpace(c byte) bool { return c == ' ' || c == '\n' || c == '\t' || c == '\r' }

func (s *scanner) fail(problem string) error {
	if s.pos >= len(s.text) {
		problem = "unexpected end"
	}
	return &syntaxError{problem, s.pos}
}

// end checks that nothing but white space follows.
func (s *scanner) end() error {
	if s.next(); s.pos < len(s.text) {
		return s.fail("unexpected character after the end")
	}
	return nil
}

// value passes one value that may open up to depth levels.
func (s *scanner) value(depth int) error {
	switch c := s.next(); c {
	case '{', '[':
		return s.container(depth)
	default:
		return s.scalar(c)
	}
}

// scalar passes a string, number or literal name that starts with c.
func (s *scanner) scalar(c byte) error {
	switch c {
	case '"':
		return s.str()
	case 't':
		return s.word("true")
	case 'f':
		return s.word("false")
	case 'n':
		return s.word("null")
	case '-', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9':
		return s.number()
	}
	return s.fail("unexpected character")
}

// container passes an object or array. It keeps one bit per open level instead
// of recursing, so it needs neither heap nor a deep stack.
func (s *scanner) container(limit int) error {
	var objects [maxDepth/64 + 1]uint64
	depth := 0
	for {
		// A value starts here.
		switch c := s.next(); c {
		case '{', '[':
			if depth >= limit {
				return s.fail("too many nested levels")
			}
			s.pos++
			object := c == '{'
			if first := s.next(); object && first == '}' || !object && first == ']' {
				s.pos++
				break
			}
			word, bit := depth>>6, uint64(1)<<(depth&63)
			depth++
			if !object {
				objects[word] &^= bit
				continue
			}
			objects[word] |= bit
			if err := s.key(); err != nil {
				return err
			}
			continue
		default:
			if err := s.scalar(c); err != nil {
				return err
			}
		}

		// A value has ended: close levels until another one starts.
		for more := false; !more; {
			if depth == 0 {
				return nil
			}
			object := objects[(depth-1)>>6]>>((depth-1)&63)&1 == 1
			switch c := s.next(); {
			case c == ',':
				s.pos++
				if object {
					if err := s.key(); err != nil {
						return err
					}
				}
				more = true
			case c == '}' && object, c == ']' && !object:
				s.pos++
				depth--
			default:
				return s.fail("unexpected character")
			}
		}
	}
}

// key passes the name of an object's member and the colon.
func (s *scanner) key() error {
	if s.next() != '"' {
		return s.fail("unexpected character instead of a key")
	}
	if err := s.str(); err != nil {
		return err
	}
	if s.next() != ':' {
		return s.fail("unexpected character instead of a colon")
	}
	s.pos++
	return nil
}

// str passes a string; pos is at its opening quote.
func (s *scanner) str() error {
	text, i, seen := s.text, s.pos+1, uint64(0)
	for {
		// Eight bytes at a time: most of a document is inside of strings.
		for i+8 <= len(text) {
			word := load64(text[i : i+8])
			seen |= word
			if special := quotes(word) | controls(word); special != 0 {
				i += bits.TrailingZeros64(special) / 8
				break
			}
			i += 8
		}
		if i >= len(text) {
			break
		}
		c := text[i]
		if c >= ' ' && c != '"' && c != '\\' { // only in the last seven bytes
			seen |= uint64(c)
			i++
			continue
		}
		if c == '"' {
			s.pos = i + 1
			s.wide = s.wide || seen&highBits != 0
			return nil
		}
		s.pos = i
		if c != '\\' {
			return s.fail("control character in a string")
		}
		if i+1 >= len(text) {
			s.pos = len(text)
			break
		}
		switch text[i+1] {
		case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
			i += 2
		case 'u':
			if _, ok := hex4(text[i+2:]); !ok {
				return s.fail("bad \\u escape in a string")
			}
			i += 6
		default:
			return s.fail("bad escape in a string")
		}
	}
	s.pos = len(text)
	return s.fail("")
}

const (
	lowBits  = 0x0101010101010101 // the lowest bit of each byte
	highBits = 0x8080808080808080 // the highest bit of each byte
)

// load64 returns the eight bytes of text, the first one lowest. The compiler
// makes it one load.
func load64(text string) uint64 {
	_ = text[7]
	return uint64(text[0]) | uint64(text[1])<<8 | uint64(text[2])<<16 | uint64(text[3])<<24 |
		uint64(text[4])<<32 | uint64(text[5])<<40 | uint64(text[6])<<48 | uint64(text[7])<<56
}

// quotes has the highest bit of each byte of word that is a quote or a backslash,
// and perhaps of bytes behind the first of them: only the lowest bit is certain.
func quotes(word uint64) uint64 {
	quote, slash := word^lowBits*'"', word^lowBits*'\\'
	return ((quote-lowBits)&^quote | (slash-lowBits)&^slash) & highBits
}

// controls does the same for control characters.
func controls(word uint64) uint64 { return (word - lowBits*' ') &^ word & highBits }

func (s *scanner) word(w string) error {
	if !strings.HasPrefix(s.text[s.pos:], w) {
		return s.fail("unexpected character")
	}
	s.pos += len(w)
	return nil
}

// number passes a number: -? int frac? exp?
func (s *scanner) number() error {
	text, i := s.text, s.pos
	if text[i] == '-' {
		i++
	}
	switch first := i; {
	case i < len(text) && text[i] == '0':
		i++
	default:
		if i = skipDigits(text, i); i == first {
			s.pos = i
			return s.fail("bad number")
		}
	}
	if i < len(text) && text[i] == '.' {
		first := i + 1
		if i = skipDigits(text, first); i == first {
			s.pos = i
			return s.fail("bad number")
		}
	}
	if i < len(text) && text[i]|0x20 == 'e' {
		i++
		if i < len(text) && (text[i] == '+' || text[i] == '-') {
			i++
		}
		first := i
		if i = skipDigits(text, first); i == first {
			s.pos = i
			return s.fail("bad number")
		}
	}
	s.pos = i
	return nil
}

func skipDigits(text string, i int) int {
	for i < len(text) && '0' <= text[i] && text[i] <= '9' {
		i++
	}
	return i
}

// hex4 reads the four hexadecimal digits that text starts with.
func hex4(text string) (rune, bool) {
	if len(text) < 4 {
		return 0, false
	}
	var r rune
	for i := range 4 {
		c := text[i]
		switch {
		case '0' <= c && c <= '9':
			c -= '0'
		case 'a' <= c && c <= 'f':
			c -= 'a' - 10
		case 'A' <= c && c <= 'F':
			c -= 'A' - 10
		default:
			return 0, false
		}
		r = r<<4 | rune(c)
	}
	return r, true
}

// check validates text as one JSON value of at most depth levels and returns it
// compact; it is text itself when no white space has to go. Unlike encoding/json
// it insists on UTF-8, which RFC 8259 demands and SQL engines may.
func check(text string, depth int) (string, error) {
	s := scanner{text: text}
	if err := s.value(depth); err != nil {
		return "", err
	}
	if err := s.finish(); err != nil {
		return "", err
	}
	if s.spaced {
		return string(appendCompact(make([]byte, 0, len(text)), text)), nil
	}
	return text, nil
}

// finish checks what can only be said about a whole text.
func (s *scanner) finish() error {
	if err := s.end(); err != nil {
		return err
	}
	if len(s.text) >= maxText {
		return &syntaxError{"text is too large", maxText}
	}
	if s.wide && !utf8.ValidString(s.text) {
		return &syntaxError{"text is not UTF-8", invalidUTF8(s.text)}
	}
	return nil
}

// invalidUTF8 returns the offset of the first byte that breaks UTF-8.
func invalidUTF8(text string) int {
	for i, r := range text {
		if r != utf8.RuneError {
			continue
		}
		if _, n := utf8.DecodeRuneInString(text[i:]); n == 1 {
			return i
		}
	}
	return len(text)
}

// appendCompact appends valid JSON text, or a part of it that starts and ends
// between tokens, without the white space between tokens.
func appendCompact(dst []byte, text string) []byte {
	from := 0
	for i := 0; i < len(text); {
		switch c := text[i]; {
		case c == '"':
			i = skipString(text, i)
		case isSpace(c):
			dst = append(dst, text[from:i]...)
			for i < len(text) && isSpace(text[i]) {
				i++
			}
			from = i
		default:
			i++
		}
	}
	return append(dst, text[from:]...)
}

// skipString returns the end of the string that starts at text[i], in valid JSON.
func skipString(text string, i int) int {
	for i++; ; {
		for i+8 <= len(text) {
			if special := quotes(load64(text[i : i+8])); special != 0 {
				i += bits.TrailingZeros64(special) / 8
				break
			}
			i += 8
		}
		switch text[i] {
		case '"':
			return i + 1
		case '\\':
			i++
		}
		i++
	}
}

// skipValue returns the end of the value that starts at text[i], in valid
// compact JSON.
func skipValue(text string, i int) int {
	depth := 0
	for i < len(text) {
		switch text[i] {
		case '"':
			if i = skipString(text, i); depth == 0 {
				return i
			}
			continue
		case '{', '[':
			depth++
		case '}', ']':
			if depth == 0 { // the end of what holds a number or a literal name
				return i
			}
			if depth--; depth == 0 {
				return i + 1
			}
		case ',':
			if depth == 0 {
				return i
			}
		}
		i++
	}
	return i
}

// unquote returns the Go string of a valid JSON string literal: a substring of
// it if there are no escapes. A lone surrogate becomes U+FFFD, as Go strings
// cannot hold one; encoding/json does the same.
func unquote(literal string) string {
	body := literal[1 : len(literal)-1]
	i := strings.IndexByte(body, '\\')
	if i < 0 {
		return body
	}
	buf := make([]byte, 0, len(body))
	for i >= 0 {
		buf = append(buf, body[:i]...)
		c := body[i+1]
		body = body[i+2:]
		switch c {
		case 'b':
			buf = append(buf, '\b')
		case 'f':
			buf = append(buf, '\f')
		case 'n':
			buf = append(buf, '\n')
		case 'r':
			buf = append(buf, '\r')
		case 't':
			buf = append(buf, '\t')
		case 'u':
			r, _ := hex4(body)
			body = body[4:]
			if utf16.IsSurrogate(r) {
				low := rune(0)
				if strings.HasPrefix(body, `\u`) {
					low, _ = hex4(body[2:])
				}
				if r = utf16.DecodeRune(r, low); r != utf8.RuneError {
					body = body[6:]
				}
			}
			buf = utf8.AppendRune(buf, r)
		default: // ", \ and /
			buf = append(buf, c)
		}
		i = strings.IndexByte(body, '\\')
	}
	return string(append(buf, body...))
}

// literalIs reports whether a JSON string literal stands for s.
func literalIs(literal, s string) bool {
	if body := literal[1 : len(literal)-1]; strings.IndexByte(body, '\\') < 0 {
		return body == s
	}
	return unquote(literal) == s
}

// appendQuoted appends s as a JSON string. It escapes only what JSON demands;
// bytes that are not UTF-8 become U+FFFD.
func appendQuoted(dst []byte, s string) []byte {
	const hex = "0123456789abcdef"
	dst = append(dst, '"')
	from := 0
	for i := 0; i < len(s); {
		c := s[i]
		if c >= ' ' && c != '"' && c != '\\' && c < utf8.RuneSelf {
			i++
			continue
		}
		if c >= utf8.RuneSelf {
			r, n := utf8.DecodeRuneInString(s[i:])
			if r == utf8.RuneError && n == 1 {
				dst = append(dst, s[from:i]...)
				dst = append(dst, "\uFFFD"...)
				from = i + 1
			}
			i += n
			continue
		}
		dst = append(dst, s[from:i]...)
		switch c {
		case '"', '\\':
			dst = append(dst, '\\', c)
		case '\b':
			dst = append(dst, '\\', 'b')
		case '\f':
			dst = append(dst, '\\', 'f')
		case '\n':
			dst = append(dst, '\\', 'n')
		case '\r':
			dst = append(dst, '\\', 'r')
		case '\t':
			dst = append(dst, '\\', 't')
		default:
			dst = append(dst, '\\', 'u', '0', '0', hex[c>>4], hex[c&0xf])
		}
		i++
		from = i
	}
	dst = append(dst, s[from:]...)
	return append(dst, '"')
}

// isNumber reports whether a valid JSON value is a number.
func isNumber(literal string) bool {
	return literal[0] == '-' || literal[0] <= '9' && literal[0] >= '0'
}

// parseInteger returns the value of a valid JSON value, if it is a number, whole
// (also when written like 1.0 or 1e3) and within int64.
func parseInteger(literal string) (int64, bool) {
	if !isNumber(literal) {
		return 0, false
	}
	if !strings.ContainsAny(literal, ".eE") {
		n, err := strconv.ParseInt(literal, 10, 64)
		return n, err == nil
	}
	// Work on decimal digits: a detour over float64 would round.
	digits, exponent := literal, int64(0)
	if i := strings.IndexAny(digits, "eE"); i >= 0 {
		// An exponent that ParseInt cannot hold comes back clamped, which is
		// enough to tell a fraction from a number out of range.
		exponent, _ = strconv.ParseInt(digits[i+1:], 10, 64)
		exponent = min(max(exponent, -1<<40), 1<<40)
		digits = digits[:i]
	}
	if whole, fraction, ok := strings.Cut(digits, "."); ok {
		fraction = strings.TrimRight(fraction, "0")
		digits = whole + fraction
		exponent -= int64(len(fraction))
	}
	if strings.Trim(digits, "-0") == "" {
		return 0, true
	}
	for exponent < 0 && strings.HasSuffix(digits, "0") {
		digits = digits[:len(digits)-1]
		exponent++
	}
	if exponent < 0 || exponent > 19 {
		return 0, false
	}
	n, err := strconv.ParseInt(digits+"0000000000000000000"[:exponent], 10, 64)
	return n, err == nil
}

// parseFloat returns the value of a valid JSON value, if it is a number that
// float64 can hold.
func parseFloat(literal string) (float64, bool) {
	if !isNumber(literal) {
		return 0, false
	}
	f, err := strconv.ParseFloat(literal, 64)
	return f, err == nil
}
