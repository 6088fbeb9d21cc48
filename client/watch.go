package client

import (
	"context"
	"errors"
	"slices"
	"time"
)

// hangAfter is how long a request may be under way before the other nodes are
// asked whether they have another leader.
const hangAfter = 500 * time.Millisecond

var (
	errAttemptTimeout = errors.New("no answer within the time limit of an attempt")
	errDeposed        = errors.New("node hangs and another one leads now")
)

// suspect starts to watch a node at which a request hangs, unless somebody does.
func (c *cluster) suspect(n *node) {
	// Nobody waits for the answer: the watch ends by itself.
	c.search.DoChan("watch "+n.String(), func() (any, error) {
		c.watch(n)
		return nil, nil
	})
}

// watch asks the other nodes, as long as requests hang at n, who leads. When it
// is another node the requests at n are given up and the rest goes to that node.
func (c *cluster) watch(n *node) {
	if !c.begin() {
		return
	}
	defer c.end()
	pause := newWatchBackOff()
	for {
		others := slices.DeleteFunc(c.nodes.all(), func(o *node) bool { return o == n })
		if len(others) == 0 || len(n.stuck(time.Now().Add(-hangAfter))) == 0 {
			return
		}
		ctx, cancel := context.WithTimeout(c.base, time.Second)
		f := c.askAll(ctx, others, c.askWhoLeadsNow)
		cancel()
		if f.leader != nil && f.leader.base.Host != n.base.Host {
			n.noteSilence()
			c.lead.replace(n, f.leader)
			stuck := n.stuck(time.Now().Add(-hangAfter))
			c.log.Warn("rqlite node hangs, another one leads", "node", n.String(), "leader", f.leader.String(), "requests", len(stuck))
			for _, s := range stuck {
				s.cancel(errDeposed)
			}
			return
		}
		if !c.sleep(c.base, pause.NextBackOff()) {
			return
		}
	}
}
