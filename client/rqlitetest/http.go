package rqlitetest

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// The HTTP face of a node: reads a request, lets faults have it, routes it and
// delivers the answer.

// exchange is a request on its way through a node.
type exchange struct {
	node   *Node
	req    *Request
	http   *http.Request
	action Action // of the fault it met; the zero Action does nothing
	fault  *Fault
	entry  *Entry
	params params
}

func (n *Node) serveHTTP(w http.ResponseWriter, r *http.Request) {
	c := n.cluster
	if !c.enter() {
		panic(http.ErrAbortHandler)
	}
	defer c.work.Done()
	x := &exchange{
		node: n,
		http: r,
		req: &Request{
			Node: n, Kind: kindOf(r.URL.Path), Method: r.Method,
			Path: r.URL.Path, Query: r.URL.RawQuery, Header: r.Header,
		},
	}
	x.entry = &Entry{
		Node: n.id, Kind: x.req.Kind, Method: r.Method, Path: x.req.Path, Query: x.req.Query,
		Header: r.Header, At: time.Now(), Outcome: "open",
	}
	c.log.add(x.entry)
	if !x.meet(true) {
		x.req.Body, _ = readBody(r) // a body that breaks off counts as far as it goes
		c.log.update(x.entry, func(e *Entry) { e.Body = x.req.Body })
		x.meet(false)
	}
	resp := x.answer()
	x.deliver(w, resp)
}

func readBody(r *http.Request) ([]byte, error) {
	if r.ContentLength <= 0 || r.ContentLength > 64<<20 {
		return io.ReadAll(r.Body)
	}
	b := make([]byte, r.ContentLength)
	n, err := io.ReadFull(r.Body, b)
	return b[:n], err
}

// meet looks for a fault and reports whether there is one.
func (x *exchange) meet(early bool) bool {
	c := x.node.cluster
	x.fault = c.faults.pick(x.req, early)
	if x.fault == nil {
		return false
	}
	x.action = x.fault.action
	c.log.update(x.entry, func(e *Entry) { e.Fault = x.action.name })
	return true
}

// answer serves the request, as far as the action lets it. It returns nil if the
// cluster is closed meanwhile.
func (x *exchange) answer() *Response {
	a, c := &x.action, x.node.cluster
	if !c.sleep(a.before) {
		return nil
	}
	if a.block {
		select {
		case <-x.fault.released:
		case <-c.done:
			return nil
		}
	}
	var resp *Response
	if a.instead != nil {
		resp = a.instead(x.req)
	}
	if !a.skip && (resp == nil || a.serve) {
		truth := x.route()
		if resp == nil {
			resp = truth
		}
		if a.edit != nil && resp != nil {
			a.edit(resp)
		}
	}
	if !c.sleep(a.after) {
		return nil
	}
	return resp
}

// deliver ends the exchange.
func (x *exchange) deliver(w http.ResponseWriter, resp *Response) {
	c := x.node.cluster
	sc, _ := x.http.Context().Value(connKey{}).(*serverConn)
	end := x.action.end
	if resp == nil && end == endAnswer {
		end = endReset // closed while the request was being served
	}
	finish := func(outcome string, status int, served string) {
		c.log.update(x.entry, func(e *Entry) {
			e.Outcome, e.Status, e.ServedBy, e.Took = outcome, status, served, time.Since(e.At)
		})
	}
	switch end {
	case endHang:
		finish("hanging", 0, "")
		select {
		case <-x.fault.released:
		case <-c.done:
		case <-x.http.Context().Done():
		}
		finish("hung", 0, "")
		sc.reset()
		panic(http.ErrAbortHandler)
	case endReset:
		finish("connection reset", 0, "")
		sc.reset()
		panic(http.ErrAbortHandler)
	case endClose:
		finish("connection closed", 0, "")
		sc.Close()
		panic(http.ErrAbortHandler)
	}
	h := w.Header()
	if !resp.foreign {
		x.node.ownHeaders(h)
	}
	for k, v := range resp.Header {
		h[k] = v
	}
	status := resp.Status
	if status == 0 {
		status = http.StatusOK
	}
	served := h.Get("X-Rqlite-Served-By")
	if end == endCut {
		keep := x.action.keep
		if keep < 0 {
			keep = len(resp.Body) / 2
		}
		finish("answer cut", status, served)
		h.Set("Content-Length", strconv.Itoa(len(resp.Body)))
		w.WriteHeader(status)
		_, _ = w.Write(resp.Body[:min(keep, len(resp.Body))]) // the client may be gone
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}
	finish("answered", status, served)
	w.WriteHeader(status)
	_, _ = w.Write(resp.Body) // the client may be gone
}

// ownHeaders sets what every answer of the server carries.
func (n *Node) ownHeaders(h http.Header) {
	n.cluster.mu.Lock()
	auth := n.auth.on
	n.cluster.mu.Unlock()
	h["X-Rqlite-Version"] = []string{n.cluster.opts.version}
	h["Access-Control-Allow-Methods"] = []string{"OPTIONS, GET, POST"}
	if auth {
		h["Access-Control-Allow-Headers"] = []string{"Content-Type, Authorization"}
		h["Access-Control-Allow-Credentials"] = []string{"true"}
		h["Www-Authenticate"] = []string{`Basic realm="rqlite"`}
	} else {
		h["Access-Control-Allow-Headers"] = []string{"Content-Type"}
	}
}

// route is the server proper.
func (x *exchange) route() *Response {
	if x.req.Method == http.MethodOptions {
		return &Response{}
	}
	var err error
	if x.params, err = parseParams(x.req.Query); err != nil {
		return textError(http.StatusBadRequest, err.Error())
	}
	switch x.req.Kind {
	case KindExecute:
		return x.guarded(x.database, http.MethodPost)
	case KindQuery:
		return x.guarded(x.database, http.MethodGet, http.MethodPost)
	case KindRequest:
		return x.guarded(x.database, http.MethodPost)
	case KindNodes:
		return x.guarded(x.nodes, http.MethodGet)
	case KindLeader:
		return x.guarded(x.leader, http.MethodGet, http.MethodPost)
	case KindStatus:
		return x.guarded(x.status, http.MethodGet)
	case KindReadyz:
		resp := x.guarded(x.readyz, http.MethodGet)
		if resp != nil && len(resp.Body) == 0 {
			resp.Header = nil
		}
		return resp
	}
	if x.req.Path == "/" {
		return &Response{Status: http.StatusFound, Header: http.Header{
			"Location": {"/console/"}, "Content-Type": {"text/html; charset=utf-8"},
		}, Body: []byte("<a href=\"/console/\">Found</a>.\n\n")}
	}
	for _, p := range [...]string{"/console", "/db/backup", "/db/load", "/db/sql", "/boot", "/snapshot", "/reap", "/remove"} {
		if strings.HasPrefix(x.req.Path, p) {
			return textError(http.StatusNotImplemented, "rqlitetest: "+p+" is not part of the test server")
		}
	}
	return &Response{Status: http.StatusNotFound}
}

// guarded checks credentials, then the method, then lets handle answer.
func (x *exchange) guarded(handle func() *Response, methods ...string) *Response {
	user, password, _ := x.http.BasicAuth()
	if !x.node.authorized(user, password) {
		return &Response{Status: http.StatusUnauthorized, Header: jsonHeader()}
	}
	for _, m := range methods {
		if x.req.Method == m {
			return handle()
		}
	}
	return &Response{Status: http.StatusMethodNotAllowed, Header: jsonHeader()}
}

// database serves the /db endpoints.
func (x *exchange) database() *Response {
	n, p := x.node, x.params
	if x.req.Kind == KindExecute && p.has("queue") {
		return x.queued()
	}
	start := time.Now()
	stmts, err := x.statements()
	if err != nil {
		return textError(http.StatusBadRequest, err.Error())
	}
	op := x.operation(stmts)
	out := n.serve(op)
	if errors.Is(out.err, errNotLeader) {
		if p.has("redirect") {
			return x.redirectToLeader()
		}
		out = n.forward(op, p.timeout(), p.retries())
	}
	e := envelope{}
	header := jsonHeader()
	switch {
	case out.err == nil:
		header["X-Rqlite-Served-By"] = []string{out.served}
		e.results = out.results
		if x.action.results != nil {
			e.results = x.action.results(e.results)
		}
		if p.has("raft_index") {
			e.index = out.index
		}
	case errors.Is(out.err, errClosed), errors.Is(out.err, errNodeStopped):
		return nil
	case errors.Is(out.err, errLeaderNotFound):
		return textError(http.StatusServiceUnavailable, errLeaderNotFound.Error())
	case errors.Is(out.err, errUnauthorized):
		what := map[Kind]string{KindExecute: "Execute", KindQuery: "query", KindRequest: "Request"}[x.req.Kind]
		return textError(http.StatusUnauthorized, "remote "+what+" not authorized")
	default:
		e.err = out.err.Error()
	}
	if p.has("timings") {
		e.seconds = time.Since(start).Seconds()
	}
	body, err := e.encode(p.encoding())
	if err != nil {
		resp := textError(http.StatusInternalServerError, err.Error())
		if served := header["X-Rqlite-Served-By"]; served != nil {
			resp.Header["X-Rqlite-Served-By"] = served
		}
		return resp
	}
	return &Response{Header: header, Body: body}
}

// statements decodes what the request wants run.
func (x *exchange) statements() ([]statement, error) {
	plain := strings.HasPrefix(x.req.Header.Get("Content-Type"), "text/plain")
	var (
		stmts []statement
		err   error
	)
	switch {
	case x.req.Method == http.MethodGet:
		stmts = []statement{{sql: x.params["q"]}}
	case plain && x.req.Kind != KindRequest:
		stmts = []statement{{sql: string(x.req.Body)}}
	default:
		if stmts, err = parseStatements(x.req.Body); err != nil {
			return nil, err
		}
	}
	if !x.params.has("noparse") {
		for i := range stmts {
			stmts[i].returning = returnsRows(stmts[i].sql)
		}
	}
	if x.params.has("qualify_columns") && x.req.Kind != KindExecute {
		for i := range stmts {
			stmts[i].qualify = !stmts[i].returning
		}
	}
	for i, text := range x.action.fail {
		if i >= 0 && i < len(stmts) {
			stmts[i].fail = text
		}
	}
	return stmts, nil
}

// operation collects what the node needs to know to serve the request.
func (x *exchange) operation(stmts []statement) *operation {
	p := x.params
	op := &operation{
		kind: x.req.Kind, stmts: stmts, transaction: p.has("transaction"), timings: p.has("timings"),
		level: p.level(), freshness: p.duration("freshness", 0), strict: p.has("freshness_strict"),
		times: x.action.times,
	}
	op.user, op.pass, _ = x.http.BasicAuth()
	if x.req.Kind == KindQuery {
		op.linearizable = p.duration("linearizable_timeout", 10*time.Second)
	} else {
		log := x.node.cluster.log
		op.onApply = func() { log.update(x.entry, func(e *Entry) { e.Applied++ }) }
	}
	return op
}

// redirectToLeader answers 301 with the leader's URL, which a follower has to ask
// the leader for: one that hangs makes it hang, one that is gone makes it fail.
func (x *exchange) redirectToLeader() *Response {
	n, c := x.node, x.node.cluster
	c.mu.Lock()
	leader := n.view
	c.mu.Unlock()
	if leader != nil && leader != n {
		ctx, cancel := context.WithTimeout(context.Background(), 2*defaultTimeout)
		defer cancel()
		if err := n.ping(ctx, leader); err == nil {
			return redirect(x.req, leader.URL())
		}
	}
	select {
	case <-c.done:
		return nil
	default:
		return textError(http.StatusInternalServerError, errLeaderNotFound.Error())
	}
}
