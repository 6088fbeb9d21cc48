package coordination

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/quorate/quorate/store/engine"
	"github.com/quorate/quorate/store/internal/retry"
)

// errStored is the failure of reading what this package cannot have written.
var errStored = errors.New("the row in the database is not of a form this package writes")

// ElectionOptions sets up an [Election]. The zero value of each field means its
// default.
type ElectionOptions struct {
	// ID names this candidate to people: 1 to 200 bytes as in a name. It need not be
	// unique, since a random part is added. The default is made of the host's name
	// and the number of the process.
	ID string

	// Lease is how long leadership outlives the last renewal in the database: nobody
	// else leads before it has passed. The default is 15 s. Where processes do not
	// share a clock (rqlite), it must be far longer than their clocks differ, or see
	// [WithoutSharedClock].
	Lease time.Duration

	// RenewDeadline is how long a leader believes in itself after the sending of its
	// last successful renewal; then its work must stop. What is left until the end of
	// the Lease is the time it has for that. The default is two thirds of the Lease.
	RenewDeadline time.Duration

	// Retry is the pause between renewals, and between a candidate's looks. It may be
	// shorter by an eighth, so that those of many elections go together. The default
	// is a fifth of the RenewDeadline.
	Retry time.Duration

	// Jitter is by which share of itself a pause varies at random, below 1. The
	// default is 0.1; a negative value means none.
	Jitter float64

	// Metadata is shown to whoever asks for the [Leader].
	Metadata map[string]string

	// OnChange is called when this process begins or ceases to lead, and when the
	// leader that it sees changes, one call at a time, from a goroutine of the
	// campaign. A state that did not last while OnChange was busy may be left out.
	// The campaign ends only after it has returned.
	OnChange func(Change)
}

// Change is what [ElectionOptions.OnChange] reports.
type Change struct {
	// Leading says whether this process leads.
	Leading bool
	// Leader is who leads as far as this process knows, or the zero Leader.
	Leader Leader
}

// Term is one leadership of this process.
type Term struct {
	// Number is the fencing token of the leadership: see [Leader.Term]. Give it to
	// whatever must refuse the writes of leaders that have been succeeded.
	Number int64
	// Transitions is that of [Leader].
	Transitions int64
	// Acquired is when the term began, by the database's clock.
	Acquired time.Time
}

// Election is one candidate in an election: a name of which at most one process at
// a time leads. It is safe for concurrent use.
//
// # What is promised
//
// Of all candidates at most one leads, as long as clocks run at about the same
// speed and, with a shared clock, nobody sets it forward by more than the Lease
// less the RenewDeadline (see [WithoutSharedClock]). A leader counts its time from
// before its renewal was sent, so it stops believing in itself before anybody else
// may take over. A process that is stopped and goes on later (SIGSTOP, a virtual
// machine that is moved) finds the end of its term in the first check after that,
// but a write that was just about to be sent may be sent: therefore the Term's
// Number is a fencing token.
type Election struct {
	p        *Provider
	name     string
	opts     ElectionOptions
	metadata string

	mu      sync.Mutex
	holder  string // the identity; a new one after each release
	running bool
	term    *term         // that this process leads; nil if it does not
	seen    int64         // the greatest term seen
	leader  Leader        // as last seen; zero if nobody leads
	sitOut  time.Time     // no candidacy until then, after Resign
	turn    chan struct{} // closed, and replaced, when any of that changes
}

// Election returns a candidate in the election of that name. It does nothing until
// [Election.Campaign] or [Election.Lead]. Names are 1 to 200 bytes: a letter or
// digit, then those and . _ : / -. Errors are [ErrInvalidName] and [ErrInvalid].
func (p *Provider) Election(name string, o ElectionOptions) (*Election, error) {
	if err := checkName("election", name); err != nil {
		return nil, err
	}
	if o.ID == "" {
		host, _ := os.Hostname()
		if o.ID = fmt.Sprintf("%s-%d", host, os.Getpid()); checkName("candidate", o.ID) != nil {
			o.ID = fmt.Sprintf("process-%d", os.Getpid())
		}
	}
	if err := checkName("candidate", o.ID); err != nil {
		return nil, err
	}
	if o.Lease == 0 {
		o.Lease = 15 * time.Second
	}
	if o.RenewDeadline == 0 {
		o.RenewDeadline = o.Lease * 2 / 3
	}
	if o.Retry == 0 {
		o.Retry = o.RenewDeadline / 5
	}
	if o.Jitter == 0 {
		o.Jitter = 0.1
	}
	switch {
	case o.Retry <= 0:
		return nil, invalid("ElectionOptions.Retry", "is not positive")
	case o.RenewDeadline <= o.Retry:
		return nil, invalid("ElectionOptions.RenewDeadline", "is not greater than Retry")
	case o.Lease <= o.RenewDeadline:
		return nil, invalid("ElectionOptions.Lease", "is not greater than RenewDeadline")
	case o.Lease > maxLease:
		return nil, invalid("ElectionOptions.Lease", "is longer than a year")
	case !(o.Jitter < 1):
		return nil, invalid("ElectionOptions.Jitter", "is not below 1")
	}
	o.Jitter = max(o.Jitter, 0)
	for k, v := range o.Metadata {
		if !utf8.ValidString(k) || !utf8.ValidString(v) {
			return nil, invalid("ElectionOptions.Metadata", "is not valid UTF-8")
		}
	}
	o.Metadata = maps.Clone(o.Metadata)
	metadata, err := json.Marshal(o.Metadata)
	if err != nil {
		return nil, invalid("ElectionOptions.Metadata", err.Error())
	}
	if o.Metadata == nil {
		metadata = []byte("{}")
	}
	e := &Election{p: p, name: name, opts: o, metadata: string(metadata), turn: make(chan struct{})}
	e.newHolder()
	return e, nil
}

// newHolder gives the candidate another identity and returns the one before.
func (e *Election) newHolder() string {
	old := e.holder
	e.holder = e.opts.ID + "#" + strings.ToLower(rand.Text())
	return old
}

// maxLease bounds leases, so that sums of times stay far from overflow.
const maxLease = 366 * 24 * time.Hour

// Holder returns the identity of this candidate: its ID, "#", and a random part,
// which is another after each release.
func (e *Election) Holder() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.holder
}

// IsLeader reports whether this process leads now. It asks nobody: it is true from
// the answer to a successful campaign until the RenewDeadline after the sending of
// the last successful renewal at the latest.
func (e *Election) IsLeader() bool {
	_, ok := e.Term()
	return ok
}

// Term returns the term that this process leads now, and whether it does: see
// [Election.IsLeader].
func (e *Election) Term() (Term, bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if t := e.term; t != nil && !e.over(t) {
		return t.Term, true
	}
	return Term{}, false
}

// Leader asks the database who leads. It returns false if nobody does. Without a
// shared clock it tells who led last and has not resigned, alive or not. Errors
// are those of the engine in an [*Error].
func (e *Election) Leader(ctx context.Context) (Leader, bool, error) {
	r, err := e.look(ctx)
	if err != nil || !e.live(r) {
		return Leader{}, false, err
	}
	return r.Leader, true, nil
}

// Resign ends the term that this process leads: the term's context ends first,
// then the lease is released, so that another may lead at once. A campaign under
// way goes on, but lets others go first, for two Retry. Resign returns
// [ErrNotHeld] if this process does not lead, and [ErrLost] if it had been succeeded
// unknowingly. Other errors are the engine's, after twice the provider's time limit
// at most; with [engine.ErrOutcomeUnknown] it may have been released. Then the lease
// ends by itself.
func (e *Election) Resign(ctx context.Context) error {
	e.mu.Lock()
	t := e.term
	if t == nil || e.over(t) {
		e.mu.Unlock()
		return &Error{"resign from election", e.name, ErrNotHeld}
	}
	e.sitOut = time.Now().Add(2 * e.opts.Retry)
	e.endTerm(t, errResigned)
	holder := e.newHolder()
	e.mu.Unlock()
	return e.release(ctx, holder, t.Number)
}

// errResigned is the cause with which a term's context ends on one's own wish.
var errResigned = fmt.Errorf("resigned: %w", context.Canceled)

// release vacates the row of a holder's term. A release whose answer was lost is sent
// again, for at most twice the provider's time limit; the row tells whether an earlier
// one had worked.
func (e *Election) release(ctx context.Context, holder string, term int64) error {
	const op = "resign from election"
	ctx, cancel := context.WithTimeout(ctx, 2*e.p.limit)
	defer cancel()
	for unclear := false; ; {
		ok, err := e.vacate(ctx, holder, term)
		switch {
		case ok:
			return nil
		case err == nil && !unclear:
			return &Error{op, e.name, ErrLost}
		case err == nil:
			r, err := e.look(ctx)
			switch {
			case err != nil:
				return doubtful(err)
			case r.Holder == holder && (r.Term == term || term == 0) && r.expires == 0:
				return nil
			case r.Holder == holder:
				return &Error{op, e.name, ErrLost}
			}
			return &Error{op, e.name, &engine.Error{Op: "exec", Outcome: engine.Unknown, Err: errUntold}}
		}
		unclear = unclear || engine.OutcomeOf(err) != engine.NotApplied
		if !passing(err) || !retry.Sleep(ctx, jittered(e.opts.Retry/4, 0.5)) {
			if unclear {
				return doubtful(err)
			}
			return err
		}
	}
}
