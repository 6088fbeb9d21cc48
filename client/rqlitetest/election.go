package rqlitetest

import "time"

// Who leads. There is no Raft here: the cluster knows which nodes live and moves
// leadership by rule and timer, so a test knows what to expect. All functions in
// lower case are called with the cluster's mu held.

// live reports whether the node can take part in the cluster.
func (n *Node) live() bool { return n.up && !n.paused && !n.isolated && !n.stale }

// commits reports whether the node, if it rules, can commit right now.
func (n *Node) commits() bool { return n.live() && n.cluster.quorum() && n.copy == nil }

// quorum reports whether a majority of the nodes lives.
func (c *Cluster) quorum() bool {
	count := 0
	for _, n := range c.nodes {
		if n.live() {
			count++
		}
	}
	return count > len(c.nodes)/2
}

// rules reports whether the node leads in this term by right, so that what it
// commits is committed for all.
func (n *Node) rules(term uint64) bool {
	return n.cluster.leader == n && n.cluster.term == term && n.leads && n.term == term
}

// install makes n the leader of a new term.
func (c *Cluster) install(n *Node) {
	c.term++
	c.leader = n
	c.manual = false
	if n.copy != nil && n.copy.keep > 0 {
		n.dropCopy() // it was voted for because it has the whole log
	}
	c.reconcile()
}

// reconcile brings views and timers in line after any change of state.
func (c *Cluster) reconcile() {
	c.epoch++
	if c.timer != nil {
		c.timer.Stop()
		c.timer = nil
	}
	if l := c.leader; l != nil && l.live() {
		l.leads, l.term, l.view, l.contact = true, c.term, l, time.Time{}
		for _, n := range c.nodes {
			if n == l || !n.live() {
				continue
			}
			n.leads, n.term, n.view, n.contact = false, c.term, l, time.Time{}
		}
		if !c.quorum() {
			c.after(c.opts.leaderLease, c.depose)
		}
	} else {
		now := time.Now()
		for _, n := range c.nodes {
			if n.live() {
				n.leads = false
				if n.contact.IsZero() {
					n.contact = now
				}
			}
		}
		switch {
		case l != nil:
			c.after(c.opts.electionTimeout*9/10, func() {
				c.depose()
				if c.quorum() && !c.manual {
					c.after(c.opts.electionTimeout/10, c.elect)
				}
			})
		case c.manual:
			if !c.gapEnd.IsZero() {
				c.after(max(0, time.Until(c.gapEnd)), c.endGap)
			}
		case c.quorum():
			c.after(c.opts.electionTimeout, c.elect)
		}
	}
	c.bump()
}

// after runs f later unless the state changes first.
func (c *Cluster) after(d time.Duration, f func()) {
	epoch := c.epoch
	c.timer = time.AfterFunc(d, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.epoch == epoch {
			f()
		}
	})
}

// depose leaves the cluster without a leader; the nodes that live know it.
func (c *Cluster) depose() {
	c.leader = nil
	now := time.Now()
	for _, n := range c.nodes {
		if !n.live() {
			continue
		}
		n.leads, n.view = false, nil
		if n.contact.IsZero() {
			n.contact = now
		}
	}
	c.bump()
}

// elect makes the next live node the leader: one that is up to date if there is one.
func (c *Cluster) elect() {
	var choice *Node
	for _, n := range c.nodes {
		if n.live() && (choice == nil || choice.copy != nil && n.copy == nil) {
			choice = n
		}
	}
	if choice != nil {
		c.install(choice)
	}
}

// Elect makes node i the leader at once, in a new term. Whoever led before is a
// follower from then on, or will be when it comes back. A node that is stopped,
// paused or cut off cannot be elected: then Elect returns false and changes nothing.
func (c *Cluster) Elect(i int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := c.nodes[i]
	if !n.live() || !c.quorum() {
		return false
	}
	if old := c.leader; old != nil && old != n && old.live() {
		old.leads = false
	}
	c.install(n)
	return true
}

// LoseLeader leaves the cluster without a leader for the time of gap, then
// another node than the last leader is elected, if one lives. With a gap of zero
// or less the cluster stays without a leader until [Cluster.Elect].
func (c *Cluster) LoseLeader(gap time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.deposed = c.leader
	c.depose()
	c.manual, c.gapEnd = true, time.Time{}
	if gap > 0 {
		c.gapEnd = time.Now().Add(gap)
	}
	c.reconcile()
}

// endGap elects another node than the one that lost the lead.
func (c *Cluster) endGap() {
	c.manual = false
	first := 0
	if c.deposed != nil {
		first = c.deposed.number + 1
	}
	for i := range c.nodes {
		if n := c.nodes[(first+i)%len(c.nodes)]; n.live() && c.quorum() {
			c.install(n)
			return
		}
	}
	c.reconcile()
}
