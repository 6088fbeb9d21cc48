package rqlitetest

import "time"

// replica is the state of a node that is not up to date. Up-to-date nodes all
// read the cluster's database; a replica gets a database of its own just before
// the first log entry it does not follow at once.
type replica struct {
	db        *database // nil while nothing was committed since it fell behind
	keep      int       // entries it stays behind by; -1: it applies none
	pending   []logEntry
	automatic bool // ends by itself when the node is in touch again
}

// logEntry is a committed change.
type logEntry struct {
	apply func(db *database)
	at    time.Time
}

// data returns the database a local read of the node sees. The caller holds mu.
func (n *Node) data() *database {
	if n.copy != nil && n.copy.db != nil {
		return n.copy.db
	}
	return n.cluster.db
}

// behind reports how long ago the oldest entry the node has not applied was
// committed; zero if it has applied all.
func (n *Node) behind() time.Duration {
	if n.copy == nil || len(n.copy.pending) == 0 {
		return 0
	}
	return time.Since(n.copy.pending[0].at)
}

// replicate hands an entry that is about to be applied to the database to the
// nodes that are not up to date. The caller holds mu.
func (c *Cluster) replicate(e logEntry) {
	for _, n := range c.nodes {
		r := n.copy
		if r == nil {
			continue
		}
		if r.db == nil {
			db, err := c.db.copy(c.opts.foreignKeys)
			if err != nil {
				c.log.note(n, err.Error())
				continue
			}
			r.db = db
		}
		if r.keep < 0 {
			if len(r.pending) == 0 {
				r.pending = append(r.pending, logEntry{at: e.at}) // its age is all that counts
			}
			continue
		}
		r.pending = append(r.pending, e)
		for len(r.pending) > r.keep {
			r.pending[0].apply(r.db)
			r.pending = r.pending[1:]
		}
	}
}

// dropCopy makes the node up to date. The caller holds mu.
func (n *Node) dropCopy() {
	if n.copy != nil && n.copy.db != nil {
		if err := n.copy.db.close(); err != nil {
			n.cluster.log.note(n, "closing its copy: "+err.Error())
		}
	}
	n.copy = nil
}

// catchUp ends a copy that was made because the node was out of touch, and its
// belief to lead.
func (n *Node) catchUp() {
	if n.cluster.leader != n {
		n.leads = false
		n.view = n.cluster.leader
	}
	if n.copy != nil && n.copy.automatic {
		n.dropCopy()
	}
}

// Freeze stops the node from applying what is committed from now on: reads it
// serves itself (level none, and weak if it leads) see the state of this moment.
// It ends with [Node.Thaw]. A frozen leader holds writes and linearizable reads
// back until then, as a new leader does that still replays its log.
func (n *Node) Freeze() {
	c := n.cluster
	c.mu.Lock()
	defer c.mu.Unlock()
	if n.copy != nil {
		n.copy.automatic = false
		n.copy.keep = -1
		return
	}
	n.copy = &replica{keep: -1}
}

// Lag makes the node apply each log entry only after entries more have been
// committed. It ends with [Node.Thaw]; 0 ends it too. A node that lags keeps its
// own database, which costs a second application of each entry.
func (n *Node) Lag(entries int) {
	n.Thaw()
	if entries <= 0 {
		return
	}
	c := n.cluster
	c.mu.Lock()
	defer c.mu.Unlock()
	n.copy = &replica{keep: entries}
}

// Thaw ends [Node.Freeze] and [Node.Lag]: the node is up to date at once.
func (n *Node) Thaw() {
	c := n.cluster
	c.mu.Lock()
	defer c.mu.Unlock()
	n.dropCopy()
	c.bump()
}

// Freeze is [Node.Freeze] of node i.
func (c *Cluster) Freeze(i int) { c.nodes[i].Freeze() }

// Thaw is [Node.Thaw] of node i.
func (c *Cluster) Thaw(i int) { c.nodes[i].Thaw() }
