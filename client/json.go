package client

import (
	"fmt"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// maxDepth bounds the nesting of JSON that is skipped.
const maxDepth = 64

// parser walks over one JSON text.
type parser struct {
	data    []byte
	pos     int
	scratch []byte
}

func (p *parser) fault(what string) error {
	return fmt.Errorf("answer, byte %d: %s", p.pos, what)
}

func (p *parser) space() {
	for p.pos < len(p.data) {
		switch p.data[p.pos] {
		case ' ', '\t', '\n', '\r':
			p.pos++
		default:
			return
		}
	}
}

// peek returns the next byte that is not white space, or 0 at the end.
func (p *parser) peek() byte {
	p.space()
	if p.pos == len(p.data) {
		return 0
	}
	return p.data[p.pos]
}

func (p *parser) expect(c byte) error {
	if p.peek() != c {
		return p.fault("expected " + strconv.QuoteRune(rune(c)))
	}
	p.pos++
	return nil
}

// object reads an object and calls field for each key; field reads the value.
// The key is valid only until field reads on.
func (p *parser) object(field func(key []byte) error) error {
	if err := p.expect('{'); err != nil {
		return err
	}
	if p.peek() == '}' {
		p.pos++
		return nil
	}
	for {
		p.space()
		key, err := p.rawString()
		if err != nil {
			return err
		}
		if err := p.expect(':'); err != nil {
			return err
		}
		if err := field(key); err != nil {
			return err
		}
		switch p.peek() {
		case ',':
			p.pos++
		case '}':
			p.pos++
			return nil
		default:
			return p.fault("expected ',' or '}'")
		}
	}
}

// array reads an array and calls element for each element; element reads it.
func (p *parser) array(element func() error) error {
	if err := p.expect('['); err != nil {
		return err
	}
	if p.peek() == ']' {
		p.pos++
		return nil
	}
	for {
		if err := element(); err != nil {
			return err
		}
		switch p.peek() {
		case ',':
			p.pos++
		case ']':
			p.pos++
			return nil
		default:
			return p.fault("expected ',' or ']'")
		}
	}
}

// number reads the text of a number; whole says that it has neither fraction
// nor exponent.
func (p *parser) number() (tok []byte, whole bool, err error) {
	p.space()
	start := p.pos
	d := p.data
	digits := func() bool {
		from := p.pos
		for p.pos < len(d) && d[p.pos] >= '0' && d[p.pos] <= '9' {
			p.pos++
		}
		return p.pos > from
	}
	if p.pos < len(d) && d[p.pos] == '-' {
		p.pos++
	}
	first := p.pos
	if !digits() || (d[first] == '0' && p.pos > first+1) {
		p.pos = start
		return nil, false, p.fault("not a value")
	}
	whole = true
	if p.pos < len(d) && d[p.pos] == '.' {
		whole = false
		p.pos++
		if !digits() {
			return nil, false, p.fault("bad number")
		}
	}
	if p.pos < len(d) && (d[p.pos] == 'e' || d[p.pos] == 'E') {
		whole = false
		p.pos++
		if p.pos < len(d) && (d[p.pos] == '+' || d[p.pos] == '-') {
			p.pos++
		}
		if !digits() {
			return nil, false, p.fault("bad number")
		}
	}
	return d[start:p.pos], whole, nil
}

func (p *parser) literal(word string) error {
	if len(p.data)-p.pos < len(word) || string(p.data[p.pos:p.pos+len(word)]) != word {
		return p.fault("not a value")
	}
	p.pos += len(word)
	return nil
}

// null reads a null, if there is one.
func (p *parser) null() bool {
	return p.peek() == 'n' && p.literal("null") == nil
}

func (p *parser) stringOrNull() (s string, null bool, err error) {
	if p.null() {
		return "", true, nil
	}
	s, err = p.string()
	return s, false, err
}

// string reads a string and returns a copy.
func (p *parser) string() (string, error) {
	p.space()
	raw, err := p.rawString()
	return string(raw), err
}

// rawString reads a string. The bytes are valid until the next call.
func (p *parser) rawString() ([]byte, error) {
	d := p.data
	if p.pos >= len(d) || d[p.pos] != '"' {
		return nil, p.fault("expected a string")
	}
	start := p.pos + 1
	for i := start; i < len(d); i++ {
		switch c := d[i]; {
		case c == '"':
			p.pos = i + 1
			return d[start:i], nil
		case c == '\\':
			return p.escapedString(start, i)
		case c < 0x20:
			p.pos = i
			return nil, p.fault("control character in a string")
		}
	}
	p.pos = len(d)
	return nil, p.fault("string does not end")
}

// escapedString reads on at the first escape of a string.
func (p *parser) escapedString(start, i int) ([]byte, error) {
	d := p.data
	out := append(p.scratch[:0], d[start:i]...)
	for i < len(d) {
		// Copy what needs no change in one go.
		run := i
		for i < len(d) && d[i] != '"' && d[i] != '\\' && d[i] >= 0x20 {
			i++
		}
		out = append(out, d[run:i]...)
		if i == len(d) {
			break
		}
		switch {
		case d[i] == '"':
			p.pos = i + 1
			p.scratch = out
			return out, nil
		case d[i] < 0x20:
			p.pos = i
			return nil, p.fault("control character in a string")
		}
		i++
		if i == len(d) {
			break
		}
		switch d[i] {
		case '"', '\\', '/':
			out = append(out, d[i])
		case 'b':
			out = append(out, '\b')
		case 'f':
			out = append(out, '\f')
		case 'n':
			out = append(out, '\n')
		case 'r':
			out = append(out, '\r')
		case 't':
			out = append(out, '\t')
		case 'u':
			r, ok := hex4(d, i+1)
			if !ok {
				p.pos = i
				return nil, p.fault("bad escape")
			}
			i += 4
			if utf16.IsSurrogate(r) {
				r2 := rune(utf8.RuneError)
				if i+2 < len(d) && d[i+1] == '\\' && d[i+2] == 'u' {
					if low, ok := hex4(d, i+3); ok {
						r2 = utf16.DecodeRune(r, low)
					}
				}
				if r2 != utf8.RuneError {
					i += 6
				}
				r = r2
			}
			out = utf8.AppendRune(out, r)
		default:
			p.pos = i
			return nil, p.fault("bad escape")
		}
		i++
	}
	p.pos = len(d)
	return nil, p.fault("string does not end")
}

func hex4(d []byte, at int) (rune, bool) {
	if at+4 > len(d) {
		return 0, false
	}
	r := rune(0)
	for _, c := range d[at : at+4] {
		switch {
		case c >= '0' && c <= '9':
			r = r<<4 | rune(c-'0')
		case c >= 'a' && c <= 'f':
			r = r<<4 | rune(c-'a'+10)
		case c >= 'A' && c <= 'F':
			r = r<<4 | rune(c-'A'+10)
		default:
			return 0, false
		}
	}
	return r, true
}

// skip reads any value and forgets it.
func (p *parser) skip() error { return p.skipAt(0) }

func (p *parser) skipAt(depth int) error {
	if depth > maxDepth {
		return p.fault("nested too deeply")
	}
	switch p.peek() {
	case '{':
		return p.object(func([]byte) error { return p.skipAt(depth + 1) })
	case '[':
		return p.array(func() error { return p.skipAt(depth + 1) })
	case '"':
		_, err := p.rawString()
		return err
	case 't':
		return p.literal("true")
	case 'f':
		return p.literal("false")
	case 'n':
		return p.literal("null")
	}
	_, _, err := p.number()
	return err
}
