package rqlitetest

import (
	"errors"
	"fmt"
	"time"
)

// What a node does with a request for its database: which level reads where, and
// what goes through the log.

var (
	errNotLeader      = errors.New("not leader")
	errLeaderNotFound = errors.New("leader not found")
	errLeadershipLost = errors.New("leadership lost while committing log")
	errStaleRead      = errors.New("stale read")
	errBreakingPragma = errors.New("disallowed pragma")
	errUnauthorized   = errors.New("unauthorized")
	errNodeStopped    = errors.New("rqlitetest: node is stopped")
)

// operation is a decoded request for the database.
type operation struct {
	kind         Kind
	stmts        []statement
	transaction  bool
	timings      bool
	level        level
	freshness    time.Duration
	strict       bool
	linearizable time.Duration // how long such a read waits for the state
	times        int           // how often a write is applied: 1 but for faults
	user, pass   string
	onApply      func() // called under mu after each application
}

// outcome is what became of an operation.
type outcome struct {
	results []result
	index   uint64 // of its log entry, 0 if it needed none
	err     error
	served  string // address of the node that served it
}

// serve runs the operation on this node, or returns errNotLeader.
func (n *Node) serve(op *operation) outcome {
	for i := range op.stmts {
		if breakingPragma(op.stmts[i].sql) {
			return outcome{err: errBreakingPragma}
		}
	}
	var out outcome
	switch op.kind {
	case KindExecute:
		out = n.serveExecute(op)
	case KindQuery:
		out = n.serveQuery(op)
	default:
		out = n.serveRequest(op)
	}
	out.served = n.addr
	return out
}

func (n *Node) serveExecute(op *operation) outcome {
	term, leads := n.leadership()
	if !leads {
		return outcome{err: errNotLeader}
	}
	return n.commit(op, term, func(db *database) ([]result, error) {
		return db.execute(op.stmts, op.transaction, op.timings)
	})
}

func (n *Node) serveQuery(op *operation) outcome {
	lvl := op.level
	if lvl == levelAuto {
		lvl = levelWeak // all nodes vote
	}
	term, leads := n.leadership()
	if lvl == levelLinearizable {
		strong, err := n.confirm(op, term, leads)
		if err != nil {
			return outcome{err: err}
		}
		if strong {
			lvl = levelStrong
		}
	}
	if lvl == levelStrong {
		if !leads {
			return outcome{err: errNotLeader}
		}
		out := n.commit(op, term, func(db *database) ([]result, error) {
			return db.query(op.stmts, op.transaction, op.timings)
		})
		if errors.Is(out.err, errLeadershipLost) {
			out.err = errNotLeader
		}
		if out.err == nil {
			n.strongRead(term)
		}
		return out
	}
	return n.read(op, lvl)
}

func (n *Node) serveRequest(op *operation) outcome {
	n.cluster.mu.Lock()
	writes, reads := n.data().writes(op.stmts)
	n.cluster.mu.Unlock()
	term, leads := n.leadership()
	if op.level == levelLinearizable {
		strong, err := n.confirm(op, term, leads)
		if err != nil {
			return outcome{err: err}
		}
		if strong {
			op.level = levelStrong // stays so when forwarded
		}
	}
	if writes == 0 && op.level != levelStrong {
		return n.read(op, op.level)
	}
	if !leads {
		return outcome{err: errNotLeader}
	}
	out := n.commit(op, term, func(db *database) ([]result, error) {
		return db.request(op.stmts, op.transaction, op.timings)
	})
	if out.err == nil && reads > 0 {
		n.strongRead(term)
	}
	return out
}

// leadership returns the node's term and whether it takes itself for the leader.
func (n *Node) leadership() (term uint64, leads bool) {
	n.cluster.mu.Lock()
	defer n.cluster.mu.Unlock()
	return n.term, n.leads
}

// strongRead notes that a strong read went through in this term, after which
// linearizable reads need no log entry any more.
func (n *Node) strongRead(term uint64) {
	n.cluster.mu.Lock()
	defer n.cluster.mu.Unlock()
	n.strongTerm = term
}

// confirm prepares a linearizable read: it waits until the node is known to lead
// and to have applied all. It reports that a strong read is needed instead while
// none went through in this term.
func (n *Node) confirm(op *operation, term uint64, leads bool) (strong bool, err error) {
	c := n.cluster
	c.mu.Lock()
	if n.strongTerm != term {
		c.mu.Unlock()
		return true, nil
	}
	c.mu.Unlock()
	if !leads {
		return false, errNotLeader
	}
	wait := op.linearizable
	if wait == 0 {
		wait = time.Second
	}
	stop := make(chan struct{})
	t := time.AfterFunc(wait, func() { close(stop) })
	defer t.Stop()
	var index uint64
	ok := c.lockWhen(stop, func() bool {
		index = c.index
		return !n.up || !n.rules(term) || n.commits()
	})
	if !ok {
		return false, fmt.Errorf("index %d: timeout waiting for fsm", index)
	}
	defer c.mu.Unlock()
	if !n.up {
		return false, errNodeStopped
	}
	if !n.rules(term) {
		return false, errNotLeader
	}
	return false, nil
}

// read serves a read from the node's own state.
func (n *Node) read(op *operation, lvl level) outcome {
	c := n.cluster
	c.mu.Lock()
	wait := c.latency.read
	c.mu.Unlock()
	if !c.sleep(wait) {
		return outcome{err: errClosed}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case lvl == levelWeak && !n.leads:
		return outcome{err: errNotLeader}
	case lvl == levelLinearizable && !n.rules(n.term):
		return outcome{err: errNotLeader} // replaced since it was confirmed
	case lvl == levelNone && !n.leads && op.freshness != 0:
		if !n.contact.IsZero() && time.Since(n.contact) > op.freshness {
			return outcome{err: errStaleRead}
		}
		if op.strict && n.behind() > op.freshness {
			return outcome{err: errStaleRead}
		}
	}
	results, err := n.data().query(op.stmts, op.transaction, op.timings)
	return outcome{results: results, err: err}
}

// commit puts the operation through the log: it waits until the node can commit,
// then applies it, all in one step as far as others can see. A node that has
// lost the lead by then returns errLeadershipLost, nothing applied.
func (n *Node) commit(op *operation, term uint64, run func(*database) ([]result, error)) outcome {
	c := n.cluster
	c.mu.Lock()
	wait := c.latency.write
	c.mu.Unlock()
	if !c.sleep(wait) {
		return outcome{err: errClosed}
	}
	ok := c.lockWhen(nil, func() bool {
		return !n.up || !n.rules(term) || n.commits()
	})
	if !ok {
		return outcome{err: errClosed}
	}
	defer c.mu.Unlock()
	if !n.up {
		return outcome{err: errNodeStopped}
	}
	if !n.rules(term) {
		return outcome{err: errLeadershipLost}
	}
	var out outcome
	for range max(1, op.times) {
		c.index++
		c.replicate(logEntry{at: time.Now(), apply: func(db *database) { _, _ = run(db) }})
		out = outcome{index: c.index}
		out.results, out.err = run(c.db)
		if op.onApply != nil {
			op.onApply()
		}
	}
	return out
}
