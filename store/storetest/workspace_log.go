package storetest

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"github.com/quorate/quorate/store/workspace"
)

var wsLogCases = []workspaceCase{
	{promise: "events are numbered from 1 in the order of appending", run: func(w *wsEnv) {
		w.equal("first", seqs(w.append(ws1, entries("a", "b")...)), "[1 2]")
		w.clock.advance(time.Minute)
		out := w.append(ws1, entry("c"))
		w.equal("second", seqs(out), "[3]")
		w.equal("ids", w.dense(ws1), "[a b c]")
		if !out[0].TS.Equal(w.clock.now()) {
			w.Errorf("the event is of %v, the clock says %v", out[0].TS, w.clock.now())
		}
		read := w.read(ws1)
		w.equal("workspace", read[0].WorkspaceID, "w1")
		w.equal("returned and read", out[0], read[2])
		w.equal("after 1, one", eventIDs(w.read(ws1, workspace.After(1), workspace.First(1))), "[b]")
		w.equal("nothing", w.append(ws1), "[]")
	}},
	{promise: "an event nobody caused names itself, and what caused one survives", run: func(w *wsEnv) {
		e := entry("b")
		e.CorrelationID, e.TraceParent = "a", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
		e.Causation = &workspace.Causation{FiringID: "f", RunID: "r", Depth: 3}
		e.Actor = workspace.Actor{Kind: "agent", Rule: "rule", RunID: "r", Name: "name <&> \u2028"}
		w.append(ws1, entry("a"), e)
		log := w.read(ws1)
		w.equal("chain of the first", log[0].CorrelationID, "a")
		w.equal("cause of the first", log[0].Causation == nil, true)
		w.equal("chain of the second", log[1].CorrelationID, "a")
		w.equal("cause of the second", *log[1].Causation, *e.Causation)
		w.equal("actor of the second", log[1].Actor, e.Actor)
		w.equal("trace of the second", log[1].TraceParent, e.TraceParent)
	}},
	{promise: "the bytes of an event survive, of unknown types too", run: func(w *wsEnv) {
		e := entry("a")
		e.Event = json.RawMessage("{ \"type\" : \"never:heard\\u002dof\",\n\"z\":12345678901234567890.10, \"a\":\"<\\u0000\\/>\", \"m\":{\"b\":1,\"a\":[ ]} }")
		want := string(e.Event)
		w.append(ws1, e)
		log := w.read(ws1)
		w.equal("bytes", string(log[0].Event), want)
		w.equal("type", log[0].Type, "never:heard-of")
	}},
	{promise: "a read takes what lies between its bounds, of its types", run: func(w *wsEnv) {
		for i, typ := range []string{"x:a", "x:b", "x:a", "x:c", "x:b", "x:a"} {
			w.append(ws1, entryOf(string(rune('1'+i)), typ))
		}
		for _, c := range []struct {
			want string
			opts []workspace.ReadOption
		}{
			{"[1 2 3 4 5 6]", nil},
			{"[4 5 6]", []workspace.ReadOption{workspace.After(3)}},
			{"[]", []workspace.ReadOption{workspace.After(6)}},
			{"[1 2 3]", []workspace.ReadOption{workspace.Before(4)}},
			{"[3 4]", []workspace.ReadOption{workspace.After(2), workspace.Before(5)}},
			{"[]", []workspace.ReadOption{workspace.After(4), workspace.Before(3)}},
			{"[]", []workspace.ReadOption{workspace.Before(0)}},
			{"[1 2 3 4 5 6]", []workspace.ReadOption{workspace.Before(100)}},
			{"[1 2]", []workspace.ReadOption{workspace.First(2)}},
			{"[]", []workspace.ReadOption{workspace.First(0)}},
			{"[5 6]", []workspace.ReadOption{workspace.Last(2)}},
			{"[1 2 3 4 5 6]", []workspace.ReadOption{workspace.Last(10)}},
			{"[]", []workspace.ReadOption{workspace.Last(0)}},
			{"[3 4]", []workspace.ReadOption{workspace.Last(2), workspace.Before(5)}},
			{"[1 3 6]", []workspace.ReadOption{workspace.Types("x:a")}},
			{"[1 2 3 5 6]", []workspace.ReadOption{workspace.Types("x:b", "x:a", "x:b")}},
			{"[]", []workspace.ReadOption{workspace.Types("x:z")}},
			{"[]", []workspace.ReadOption{workspace.Types()}},
			{"[3 6]", []workspace.ReadOption{workspace.Types("x:a"), workspace.Last(2)}},
			{"[3]", []workspace.ReadOption{workspace.Types("x:a"), workspace.After(1), workspace.First(1)}},
		} {
			w.equal("read", seqs(w.read(ws1, c.opts...)), c.want)
		}
		var paged []int64
		for before := int64(7); before > 1; {
			page := seqs(w.read(ws1, workspace.Last(4), workspace.Before(before)))
			paged = append(page, paged...)
			before = page[0]
		}
		w.equal("paged backwards", paged, "[1 2 3 4 5 6]")
		for _, opts := range [][]workspace.ReadOption{
			{workspace.After(-1)}, {workspace.Before(-1)}, {workspace.First(-1)}, {workspace.Last(-1)}, {workspace.First(1), workspace.Last(1)},
		} {
			_, err := w.ws.Read(w.ctx, ws1, opts...)
			w.is(err, workspace.ErrInvalid)
		}
	}},
	{promise: "times never decrease, whatever the clock does", run: func(w *wsEnv) {
		first := w.append(ws1, entry("a"))[0].TS
		w.clock.advance(-time.Minute)
		if second := w.append(ws1, entry("b"))[0].TS; !second.Equal(first) {
			w.Errorf("the second is of %v, want %v", second, first)
		}
		w.clock.advance(time.Hour)
		w.append(ws1, entry("c"))
		w.dense(ws1)
	}},
	{promise: "times keep the zone of the clock, in microseconds", run: func(w *wsEnv) {
		zone := time.FixedZone("", 5*3600)
		w.clock.set(time.Date(2026, 1, 1, 5, 0, 0, 123456789, zone))
		out := w.append(ws1, entry("a"))[0]
		w.equal("returned", out.TS.Format(time.RFC3339Nano), "2026-01-01T05:00:00.123456+05:00")
		w.equal("read", w.read(ws1)[0].TS.Format(time.RFC3339Nano), "2026-01-01T05:00:00.123456+05:00")
		w.clock.set(time.Date(2026, 1, 1, 5, 0, 0, 123456000, zone).Add(-time.Second))
		w.append(ws1, entry("b"))
		w.equal("behind the log", w.read(ws1)[1].TS.Format(time.RFC3339Nano), "2026-01-01T00:00:00.123456Z")
	}},
	{promise: "an event that is in the log is refused with its position", run: func(w *wsEnv) {
		w.append(ws1, entries("a", "b")...)
		w.clock.advance(time.Second)
		for i, id := range []string{"a", "b"} {
			_, err := w.face.append(w, ws1, entry(id))
			w.is(err, workspace.ErrDuplicate)
			var dup *workspace.DuplicateError
			if !errors.As(err, &dup) || dup.ID != id || dup.Envelope.Seq != int64(i+1) || !dup.Same || errors.Is(err, workspace.ErrMismatch) {
				w.Errorf("got %+v, want the same event at %d", dup, i+1)
			}
		}
		other := entry("a")
		other.Event = json.RawMessage(`{"type":"note:taken","id":"other"}`)
		_, err := w.face.append(w, ws1, other)
		w.is(err, workspace.ErrDuplicate, workspace.ErrMismatch)
		_, err = w.face.append(w, ws1, entries("c", "d", "c")...)
		w.is(err, workspace.ErrDuplicate)
		_, err = w.face.append(w, ws1, entries("c", "b", "d")...)
		w.is(err, workspace.ErrDuplicate)
		w.equal("ids", w.dense(ws1), "[a b]")
	}},
	{promise: "workspaces and tenants are apart", run: func(w *wsEnv) {
		other := workspace.Ref{Tenant: "t2", Workspace: "w1"}
		for _, ref := range []workspace.Ref{ws1, other, wsRef("w0"), {Tenant: "t1w", Workspace: "1"}} {
			w.equal("seq", seqs(w.append(ref, entry("a"))), "[1]")
		}
		refs, err := w.ws.Workspaces(w.ctx)
		w.must(err)
		w.equal("workspaces", refs, []workspace.Ref{wsRef("w0"), ws1, {Tenant: "t1w", Workspace: "1"}, other})
		if _, there, err := w.ws.Envelope(w.ctx, wsRef("w2"), "a"); there || err != nil {
			w.Errorf("an event of another workspace is seen (%v)", err)
		}
		e, there, err := w.ws.Envelope(w.ctx, other, "a")
		w.must(err)
		w.equal("event by id", [2]any{there, e.Seq}, [2]any{true, 1})
	}},
	{promise: "bad input is refused before anything is sent", run: func(w *wsEnv) {
		with := func(change func(e *workspace.Entry)) workspace.Entry {
			e := entry("a")
			change(&e)
			return e
		}
		for what, e := range map[string]workspace.Entry{
			"no id":           with(func(e *workspace.Entry) { e.ID = "" }),
			"NUL in the id":   with(func(e *workspace.Entry) { e.ID = "a\x00" }),
			"no UTF-8":        with(func(e *workspace.Entry) { e.ID = "\xff" }),
			"a blob":          with(func(e *workspace.Entry) { e.ID = "x'00'" }),
			"no actor":        with(func(e *workspace.Entry) { e.Actor = workspace.Actor{} }),
			"depth 0":         with(func(e *workspace.Entry) { e.Causation = &workspace.Causation{} }),
			"no event":        with(func(e *workspace.Entry) { e.Event = nil }),
			"no object":       with(func(e *workspace.Entry) { e.Event = json.RawMessage(`[]`) }),
			"no type":         with(func(e *workspace.Entry) { e.Event = json.RawMessage(`{"a":1}`) }),
			"type not first":  with(func(e *workspace.Entry) { e.Event = json.RawMessage(`{"a":1,"type":"x"}`) }),
			"type no text":    with(func(e *workspace.Entry) { e.Event = json.RawMessage(`{"type":1}`) }),
			"broken JSON":     with(func(e *workspace.Entry) { e.Event = json.RawMessage(`{"type":"x"`) }),
			"more than JSON":  with(func(e *workspace.Entry) { e.Event = json.RawMessage(`{"type":"x"} {}`) }),
			"empty type":      with(func(e *workspace.Entry) { e.Event = json.RawMessage(`{"type":""}`) }),
			"a long id":       with(func(e *workspace.Entry) { e.ID = string(make([]byte, workspace.MaxName+1)) }),
			"NUL in a chain":  with(func(e *workspace.Entry) { e.CorrelationID = "\x00" }),
			"event no UTF-8":  with(func(e *workspace.Entry) { e.Event = json.RawMessage("{\"type\":\"\xff\"}") }),
			"actor of no UTF": with(func(e *workspace.Entry) { e.Actor.Kind = "\xff" }),
		} {
			if _, err := w.face.append(w, ws1, e); !errors.Is(err, workspace.ErrInvalid) {
				w.Errorf("%s: %v, want invalid input", what, err)
			}
		}
		for _, ref := range []workspace.Ref{{}, {Tenant: "t"}, {Workspace: "w"}, {Tenant: "t\x00", Workspace: "w"}} {
			_, err := w.face.append(w, ref, entry("a"))
			w.is(err, workspace.ErrInvalid)
		}
		w.equal("head", len(w.dense(ws1)), 0)
	}},
	{promise: "what the caller changes after the call is not appended", run: func(w *wsEnv) {
		e := entry("a")
		want := string(e.Event)
		out := w.append(ws1, e)
		for i := range e.Event {
			e.Event[i] = 'x'
		}
		w.equal("returned", string(out[0].Event), want)
		w.equal("read", string(w.read(ws1)[0].Event), want)
	}},
	{promise: "a long list lands whole and in order", run: func(w *wsEnv) {
		var ids []string
		for i := range 1200 {
			ids = append(ids, workspaceID(i))
		}
		w.append(ws1, entries(ids...)...)
		w.append(ws1, entry("last"))
		if got := w.dense(ws1); !slices.Equal(got, append(ids, "last")) {
			w.Errorf("got %d ids, or in another order", len(got))
		}
	}},
	{promise: "a payload of Go's comes back as it was", run: func(w *wsEnv) {
		type payload struct {
			Total int64  `json:"total"`
			Note  string `json:"note"`
		}
		e, err := workspace.NewEntry("order:placed", workspace.User("u1", ""), payload{9007199254740993, "<ü>"})
		w.must(err)
		w.append(ws1, e)
		log := w.read(ws1)
		w.equal("bytes", string(log[0].Event), `{"type":"order:placed","total":9007199254740993,"note":"<ü>"}`)
		p, err := workspace.Decode[payload](log[0])
		w.must(err)
		w.equal("payload", p, payload{9007199254740993, "<ü>"})
		body, err := json.Marshal(log[0])
		w.must(err)
		var back workspace.Envelope
		w.must(json.Unmarshal(body, &back))
		w.equal("envelope as JSON", back.Seq, 1)
		if _, err := workspace.NewEntry("x", workspace.System("s"), 5); !errors.Is(err, workspace.ErrInvalid) {
			w.Errorf("a payload that is no object: %v", err)
		}
		if empty, err := workspace.NewEvent("x", struct{}{}); string(empty) != `{"type":"x"}` {
			w.Errorf("an empty payload: %s, %v", empty, err)
		}
	}},
	{promise: "a context that has ended appends nothing", run: func(w *wsEnv) {
		ctx, cancel := context.WithCancel(w.ctx)
		cancel()
		was := w.ctx
		w.ctx = ctx
		var err error
		if w.face.name != "asynchronously" {
			_, err = w.face.append(w, ws1, entry("a"))
			w.is(err, context.Canceled)
		}
		w.ctx = was
		w.equal("log", len(w.dense(ws1)), 0)
		w.append(ws1, entry("a"))
	}},
}
