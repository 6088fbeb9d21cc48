package store

// A jsonDocument is a JSON object with some known fields, kept as the compact text
// it was loaded from. It is immutable, so copies of what was loaded share it.
//
// It remembers only where the values of known fields are. All else (keys, fields
// it does not know, earlier values of a repeated key) is text between those
// spans, which encoding copies as it stands.
type jsonDocument struct {
	raw        string
	start, end [maxFields]uint32 // the span of each field's last value; end is 0 if absent
	order      [maxFields]uint8  // the fields that are there, by their spans
	count      int
}

// parseDocument scans text, which must be a JSON object. known returns the index
// of a field below maxFields, or -1.
func parseDocument(text string, known func(key string) int) (*jsonDocument, error) {
	s := scanner{text: text}
	if s.next() != '{' {
		if err := s.value(maxDepth); err != nil {
			return nil, err
		}
		return nil, &syntaxError{"not a JSON object", 0}
	}
	s.pos++
	d := &jsonDocument{}
	if s.next() == '}' {
		s.pos++
	} else {
		for more := true; more; {
			s.next()
			from := s.pos
			if err := s.key(); err != nil {
				return nil, err
			}
			field := known(keyAt(text, from))
			s.next()
			from = s.pos
			if err := s.value(maxDepth - 1); err != nil {
				return nil, err
			}
			if field >= 0 {
				d.put(field, from, s.pos)
			}
			switch s.next() {
			case ',':
				s.pos++
			case '}':
				s.pos++
				more = false
			default:
				return nil, s.fail("unexpected character")
			}
		}
	}
	if err := s.finish(); err != nil {
		return nil, err
	}
	d.raw = text
	if s.spaced {
		d.compact()
	}
	return d, nil
}

// keyAt returns the key whose literal starts at text[i].
func keyAt(text string, i int) string { return unquote(text[i:skipString(text, i)]) }

// put records the span of a field, in place of an earlier one.
func (d *jsonDocument) put(field, start, end int) {
	if d.end[field] != 0 {
		for i := range d.count {
			if d.order[i] == uint8(field) {
				copy(d.order[i:d.count], d.order[i+1:d.count])
				d.count--
				break
			}
		}
	}
	d.start[field], d.end[field] = uint32(start), uint32(end)
	d.order[d.count] = uint8(field)
	d.count++
}

// compact removes white space between tokens and moves the spans accordingly.
func (d *jsonDocument) compact() {
	buf := make([]byte, 0, len(d.raw))
	pos := 0
	for _, f := range d.order[:d.count] {
		start, end := int(d.start[f]), int(d.end[f])
		buf = appendCompact(buf, d.raw[pos:start])
		d.start[f] = uint32(len(buf))
		buf = appendCompact(buf, d.raw[start:end])
		d.end[f] = uint32(len(buf))
		pos = end
	}
	d.raw = string(appendCompact(buf, d.raw[pos:]))
}

// literal returns the text of a field's value, or "" if the field is absent.
func (d *jsonDocument) literal(field int) string { return d.raw[d.start[field]:d.end[field]] }

// A fieldSet is the known fields of a document as a Go value holds them.
type fieldSet interface {
	// keeps reports whether the field still has the value that literal stands for.
	keeps(field int, literal string) bool
	// sets reports whether the field has another value than an absent one.
	sets(field int) bool
	// appendField appends the field's value as compact JSON.
	appendField(dst []byte, field int) ([]byte, error)
}

// appendFields appends a document: d's text with the values that changed put in
// place of the old ones, and behind it the fields that d lacks and f sets. With
// no d, it appends the fields below always, and of the others those that f sets.
func appendFields[F fieldSet](dst []byte, d *jsonDocument, names []string, always int, f F) ([]byte, error) {
	var err error
	first := d == nil
	if first {
		dst = append(dst, '{')
	} else {
		pos := 0
		for _, field := range d.order[:d.count] {
			field := int(field)
			start, end := int(d.start[field]), int(d.end[field])
			if f.keeps(field, d.raw[start:end]) {
				continue
			}
			dst = append(dst, d.raw[pos:start]...)
			if dst, err = f.appendField(dst, field); err != nil {
				return nil, err
			}
			pos = end
		}
		dst = append(dst, d.raw[pos:len(d.raw)-1]...)
		always = 0
		first = len(d.raw) == len("{}")
	}
	for field, name := range names {
		if d != nil && d.end[field] != 0 || field >= always && !f.sets(field) {
			continue
		}
		if !first {
			dst = append(dst, ',')
		}
		first = false
		dst = append(dst, '"')
		dst = append(dst, name...)
		dst = append(dst, '"', ':')
		if dst, err = f.appendField(dst, field); err != nil {
			return nil, err
		}
	}
	return append(dst, '}'), nil
}

// maxFields is the largest number of known fields a document may have.
const maxFields = 24
