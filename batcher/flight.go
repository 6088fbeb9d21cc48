package batcher

import "time"

// flight is one batch on its way. It belongs to one worker, which uses it again for
// the next batch.
type flight[T any] struct {
	resume chan struct{} // wakes the worker, which rests
	batch  []*Ticket[T]
	start  time.Time
	late   bool // takes much longer than usual: see gate.go
	took   time.Duration

	landing bool // queued is set
	queued  int  // queue length when results began to be told
	target  int  // what a worker that gathers waits for: see gather.go
	wake    chan struct{}
	timer   *time.Timer
}

// take forms the next batch in f, if one should be sent now. Items whose time
// limit has passed stay behind for the timer, which is about to fire.
func (b *Batcher[T]) take(f *flight[T]) bool {
	if !b.sendable() {
		return false
	}
	now := time.Now()
	batch := f.batch[:0]
	bytes := 0
	for t := b.queue.head; t != nil && len(batch) < b.cfg.MaxItems; {
		next := t.readyNext
		if b.cfg.Limit == 0 || t.deadline.After(now) {
			if len(batch) > 0 && t.Size > b.cfg.MaxBytes-bytes {
				break
			}
			b.queue.remove(t)
			t.state = inFlight
			batch = append(batch, t)
			bytes += t.Size
		}
		t = next
	}
	clear(batch[len(batch):cap(batch)])
	f.batch = batch
	if len(batch) == 0 {
		return false
	}
	f.start, f.late, f.landing = now, false, false
	b.flights = append(b.flights, f)
	b.flying += len(batch)
	b.stats.Batches++
	b.stats.Items += uint64(len(batch))
	b.stats.Bytes += uint64(bytes)
	b.stats.Largest = max(b.stats.Largest, len(batch))
	return true
}

// startWorkers wakes or starts as many workers as there are batches to send now.
// Workers that have nothing to do rest until the batcher is closed: a goroutine
// that has flushed before has a stack that is large enough.
func (b *Batcher[T]) startWorkers() {
	for b.sendable() {
		n := len(b.resting)
		if n == 0 {
			f := &flight[T]{resume: make(chan struct{}, 1)}
			if !b.take(f) {
				return
			}
			go b.work(f)
			continue
		}
		f := b.resting[n-1]
		if !b.take(f) {
			return
		}
		b.resting = b.resting[:n-1]
		f.resume <- struct{}{}
	}
}

// work flushes the batch of f and then whatever has gathered, until nothing is
// left to send. Between batches it keeps its slot. Then it rests.
func (b *Batcher[T]) work(f *flight[T]) {
	for {
		b.flush(f)
		b.gather(f)
		b.mu.Lock()
		b.between--
		ok := b.take(f)
		if ok {
			b.startWorkers()
		} else {
			clear(f.batch)
			b.resting = append(b.resting, f)
		}
		b.mu.Unlock()
		if ok {
			continue
		}
		select {
		case <-f.resume:
		case <-b.quit:
			return
		}
	}
}

// flush gives the batch to the owner and settles its items. It does not return
// if Flush ends the goroutine by runtime.Goexit.
func (b *Batcher[T]) flush(f *flight[T]) {
	alive := false
	defer func() {
		if !alive && b.cfg.Panicked != nil {
			value := recover()
			alive = value != nil
			b.cfg.Panicked(f.batch, value)
		}
		b.settle(f, alive)
	}()
	b.cfg.Flush(b.ctx, f.batch)
	alive = true
}

// settle takes the items of a flushed batch off the books. If the worker's
// goroutine is ending, others take over its slot.
func (b *Batcher[T]) settle(f *flight[T], alive bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i, g := range b.flights {
		if g == f {
			last := len(b.flights) - 1
			b.flights[i], b.flights[last] = b.flights[last], nil
			b.flights = b.flights[:last]
			break
		}
	}
	b.flying -= len(f.batch)
	f.took = time.Since(f.start)
	b.measure(f.took)
	b.gathering.cost.observe(len(f.batch), f.took)
	for _, t := range f.batch {
		b.remove(t)
	}
	b.gathered() // items whose key was in flight are ready now
	if alive {
		b.between++
	} else {
		b.startWorkers()
	}
}
