package rqlitetest

import (
	"errors"
	"fmt"
	"time"
	"unicode/utf8"
)

// Forwarding: a follower sends what needs the leader to the node it takes for
// the leader, and sends it again if that fails, whatever the first attempt did.

// forward runs the operation on the leader and stamps it with the leader's raft address.
func (n *Node) forward(op *operation, timeout time.Duration, retries int) outcome {
	n.cluster.mu.Lock()
	leader := n.view
	n.cluster.mu.Unlock()
	if leader == nil || leader == n {
		return outcome{err: errLeaderNotFound}
	}
	var lost error
	for range max(1, retries) + 1 {
		out, err := n.send(leader, op, timeout)
		if err != nil {
			lost = err
			continue
		}
		if out.err != nil && !errors.Is(out.err, errUnauthorized) {
			out.err = errors.New(out.err.Error()) // only its text crosses the wire
		}
		out.served = leader.raftAddr
		return out
	}
	return outcome{err: lost}
}

// send is one attempt. Its error means that no answer came; the operation may
// have run, or may yet.
func (n *Node) send(leader *Node, op *operation, timeout time.Duration) (outcome, error) {
	c := n.cluster
	c.mu.Lock()
	up, reachable, stopped := leader.up, !leader.isolated && !n.isolated, leader.stopped
	c.mu.Unlock()
	if !up {
		return outcome{}, fmt.Errorf("dial tcp %s: connect: connection refused", leader.raftAddr)
	}
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	if !reachable {
		select {
		case <-timer.C:
		case <-c.done:
		}
		return outcome{}, fmt.Errorf("dial tcp %s: i/o timeout", leader.raftAddr)
	}
	reply := make(chan outcome, 1)
	if !c.enter() {
		return outcome{err: errClosed}, nil
	}
	go func() {
		defer c.work.Done()
		if !leader.awake() {
			return
		}
		out := outcome{err: errUnauthorized}
		if leader.authorized(op.user, op.pass) {
			attempt := *op
			out = leader.serve(&attempt)
		}
		if leader.awake() { // a paused node does not answer either
			reply <- out
		}
	}()
	lost := func(what string) error {
		return fmt.Errorf("read protobuf length: %s", what)
	}
	select {
	case out := <-reply:
		if !validText(out.results) {
			return outcome{}, lost("EOF") // the leader cannot encode its answer
		}
		return out, nil
	case <-timer.C:
		return outcome{}, lost(fmt.Sprintf("read tcp %s->%s: i/o timeout", n.raftAddr, leader.raftAddr))
	case <-stopped:
		return outcome{}, lost("EOF")
	case <-c.done:
		return outcome{err: errClosed}, nil
	}
}

// awake waits while the node is paused and reports whether it is up.
func (n *Node) awake() bool {
	c := n.cluster
	if !c.lockWhen(nil, func() bool { return !n.up || !n.paused }) {
		return false
	}
	defer c.mu.Unlock()
	return n.up
}

func validText(results []result) bool {
	for i := range results {
		for _, v := range results[i].values {
			if v.kind == kindText && !utf8.ValidString(v.s) {
				return false
			}
		}
	}
	return true
}
