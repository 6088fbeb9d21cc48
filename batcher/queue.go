package batcher

// readyQueue holds the items that may be sent, oldest first.
type readyQueue[T any] struct {
	head, tail *Ticket[T]
	len        int
	bytes      int
}

func (q *readyQueue[T]) push(t *Ticket[T]) {
	t.readyPrev = q.tail
	if q.tail != nil {
		q.tail.readyNext = t
	} else {
		q.head = t
	}
	q.tail = t
	q.len++
	q.bytes += t.Size
}

func (q *readyQueue[T]) remove(t *Ticket[T]) {
	if t.readyPrev != nil {
		t.readyPrev.readyNext = t.readyNext
	} else {
		q.head = t.readyNext
	}
	if t.readyNext != nil {
		t.readyNext.readyPrev = t.readyPrev
	} else {
		q.tail = t.readyPrev
	}
	t.readyPrev, t.readyNext = nil, nil
	q.len--
	q.bytes -= t.Size
}

// ageList holds every pending item in the order of submission, which is the
// order of their deadlines.
type ageList[T any] struct {
	head, tail *Ticket[T]
	len        int
}

func (l *ageList[T]) push(t *Ticket[T]) {
	t.agePrev = l.tail
	if l.tail != nil {
		l.tail.ageNext = t
	} else {
		l.head = t
	}
	l.tail = t
	l.len++
}

func (l *ageList[T]) remove(t *Ticket[T]) {
	if t.agePrev != nil {
		t.agePrev.ageNext = t.ageNext
	} else {
		l.head = t.ageNext
	}
	if t.ageNext != nil {
		t.ageNext.agePrev = t.agePrev
	} else {
		l.tail = t.agePrev
	}
	t.agePrev, t.ageNext = nil, nil
	l.len--
}
