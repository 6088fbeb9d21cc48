package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"unicode/utf8"
)

// maxLine is the size of a line, in bytes, above which it is skipped.
const maxLine = 64 << 10

var errLineTooLong = fmt.Errorf("longer than %d bytes", maxLine)

// lines reads lines one by one, whatever their size, with memory for one.
type lines struct {
	r      *bufio.Reader
	number int   // of the line read last, from 1
	read   int64 // bytes so far
}

func newLines(r io.Reader) *lines { return &lines{r: bufio.NewReaderSize(r, maxLine+2)} }

// next returns the next line without its end, valid until the next call. A line
// above the limit gives errLineTooLong, and reading goes on after it. The end of
// the input is io.EOF.
func (l *lines) next() ([]byte, error) {
	line, err := l.r.ReadSlice('\n')
	l.read += int64(len(line))
	if len(line) > 0 {
		l.number++
	}
	tooLong := false
	for errors.Is(err, bufio.ErrBufferFull) {
		tooLong = true
		line, err = l.r.ReadSlice('\n')
		l.read += int64(len(line))
	}
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("read line %d: %w", l.number+1, err)
	}
	if err != nil && len(line) == 0 && !tooLong {
		return nil, io.EOF
	}
	line = bytes.TrimSuffix(bytes.TrimSuffix(line, []byte("\n")), []byte("\r"))
	if tooLong || len(line) > maxLine {
		return nil, errLineTooLong
	}
	return line, nil
}

// decodeEvent decodes a line of the input: one JSON object that passes check.
// Fields it does not know are left aside. Errors never quote the line.
func decodeEvent(line []byte) (event, error) {
	var ev event
	if !utf8.Valid(line) {
		return event{}, errors.New("not valid UTF-8")
	}
	if err := json.Unmarshal(line, &ev); err != nil {
		if typed, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
			return event{}, fmt.Errorf("%s is a %s, which does not fit", orLine(typed.Field), typed.Value)
		}
		if typed, ok := errors.AsType[*json.SyntaxError](err); ok {
			return event{}, fmt.Errorf("not JSON at byte %d", typed.Offset)
		}
		return event{}, errors.New("at is not a time in RFC 3339")
	}
	ev.At = ev.At.UTC()
	if err := ev.check(); err != nil {
		return event{}, err
	}
	return ev, nil
}

func orLine(field string) string {
	if field == "" {
		return "the line"
	}
	return field
}
