package main

import (
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/quorate/quorate/store"
)

// world is the least that can stand in for the store: it applies commits one
// after the other and remembers what they leave. Everything in it may be
// delivered at any time, in any order, and again.
type world struct {
	t          *testing.T
	rng        *rand.Rand
	executions map[string]*store.Execution
	processed  map[[2]string]bool
	timers     map[string]float64
	inbox      []message
}

func newWorld(t *testing.T, seed uint64) *world {
	return &world{
		t: t, rng: rand.New(rand.NewPCG(seed, 1)), executions: make(map[string]*store.Execution),
		processed: make(map[[2]string]bool), timers: make(map[string]float64),
	}
}

// deliver lets m take effect, once.
func (w *world) deliver(m message) {
	w.t.Helper()
	key := [2]string{m.target, m.event.ID}
	if w.processed[key] {
		return
	}
	var e *store.Execution
	if was := w.executions[m.target]; was != nil {
		e = was.Clone()
	}
	c, _, err := step(e, &m)
	if err != nil {
		w.t.Fatal(err)
	}
	if c == nil {
		return
	}
	if c.ProcessedEvent != m.event.ID || c.Trace == nil {
		w.t.Fatalf("the commit for %q leaves neither marker nor trace", m.event.ID)
	}
	c.Execution.Version++
	w.executions[m.target] = c.Execution
	w.processed[key] = true
	for _, op := range c.Timers {
		if op.Cancel {
			delete(w.timers, m.target)
		} else {
			w.timers[m.target] = op.FireAt
		}
	}
	for _, s := range c.Spawns {
		w.queue(s.ChildID, s.Context, "", "")
	}
	for _, emit := range c.Emits {
		w.queue(emit.Target, emit.Event.Data, emit.Event.ID, emit.Event.Kind)
	}
}

func (w *world) queue(target string, data store.Object, id, kind string) {
	m := message{target: target}
	if err := data.Decode(&m.event); err != nil {
		w.t.Fatal(err)
	}
	if id != "" {
		m.event.ID, m.event.Kind = id, kind
	}
	w.inbox = append(w.inbox, m)
}

// anything delivers something that may be delivered now, and reports whether
// there was anything.
func (w *world) anything() bool {
	if n := len(w.inbox); n > 0 {
		i := w.rng.IntN(n)
		m := w.inbox[i]
		if w.rng.IntN(4) > 0 { // else it will come again
			w.inbox[i] = w.inbox[n-1]
			w.inbox = w.inbox[:n-1]
		}
		w.deliver(m)
		return true
	}
	for _, order := range slices.Sorted(maps.Keys(w.timers)) {
		at := w.timers[order]
		w.deliver(message{target: order, event: event{ID: timeoutEvent, Kind: kindTimeout, Order: order, At: store.EpochTime(at)}})
		delete(w.timers, order)
		return true
	}
	return false
}

// TestAnyInterleavingGivesTheSame plays inputs in random orders, with timers and
// the outbox in between at random, and compares with the oracle.
func TestAnyInterleavingGivesTheSame(t *testing.T) {
	for seed := range uint64(20) {
		events := eventsOf(t, sampleOf(t, seed, 20))
		model := newOracle()
		for _, ev := range events {
			if err := model.add(ev); err != nil {
				t.Fatal(err)
			}
		}
		w := newWorld(t, seed)
		w.rng.Shuffle(len(events), func(i, j int) { events[i], events[j] = events[j], events[i] })
		for _, ev := range events {
			w.deliver(message{target: ev.Order, event: ev})
			for w.rng.IntN(2) == 0 && w.anything() {
			}
		}
		for w.anything() {
		}
		paid := int64(0)
		for id, l := range model.orders {
			want := l.expect()
			e := w.executions[id]
			var o orderState
			if err := e.Context.Decode(&o); err != nil {
				t.Fatal(err)
			}
			got := outcome{string(e.Status), o.State, o.Merchant, o.Items, o.TotalCents, o.Late, o.NextSeq, int64(e.Deferred.Len())}
			if got != want {
				t.Errorf("seed %d: order %s is %+v, should be %+v", seed, id, got, want)
			}
			if want.state == orderShipped {
				paid += want.totalCents
			}
		}
		booked := int64(0)
		for _, e := range w.executions {
			if e.DefinitionID == defAccount {
				var a accountState
				if err := e.Context.Decode(&a); err != nil {
					t.Fatal(err)
				}
				booked += a.TotalCents
			}
		}
		if booked != paid || paid == 0 {
			t.Errorf("seed %d: %d cents were booked of %d", seed, booked, paid)
		}
	}
}

// at returns a time of the sample's first second.
func at(ms int) time.Time { return sampleStart.Add(time.Duration(ms) * time.Millisecond) }

func TestOracle(t *testing.T) {
	placed := event{ID: "1", Order: "o", Seq: 1, Kind: kindPlaced, At: at(0), Merchant: "m", PayWithinMS: 100}
	item := func(seq int64, ms int) event {
		return event{ID: string(rune('0' + seq)), Order: "o", Seq: seq, Kind: kindItemAdded, At: at(ms), SKU: "s", Qty: 2, PriceCents: 50}
	}
	other := func(seq int64, kind string, ms int) event {
		return event{ID: string(rune('0' + seq)), Order: "o", Seq: seq, Kind: kind, At: at(ms)}
	}
	for name, c := range map[string]struct {
		events []event
		want   outcome
	}{
		"paid at the last moment": {[]event{placed, item(2, 50), other(3, kindPaid, 100)},
			outcome{"DONE", "shipped", "m", 2, 100, 0, 4, 0}},
		"paid a moment later": {[]event{placed, item(2, 50), other(3, kindPaid, 101)},
			outcome{"CANCELLED", "expired", "m", 2, 100, 1, 4, 0}},
		"never paid": {[]event{placed}, outcome{"CANCELLED", "expired", "m", 0, 0, 0, 2, 0}},
		"cancelled": {[]event{placed, other(2, kindCancelled, 10), other(3, kindPaid, 11)},
			outcome{"CANCELLED", "cancelled", "m", 0, 0, 1, 4, 0}},
		"cancelled after the payment": {[]event{placed, other(2, kindPaid, 10), other(3, kindCancelled, 11), item(4, 12)},
			outcome{"DONE", "shipped", "m", 0, 0, 2, 5, 0}},
		"one is missing": {[]event{placed, item(2, 1), other(4, kindPaid, 2), item(6, 2)},
			outcome{"CANCELLED", "expired", "m", 2, 100, 0, 3, 2}},
		"the first is missing": {[]event{item(2, 1)}, outcome{"PENDING", "new", "", 0, 0, 0, 1, 1}},
		"placed twice": {[]event{placed, {ID: "2", Order: "o", Seq: 2, Kind: kindPlaced, At: at(1), Merchant: "n", PayWithinMS: 1}},
			outcome{"CANCELLED", "expired", "m", 0, 0, 1, 3, 0}},
		"begun before it was placed": {[]event{
			{ID: "1", Order: "o", Seq: 1, Kind: kindPaid, At: at(1)},
			{ID: "2", Order: "o", Seq: 2, Kind: kindPlaced, At: at(1), Merchant: "n", PayWithinMS: 1}},
			outcome{"CANCELLED", "expired", "n", 0, 0, 1, 3, 0}},
	} {
		o := newOracle()
		w := newWorld(t, 1)
		for _, ev := range c.events {
			if err := o.add(ev); err != nil {
				t.Fatal(err)
			}
			w.deliver(message{target: "o", event: ev})
		}
		if got := o.orders["o"].expect(); got != c.want {
			t.Errorf("%s: expected %+v, want %+v", name, got, c.want)
		}
		for w.anything() {
		}
		var s orderState
		e := w.executions["o"]
		if err := e.Context.Decode(&s); err != nil {
			t.Fatal(err)
		}
		got := outcome{string(e.Status), s.State, s.Merchant, s.Items, s.TotalCents, s.Late, s.NextSeq, int64(e.Deferred.Len())}
		if got != c.want {
			t.Errorf("%s: became %+v, want %+v", name, got, c.want)
		}
	}
}

func TestOracleRefusesContradictions(t *testing.T) {
	first := event{ID: "a", Order: "o", Seq: 1, Kind: kindPaid, At: at(0)}
	o := newOracle()
	if err := o.add(first); err != nil {
		t.Fatal(err)
	}
	if err := o.add(first); err != nil {
		t.Errorf("the same event again: %v", err)
	}
	for _, edit := range []func(*event){
		func(ev *event) { ev.ID = "b" },
		func(ev *event) { ev.Seq = 2 },
		func(ev *event) { ev.At = at(1) },
	} {
		ev := first
		edit(&ev)
		if o.add(ev) == nil {
			t.Errorf("%+v was taken beside %+v", ev, first)
		}
	}
	if o.distinct != 1 {
		t.Errorf("%d different events, want 1", o.distinct)
	}
}

func TestStepNeedsAnExecution(t *testing.T) {
	for _, kind := range []string{kindTimeout, kindShipped, kindDispatch, "strange"} {
		if _, _, err := step(nil, &message{target: "o", event: event{ID: "e", Kind: kind}}); err == nil {
			t.Errorf("%s for nobody was taken", kind)
		}
	}
}
