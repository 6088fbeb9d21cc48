package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

const goodLine = `{"id":"e1","order":"o1","seq":2,"type":"item_added","at":"2026-03-02T10:00:00+01:00","sku":"a","qty":3,"price_cents":5,"other":[1]}`

func TestDecodeEvent(t *testing.T) {
	ev, err := decodeEvent([]byte(goodLine))
	if err != nil {
		t.Fatal(err)
	}
	want := event{ID: "e1", Order: "o1", Seq: 2, Kind: kindItemAdded, At: sampleStart, SKU: "a", Qty: 3, PriceCents: 5}
	if ev != want {
		t.Errorf("got %+v, want %+v", ev, want)
	}
}

func TestDecodeEventRefuses(t *testing.T) {
	edit := func(old, new string) string {
		if !strings.Contains(goodLine, old) {
			t.Fatalf("%q is not in the line", old)
		}
		return strings.Replace(goodLine, old, new, 1)
	}
	for name, c := range map[string]struct{ line, want string }{
		"no JSON":          {`order 7 paid`, "not JSON at byte 1"},
		"cut":              {goodLine[:20], "not JSON"},
		"two values":       {goodLine + goodLine, "not JSON"},
		"a list":           {`[]`, "does not fit"},
		"wrong type":       {edit(`"qty":3`, `"qty":"3"`), "qty is a string"},
		"no whole number":  {edit(`"qty":3`, `"qty":3.5`), "qty is a number"},
		"not UTF-8":        {edit(`[1]`, "\"\xff\""), "UTF-8"},
		"no id":            {edit(`"id":"e1"`, `"id":""`), "id is missing"},
		"id with slash":    {edit(`e1`, `timer/payment`), "id may hold"},
		"order with space": {edit(`o1`, `o 1`), "order may hold"},
		"blob literal":     {edit(`o1`, `x'00'`), "order may hold"},
		"long order":       {edit(`o1`, strings.Repeat("o", 129)), "order is longer"},
		"seq 0":            {edit(`"seq":2`, `"seq":0`), "seq 0"},
		"no time":          {edit(`2026-03-02T10:00:00+01:00`, `yesterday`), "RFC 3339"},
		"zero time":        {edit(`2026-03-02T10:00:00+01:00`, `0001-01-01T00:00:00Z`), "1970"},
		"too late a time":  {edit(`2026`, `9026`), "2199"},
		"unknown type":     {edit(`item_added`, `teleported`), "type is none of"},
		"type of ours":     {edit(`item_added`, `timeout`), "type is none of"},
		"qty 0":            {edit(`"qty":3`, `"qty":0`), "qty 0"},
		"price too high":   {edit(`"price_cents":5`, `"price_cents":100000001`), "price_cents"},
		"field of ours":    {edit(`"other":[1]`, `"parcels":1`), "not for the input"},
		"placed, no shop":  {edit(`item_added`, `placed`), "merchant is missing"},
	} {
		_, err := decodeEvent([]byte(c.line))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want an error with %q", name, err, c.want)
		}
	}
}

func TestLines(t *testing.T) {
	input := "a\r\n\nb\n" + strings.Repeat("x", maxLine+1) + "\n" + strings.Repeat("y", 3*maxLine) + "\n" +
		strings.Repeat("z", maxLine) + "\nlast"
	l := newLines(iotest.OneByteReader(strings.NewReader(input)))
	type got struct {
		number, size int
		err          error
	}
	want := []got{{1, 1, nil}, {2, 0, nil}, {3, 1, nil}, {4, 0, errLineTooLong}, {5, 0, errLineTooLong}, {6, maxLine, nil}, {7, 4, nil}, {7, 0, io.EOF}}
	for _, w := range want {
		line, err := l.next()
		if g := (got{l.number, len(line), err}); g != w {
			t.Errorf("got %+v, want %+v", g, w)
		}
	}
	if l.read != int64(len(input)) {
		t.Errorf("read %d bytes, want %d", l.read, len(input))
	}
}

func TestLinesReportsReadErrors(t *testing.T) {
	broken := errors.New("cable cut")
	l := newLines(io.MultiReader(strings.NewReader("a\nhalf"), iotest.ErrReader(broken)))
	if line, err := l.next(); string(line) != "a" || err != nil {
		t.Errorf("got %q, %v", line, err)
	}
	if _, err := l.next(); !errors.Is(err, broken) {
		t.Errorf("got %v, want the read error", err)
	}
}

func FuzzDecodeEvent(f *testing.F) {
	f.Add([]byte(goodLine))
	f.Add([]byte(`{"id":"e","order":"o","seq":1,"type":"placed","at":"2026-03-02T09:00:00.5Z","merchant":"m","pay_within_ms":9}`))
	f.Add([]byte(`{"id":"e","order":"o","seq":1,"type":"cancelled","at":"2026-03-02T09:00:00Z","reason":"<&>\u2028"}`))
	f.Add([]byte(`{"ID":"e","order":"o","seq":1e3,"type":"paid","at":"2026-03-02T23:59:60Z"}`))
	f.Add([]byte("null"))
	f.Fuzz(func(t *testing.T, line []byte) {
		ev, err := decodeEvent(line)
		if err != nil {
			return
		}
		if err := ev.check(); err != nil {
			t.Fatalf("accepted an event that check refuses: %v", err)
		}
		// What was accepted survives the outbox and the deferred list.
		text, err := json.Marshal(ev)
		if err != nil {
			t.Fatal(err)
		}
		if again, err := decodeEvent(text); err != nil || again != ev {
			t.Fatalf("%s became %+v, %v", text, again, err)
		}
		// And the state machine takes it, whatever it is.
		c, _, err := step(nil, &message{target: ev.Order, event: ev})
		if err != nil || c == nil {
			t.Fatalf("step: %v, %v", c, err)
		}
	})
}

func FuzzLines(f *testing.F) {
	f.Add([]byte("a\nb\r\n\nc"), 1)
	f.Add([]byte("\n\r"), 0)
	f.Add(bytes.Repeat([]byte("long"), maxLine/3), 2)
	f.Fuzz(func(t *testing.T, input []byte, copies int) {
		input = bytes.Repeat(input, 1+min(max(copies, 0), 3))
		l := newLines(bytes.NewReader(input))
		n := 0
		for {
			line, err := l.next()
			if err == io.EOF {
				break
			}
			n++
			if err != nil && err != errLineTooLong {
				t.Fatal(err)
			}
			if l.number != n || len(line) > maxLine || bytes.IndexByte(line, '\n') >= 0 {
				t.Fatalf("line %d of %d bytes has number %d", n, len(line), l.number)
			}
		}
		want := bytes.Count(input, []byte("\n"))
		if len(input) > 0 && input[len(input)-1] != '\n' {
			want++
		}
		if n != want || l.read != int64(len(input)) {
			t.Fatalf("%d lines and %d bytes, want %d and %d", n, l.read, want, len(input))
		}
	})
}
