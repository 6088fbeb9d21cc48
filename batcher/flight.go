package batcher

import "runtime"

// take forms the next batch if one should be sent now. It reuses buf.
//
// When nothing is in flight whatever is queued goes at once. Otherwise a free
// slot is used only for a batch worth a request of its own: one that is full, or
// that holds at least as many items as are in flight already. So a steady load
// settles at a few batches of equal size that take turns, instead of a stream of
// small ones: each request has a fixed cost, and splitting the same items over
// more requests lowers the throughput of all.
func (b *Batcher[T]) take(buf []*Ticket[T]) ([]*Ticket[T], bool) {
	if b.queue.len == 0 || b.flights >= b.cfg.InFlight {
		return buf, false
	}
	if b.flights > 0 && b.queue.len < b.cfg.MaxItems && b.queue.bytes < b.cfg.MaxBytes && b.queue.len < b.flying {
		return buf, false
	}
	batch := buf[:0]
	bytes := 0
	for t := b.queue.head; t != nil && len(batch) < b.cfg.MaxItems; t = b.queue.head {
		if len(batch) > 0 && bytes+t.Size > b.cfg.MaxBytes {
			break
		}
		b.queue.remove(t)
		t.state = inFlight
		batch = append(batch, t)
		bytes += t.Size
	}
	b.flights++
	b.flying += len(batch)
	b.stats.Batches++
	b.stats.Items += uint64(len(batch))
	b.stats.Bytes += uint64(bytes)
	b.stats.Largest = max(b.stats.Largest, len(batch))
	return batch, true
}

// startWorkers starts as many workers as there are batches to send now.
func (b *Batcher[T]) startWorkers() {
	for {
		batch, ok := b.take(nil)
		if !ok {
			return
		}
		go b.work(batch)
	}
}

// work flushes batch and then whatever has gathered, until nothing is left to
// send.
func (b *Batcher[T]) work(batch []*Ticket[T]) {
	for {
		if !b.flush(batch) {
			return
		}
		if len(batch) > 1 {
			b.gather()
		}
		b.mu.Lock()
		next, ok := b.take(batch)
		if ok {
			b.startWorkers()
		}
		b.mu.Unlock()
		if !ok {
			return
		}
		clear(next[len(next):cap(next)])
		batch = next
	}
}

// gather lets the callers whose items were just done run, so that what they
// submit next joins the coming batch. It gives up the processor a few times, as
// long as the queue grows by it; it never waits for a clock.
func (b *Batcher[T]) gather() {
	const rounds = 8
	last := -1
	for range rounds {
		b.mu.Lock()
		n := b.queue.len
		full := n >= b.cfg.MaxItems || b.queue.bytes >= b.cfg.MaxBytes
		b.mu.Unlock()
		if full || n == last {
			return
		}
		last = n
		runtime.Gosched()
	}
}

// flush gives batch to the owner and settles its items. It returns false if the
// goroutine is being ended by runtime.Goexit.
func (b *Batcher[T]) flush(batch []*Ticket[T]) (alive bool) {
	returned := false
	defer func() {
		if !returned && b.cfg.Panicked != nil {
			value := recover()
			alive = value != nil
			b.cfg.Panicked(batch, value)
		}
		b.settle(batch, returned || alive)
	}()
	b.cfg.Flush(b.ctx, batch)
	returned = true
	return true
}

// settle takes the items of a flushed batch off the books. If the worker's
// goroutine is ending, other workers take over.
func (b *Batcher[T]) settle(batch []*Ticket[T], alive bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.flights--
	b.flying -= len(batch)
	for _, t := range batch {
		b.remove(t)
	}
	if !alive {
		b.startWorkers()
	}
}
