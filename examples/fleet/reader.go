package main

import (
	"context"
	"errors"
	"io"
)

// line is a line of the input on its way to dispatch.
type line struct {
	number int
	read   int64 // bytes of the input up to its end
	event  event
	err    error // why it is no event
}

// readLines decodes the input in a goroutine of its own, since a read cannot be
// interrupted: whoever waits for lines can be. The channel is closed at the end
// of the input. failed is why it ended early, to be read after that. The
// goroutine ends when quit is closed, but for a read that hangs: closing the
// input ends that.
func readLines(input io.Reader, quit <-chan struct{}) (from <-chan line, failed *error) {
	to := make(chan line, 64)
	failed = new(error)
	go func() {
		defer close(to)
		in := newLines(input)
		for {
			text, err := in.next()
			if err == nil && len(text) == 0 {
				continue
			}
			if err != nil && !errors.Is(err, errLineTooLong) {
				if !errors.Is(err, io.EOF) {
					*failed = err
				}
				return
			}
			l := line{number: in.number, read: in.read, err: err}
			if err == nil {
				l.event, l.err = decodeEvent(text)
			}
			select {
			case to <- l:
			case <-quit:
				return
			}
		}
	}()
	return to, failed
}

// dispatch hands each event of the input to the worker that its order belongs
// to, and reports the lines that hold none.
func (f *fleet) dispatch(ctx context.Context, stop <-chan struct{}, input io.Reader, workers []chan *message) error {
	quit := make(chan struct{})
	defer close(quit)
	from, failed := readLines(input, quit)
	for {
		var l line
		var ok bool
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-stop:
			return nil
		case l, ok = <-from:
		}
		if !ok {
			return *failed
		}
		f.count.bytes.Store(l.read)
		if l.err == nil {
			l.err = f.model.add(l.event)
		}
		if l.err != nil {
			f.badLine(l)
			continue
		}
		f.count.events.Add(1)
		m := &message{target: l.event.Order, event: l.event}
		select {
		case workers[part(m.target, len(workers))] <- m:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// maxComplaints is how many bad lines are reported one by one.
const maxComplaints = 20

func (f *fleet) badLine(l line) {
	switch n := f.count.badLines.Add(1); {
	case n <= maxComplaints:
		f.out.complain("line %d skipped: %v", l.number, l.err)
	case n == maxComplaints+1:
		f.out.complain("more lines skipped; from here on they are only counted")
	}
}
