package main

import (
	"encoding/json"
	"io"
	"sync"
	"time"
)

// event is what a worker tells, one line of JSON each. Times are nanoseconds of the
// machine's clock.
type event struct {
	Kind  string // "grant", "seen", "end", "write", "claim", "trouble"
	Name  string // of the lock, the election or the schedule
	Token int64  `json:",omitempty"`

	// Sent is when the request was sent, At when its answer was there. For "seen" and
	// "end", At is the latest moment just before the handle said that it is valid.
	Sent, At int64 `json:",omitempty"`

	// OK: a write was accepted, a claim won, a lock released in time.
	OK bool `json:",omitempty"`
	// Valid: the handle said so after the answer to a write.
	Valid bool `json:",omitempty"`
	// Stale: the handle said before a write that it is not valid.
	Stale bool `json:",omitempty"`
	// ID names a write, Due a tick.
	ID  string `json:",omitempty"`
	Due int64  `json:",omitempty"`
	// Err is what went wrong, where nothing is known of the outcome.
	Err string `json:",omitempty"`
}

// teller writes events.
type teller struct {
	mu  sync.Mutex
	enc *json.Encoder
}

func newTeller(w io.Writer) *teller { return &teller{enc: json.NewEncoder(w)} }

func (t *teller) tell(e event) {
	t.mu.Lock()
	defer t.mu.Unlock()
	_ = t.enc.Encode(e) // whoever listened is gone, and so will be this process
}

func now() int64 { return time.Now().UnixNano() }
