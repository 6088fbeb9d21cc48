package rqlitetest

import (
	"net/http"
	"sync"
	"time"
)

// Entry is a line of the request log: a request and what became of it, or an
// event on a connection, which has kind [KindWire] and an Outcome only.
type Entry struct {
	Seq    int // counts from 1, in order of arrival
	Node   string
	Kind   Kind
	Method string
	Path   string
	Query  string      // raw query string
	Header http.Header // as received, credentials included
	Body   []byte      // nil if it was not read
	At     time.Time
	Took   time.Duration // until the answer was handed to the connection

	// Applied counts how often the request changed the database: 0 for reads and
	// refused writes, 2 for a write that was doubled.
	Applied int
	// Status is the status answered, 0 if no answer was sent.
	Status int
	// ServedBy is the answer's X-Rqlite-Served-By header.
	ServedBy string
	// Fault names the injected action that the request met, "" if none did.
	Fault string
	// Outcome says in words what happened: "answered", "answer cut", "connection
	// reset", "connection closed", "hung"; "open" while it is being served and
	// "hanging" while it hangs.
	Outcome string
}

// requestLog keeps the last entries.
type requestLog struct {
	mu    sync.Mutex
	limit int
	seq   int
	list  []*Entry // a ring once it is full
	next  int
}

func newRequestLog(limit int) *requestLog { return &requestLog{limit: limit} }

// add appends the entry and numbers it.
func (l *requestLog) add(e *Entry) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.seq++
	e.Seq = l.seq
	switch {
	case l.limit == 0:
	case len(l.list) < l.limit:
		l.list = append(l.list, e)
	default:
		l.list[l.next] = e
		l.next = (l.next + 1) % l.limit
	}
}

// update changes an entry that may be read meanwhile.
func (l *requestLog) update(e *Entry, f func(*Entry)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	f(e)
}

// note logs an event that is no request.
func (l *requestLog) note(n *Node, what string) {
	l.add(&Entry{Node: n.id, Kind: KindWire, At: time.Now(), Outcome: what})
}

func (l *requestLog) entries(keep func(*Entry) bool) []Entry {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := make([]Entry, 0, len(l.list))
	for i := range l.list {
		e := l.list[(l.next+i)%len(l.list)]
		if keep == nil || keep(e) {
			out = append(out, *e)
		}
	}
	return out
}

func (l *requestLog) reset() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.list, l.next = nil, 0
}
