package main

import (
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"

	"github.com/quorate/quorate/store"
)

// All executions are of one definition and never end.
const (
	definition = "bench.definition"
	status     = store.StatusRunning
)

// dataset makes the executions, events and side writes that all modes work on.
// Every mode gets executions of its own, alike in number, size and content, so
// that no mode finds what another one left.
type dataset struct {
	ids   int    // executions of each mode
	state int    // bytes of an execution's document
	noise string // random text that documents are filled from
	pad   int    // bytes of it in each document
	run   string // makes ids unlike those of earlier runs on the same database
	rng   *rand.Rand

	eventData store.Object
	child     store.Object
	trace     store.Object
}

// leastNoise is so much that two documents of a request rarely share text within
// the reach of a compressor: a server that compresses requests must not gain from
// the data being made up.
const leastNoise = 1 << 20

// mostState is the largest document that can be asked for, in bytes.
const mostState = 8 << 20

func newDataset(ids, state int, seed uint64) (*dataset, error) {
	const alphabet = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789 ."
	d := &dataset{ids: ids, state: state, run: store.NewID(), rng: rand.New(rand.NewPCG(seed, 0))}
	if state > mostState {
		return nil, usageError{fmt.Sprintf("-state is %d, more than %d bytes", state, mostState)}
	}
	noise := make([]byte, max(leastNoise, 4*state))
	for i := range noise {
		noise[i] = alphabet[d.rng.IntN(len(alphabet))]
	}
	d.noise = string(noise)
	least, err := d.execution(d.run).MarshalJSON()
	if err != nil {
		return nil, fmt.Errorf("making a document: %w", err)
	}
	if d.pad = state - len(least); d.pad < 0 {
		return nil, usageError{fmt.Sprintf("-state is %d, less than %d bytes", state, len(least))}
	}
	d.eventData = d.object(`{"amount":1250,"currency":"EUR","reference":"`, 40, `"}`)
	d.child = d.object(`{"attempt":1,"note":"`, 64, `"}`)
	d.trace = d.object(`{"kind":"step","path":"/work","note":"`, 48, `"}`)
	return d, nil
}

func (d *dataset) object(before string, n int, after string) store.Object {
	o, err := store.ParseObject(before + strings.ReplaceAll(d.text(n), `"`, "") + after)
	if err != nil {
		panic(err) // the text is ours
	}
	return o
}

// text returns n random bytes of text, without copying.
func (d *dataset) text(n int) string {
	at := d.rng.IntN(len(d.noise) - n)
	return d.noise[at : at+n]
}

// execution returns a new execution whose document has the wanted size.
func (d *dataset) execution(id string) *store.Execution {
	e := store.NewExecution(definition)
	e.ID, e.Status, e.RootPath = id, status, "/work"
	pad, err := store.ParseObject(`{"pad":"` + d.text(d.pad) + `"}`)
	if err != nil {
		panic(err) // the text is ours
	}
	e.Context = pad
	return e
}

// newIDs returns the ids of one mode's executions: random, as real ones are, so
// that the database's indexes are met as in real life.
func (d *dataset) newIDs() []string {
	nonce, _ := strconv.ParseUint(d.run[:16], 16, 64)
	ids := make([]string, d.ids)
	for i := range ids {
		var b [16]byte
		for k := range 2 {
			r := d.rng.Uint64() ^ nonce
			for j := range 8 {
				b[k*8+j] = byte(r >> (8 * j))
			}
		}
		ids[i] = hex.EncodeToString(b[:])
	}
	return ids
}

// eventIDs makes the ids of one caller's events: 32 characters, each used once.
type eventIDs struct {
	buf  [32]byte
	next uint64
}

func (d *dataset) newEventIDs() *eventIDs {
	e := &eventIDs{}
	copy(e.buf[:], fmt.Sprintf("%016x%016x", d.rng.Uint64(), 0))
	return e
}

func (e *eventIDs) id() string {
	e.next++
	const digits = "0123456789abcdef"
	for i, v := len(e.buf)-1, e.next; i >= 16; i, v = i-1, v>>4 {
		e.buf[i] = digits[v&15]
	}
	return string(e.buf[:])
}

// document writes an execution's JSON for the modes that go around the store:
// the same text, with the counters that a step changes.
type document struct{ beforeEvents, beforeVersion, after string }

// document cuts the JSON of an execution at what changes.
func (d *dataset) document(id string) document {
	raw, err := d.execution(id).MarshalJSON()
	if err != nil {
		panic(err) // it was encoded before, with another id
	}
	const events, version = `"processed_events":0`, `"version":0`
	before, rest, ok1 := strings.Cut(string(raw), events)
	middle, after, ok2 := strings.Cut(rest, version)
	if !ok1 || !ok2 {
		panic("an execution's JSON has no counters")
	}
	return document{
		beforeEvents:  before + strings.TrimSuffix(events, "0"),
		beforeVersion: middle + strings.TrimSuffix(version, "0"),
		after:         after,
	}
}

// at returns the text with these counters.
func (doc *document) at(events, version int64) string {
	var b strings.Builder
	b.Grow(len(doc.beforeEvents) + len(doc.beforeVersion) + len(doc.after) + 40)
	var num [20]byte
	b.WriteString(doc.beforeEvents)
	b.Write(strconv.AppendInt(num[:0], events, 10))
	b.WriteString(doc.beforeVersion)
	b.Write(strconv.AppendInt(num[:0], version, 10))
	b.WriteString(doc.after)
	return b.String()
}
