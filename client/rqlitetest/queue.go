package rqlitetest

import (
	"net/http"
	"sync"
	"time"
)

// Queued writes: /db/execute?queue answers before anything is written. The node
// gathers requests in memory and writes them in batches, whose results nobody
// learns. What is in the queue of a node that stops is lost.

const (
	queueCapacity = 1024
	queueBatch    = 128
	queueDelay    = 50 * time.Millisecond
	queueRetry    = time.Second
)

type queuedWrite struct {
	stmts []statement
	done  chan struct{} // closed when the batch was written
}

// writeQueue is the queue of one node.
type writeQueue struct {
	node  *Node
	slots chan struct{} // holds one token per queued request
	kick  chan struct{} // a batch is full

	mu      sync.Mutex
	pending []queuedWrite
	running bool
	seq     int64
}

func newWriteQueue(n *Node) *writeQueue {
	return &writeQueue{
		node: n, slots: make(chan struct{}, queueCapacity), kick: make(chan struct{}, 1),
		seq: time.Now().UnixNano(),
	}
}

// queued answers a queued write.
func (x *exchange) queued() *Response {
	n, c := x.node, x.node.cluster
	if !x.params.has("noleader") && n.leaderView() == nil {
		return textError(http.StatusInternalServerError, "leader address: leader not found")
	}
	stmts, err := parseStatements(x.req.Body)
	if err == errNoStatements && !x.params.has("wait") {
		return textError(http.StatusBadRequest, err.Error())
	}
	for i := range stmts {
		stmts[i].returning = returnsRows(stmts[i].sql)
	}
	w := queuedWrite{stmts: stmts, done: make(chan struct{})}
	select {
	case n.queue.slots <- struct{}{}:
	case <-c.done:
		return nil
	}
	e := envelope{sequence: n.queue.put(w)}
	if x.params.has("wait") {
		t := time.NewTimer(x.params.timeout())
		defer t.Stop()
		select {
		case <-w.done:
		case <-t.C:
			return textError(http.StatusRequestTimeout, "queue wait timeout")
		case <-c.done:
			return nil
		}
	}
	body, err := e.encode(x.params.encoding())
	if err != nil {
		return textError(http.StatusInternalServerError, err.Error())
	}
	return &Response{Header: jsonHeader(), Body: body}
}

// put queues w and returns its sequence number.
func (q *writeQueue) put(w queuedWrite) int64 {
	start := false
	q.mu.Lock()
	q.pending = append(q.pending, w)
	q.seq++
	seq := q.seq
	if len(q.pending) >= queueBatch {
		select {
		case q.kick <- struct{}{}:
		default:
		}
	}
	if !q.running && q.node.cluster.enter() {
		q.running, start = true, true
	}
	q.mu.Unlock()
	if start {
		go q.run()
	}
	return seq
}

// run writes batches until the queue is empty.
func (q *writeQueue) run() {
	c := q.node.cluster
	defer c.work.Done()
	for {
		t := time.NewTimer(queueDelay)
		select {
		case <-t.C:
		case <-q.kick:
		case <-c.done:
		}
		t.Stop()
		q.mu.Lock()
		n := min(queueBatch, len(q.pending))
		batch := q.pending[:n:n]
		q.pending = q.pending[n:]
		if n == 0 {
			q.running = false
			q.mu.Unlock()
			return
		}
		q.mu.Unlock()
		q.flush(batch)
		for _, w := range batch {
			close(w.done)
			<-q.slots
		}
	}
}

// flush writes a batch, again and again until it is taken. A follower sends it on
// without credentials, so with authentication it never gets through.
func (q *writeQueue) flush(batch []queuedWrite) {
	c := q.node.cluster
	op := &operation{kind: KindExecute, times: 1}
	for _, w := range batch {
		op.stmts = append(op.stmts, w.stmts...)
	}
	for len(op.stmts) > 0 {
		c.mu.Lock()
		up, stopped := q.node.up, q.node.stopped
		c.mu.Unlock()
		if !up {
			return // lost with the node
		}
		out := q.node.serve(op)
		if out.err == errNotLeader {
			out = q.node.forward(op, defaultTimeout, 0)
		}
		if out.err == nil {
			return
		}
		t := time.NewTimer(queueRetry)
		select {
		case <-t.C:
		case <-stopped:
			t.Stop()
			return
		case <-c.done:
			t.Stop()
			return
		}
	}
}

func (q *writeQueue) stats() map[string]any {
	q.mu.Lock()
	defer q.mu.Unlock()
	return map[string]any{
		"max_size": queueCapacity, "batch_size": queueBatch, "timeout": queueDelay.String(),
		"pending": len(q.pending), "sequence_number": q.seq,
	}
}
