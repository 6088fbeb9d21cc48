package main

import (
	"context"
	"hash/maphash"

	"golang.org/x/sync/errgroup"
)

// work takes messages from in until it is closed, and settles each. One
// goroutine does it, and never waits for one message while another could go on:
// up to window tasks are in flight at once, and each wait is a select over the
// future of the oldest and the next message.
//
// Messages for one execution are settled one after the other, in the order of
// arrival. They would only conflict with each other otherwise.
func (f *fleet) work(ctx context.Context, in <-chan *message, window int) error {
	var inFlight []*task // oldest first
	waiting := make(map[string][]*message, window)
	held := 0 // messages taken and not settled
	for in != nil || len(inFlight) > 0 {
		next := in
		if held >= 2*window || len(inFlight) >= window {
			next = nil
		}
		var oldest <-chan struct{}
		if len(inFlight) > 0 {
			oldest = inFlight[0].done()
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case m, ok := <-next:
			if !ok {
				in = nil
				continue
			}
			held++
			if queue, busy := waiting[m.target]; busy {
				waiting[m.target] = append(queue, m)
				continue
			}
			waiting[m.target] = nil
			inFlight = append(inFlight, f.begin(ctx, m))
		case <-oldest:
			t := inFlight[0]
			inFlight = inFlight[1:]
			settled, err := t.advance(ctx)
			if err != nil {
				return err
			}
			if !settled {
				inFlight = append(inFlight, t)
				continue
			}
			held--
			f.settled(t.msg)
			queue := waiting[t.msg.target]
			if len(queue) == 0 {
				delete(waiting, t.msg.target)
				continue
			}
			waiting[t.msg.target] = queue[1:]
			inFlight = append(inFlight, f.begin(ctx, queue[0]))
		}
	}
	return nil
}

// workAll settles a list of messages. An asynchronous store needs one goroutine
// for that, a synchronous one as many as shall have a request under way.
func (f *fleet) workAll(ctx context.Context, messages []*message) error {
	parts := 1
	if !f.db.Async() {
		parts = f.workers
	}
	in := make([]chan *message, parts)
	for i := range in {
		in[i] = make(chan *message, len(messages))
	}
	for _, m := range messages {
		in[part(m.target, parts)] <- m
	}
	g, ctx := errgroup.WithContext(ctx)
	for _, c := range in {
		close(c)
		if len(c) > 0 {
			g.Go(func() error { return f.work(ctx, c, pageSize) })
		}
	}
	return g.Wait()
}

var seed = maphash.MakeSeed()

// part tells which of n workers an execution belongs to.
func part(id string, n int) int { return int(maphash.String(seed, id) % uint64(n)) }
