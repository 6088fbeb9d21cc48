package batcher

// admission bounds what is pending by count and bytes. Callers that find no
// room wait in line; whoever is at the head goes in as soon as it fits, and each
// release lets in everybody who now fits. All of it runs under the batcher's
// lock.
type admission struct {
	maxItems, maxBytes int
	items, bytes       int
	head, tail         *waiter
	waiters            int
}

// waiter is a caller waiting for room. The fields are guarded by the batcher's
// lock; granted is closed when settled becomes true.
type waiter struct {
	size       int
	granted    chan struct{}
	settled    bool
	refused    bool // the batcher was closed
	prev, next *waiter
}

func (a *admission) fits(size int) bool {
	if a.items == 0 {
		return true
	}
	return a.items < a.maxItems && size <= a.maxBytes-a.bytes
}

func (a *admission) crowded() bool { return a.items > a.maxItems/2 || a.bytes > a.maxBytes/2 }

// tryAcquire takes room if nobody waits for it already.
func (a *admission) tryAcquire(size int) bool {
	if a.head != nil || !a.fits(size) {
		return false
	}
	a.items++
	a.bytes += size
	return true
}

func (a *admission) enqueue(size int) *waiter {
	w := &waiter{size: size, granted: make(chan struct{}), prev: a.tail}
	if a.tail != nil {
		a.tail.next = w
	} else {
		a.head = w
	}
	a.tail = w
	a.waiters++
	return w
}

// abandon takes a waiter out of the line. Those behind it may fit where it did
// not.
func (a *admission) abandon(w *waiter) {
	a.unlink(w)
	a.wake()
}

func (a *admission) unlink(w *waiter) {
	if w.prev != nil {
		w.prev.next = w.next
	} else {
		a.head = w.next
	}
	if w.next != nil {
		w.next.prev = w.prev
	} else {
		a.tail = w.prev
	}
	w.prev, w.next = nil, nil
	a.waiters--
}

func (a *admission) release(size int) {
	a.items--
	a.bytes -= size
	a.wake()
}

func (a *admission) wake() {
	for w := a.head; w != nil && a.fits(w.size); w = a.head {
		a.unlink(w)
		a.items++
		a.bytes += w.size
		w.settled = true
		close(w.granted)
	}
}

// refuse turns everybody in line away.
func (a *admission) refuse() {
	for w := a.head; w != nil; w = a.head {
		a.unlink(w)
		w.settled, w.refused = true, true
		close(w.granted)
	}
}

func (a *admission) waiting() int { return a.waiters }
