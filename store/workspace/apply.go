package workspace

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/quorate/quorate/store/engine"
	"github.com/quorate/quorate/store/internal/retry"
)

// maxAppendRows is how many events one statement carries at most, where several
// rows in a statement are worth it.
const maxAppendRows = 128

// application is one call of Apply.
type application struct {
	s      *Store
	ctx    context.Context
	all    []*Append
	report func(i int, err error)
	rows   int // per statement
}

// group is appends to one workspace that move its row together.
type group struct {
	ref     Ref
	members []int // in order
	entries int
	ids     map[string]struct{} // if there are several members
	full    bool                // no more may join, so that none goes past one that could not
	move    int                 // the place of its first statement
}

// join takes an append into a group that has members, unless it would be too large
// or has an id that is in it.
func (a *application) join(g *group, at int) bool {
	ap := a.all[at]
	if g.full || g.entries+len(ap.records) > MaxEntries {
		return false
	}
	if g.ids == nil {
		g.ids = make(map[string]struct{}, 16)
		g.know(a.all[g.members[0]])
	}
	for i := range ap.records {
		if _, ok := g.ids[ap.records[i].entry.ID]; ok {
			return false
		}
	}
	g.know(ap)
	g.members, g.entries = append(g.members, at), g.entries+len(ap.records)
	return true
}

func (g *group) know(ap *Append) {
	for i := range ap.records {
		g.ids[ap.records[i].entry.ID] = struct{}{}
	}
}

// groups puts appends together, by workspace if together is true, else each alone.
// One that does not fit into the group of its workspace is left for another
// request, together with those of the workspace behind it.
func (a *application) groups(index []int, together bool) (groups []*group, left []int) {
	of := make(map[Ref]*group, 8)
	for _, at := range index {
		ap := a.all[at]
		g := of[ap.ref]
		if g == nil || !together {
			g = &group{ref: ap.ref, members: []int{at}, entries: len(ap.records)}
			of[ap.ref] = g
			groups = append(groups, g)
		} else if !a.join(g, at) {
			g.full = true
			left = append(left, at)
		}
	}
	return groups, left
}

// batch builds the transaction of groups.
func (a *application) batch(groups []*group) []engine.Statement {
	n := 0
	for _, g := range groups {
		n += 2 + g.entries
	}
	stmts := make([]engine.Statement, 0, n)
	// The rows are locked in one order, so that batches cannot wait for each other.
	refs := make([]Ref, len(groups))
	for i, g := range groups {
		refs[i] = g.ref
	}
	slices.SortFunc(refs, Ref.compare)
	for _, ref := range slices.Compact(refs) {
		stmts = append(stmts, engine.Statement{SQL: sqlLock, Args: args(ref)})
	}
	for _, g := range groups {
		g.move = len(stmts)
		stmts = a.statements(stmts, g)
	}
	if a.s.notify != nil {
		stmts = append(stmts, a.s.notify.Notification(channel))
	}
	return stmts
}

func (r Ref) compare(other Ref) int {
	if c := strings.Compare(r.Tenant, other.Tenant); c != 0 {
		return c
	}
	return strings.Compare(r.Workspace, other.Workspace)
}

// statements adds a group's own statements.
func (a *application) statements(stmts []engine.Statement, g *group) []engine.Statement {
	clock := a.all[g.members[0]].clock
	key := []engine.Value{engine.Text(g.ref.Tenant), engine.Text(g.ref.Workspace), engine.Text(newToken())}
	ids := make([]string, 0, g.entries)
	for _, at := range g.members {
		ids = a.all[at].appendIDs(ids)
	}
	move := make([]engine.Value, 0, 5+2*len(ids))
	move = append(append(move, key...), engine.Int(int64(len(ids))), engine.Int(micros(clock)))
	cond := oneOf(&move, ids)
	stmts = append(stmts, engine.Statement{SQL: appendMove + cond + appendMoved, Args: move, Returning: true})

	stamp := engine.Text(clock.Format(layout))
	back := len(ids)
	var values []engine.Value
	rows := 0
	for _, at := range g.members {
		ap := a.all[at]
		for i := range ap.records {
			back--
			if values == nil {
				values = append(make([]engine.Value, 0, 3+7*max(1, min(a.rows, back+1))), key...)
			}
			r := &ap.records[i]
			values = append(values, engine.Int(int64(back)), engine.Text(ap.token), engine.Text(r.entry.ID), engine.Text(r.typ), stamp, engine.Text(r.meta), engine.Text(r.event))
			if rows++; rows >= a.rows || back == 0 {
				stmts = append(stmts, engine.Statement{SQL: insertText(rows), Args: values})
				values, rows = nil, 0
			}
		}
	}
	return stmts
}

// insertText returns the statement that puts so many events into the log.
func insertText(rows int) string {
	if rows == 1 {
		return appendEvent
	}
	var b strings.Builder
	b.WriteString("WITH q(back,token,event_id,event_type,clock,entry,event) AS (VALUES ")
	n := 3
	for i := range rows {
		if i > 0 {
			b.WriteByte(',')
		}
		for c := range 7 {
			b.WriteByte("(,,,,,,"[c])
			b.WriteByte('?')
			n++
			b.WriteString(strconv.Itoa(n))
		}
		b.WriteByte(')')
	}
	b.WriteString(appendEvents)
	return b.String()
}

// run applies the appends at the given positions and reports them.
func (a *application) run(index []int, together bool) {
	for len(index) > 0 {
		var groups []*group
		groups, index = a.groups(index, together)
		a.send(groups)
	}
}

// send applies groups in one transaction.
func (a *application) send(groups []*group) {
	var index []int
	uncertain := false
	for _, g := range groups {
		index = append(index, g.members...)
		uncertain = uncertain || a.all[g.members[0]].uncertain
	}
	slices.Sort(index)
	stmts := a.batch(groups)
	pause := retry.Pauses()
	for {
		results, err := a.s.eng.Exec(a.ctx, stmts)
		if err == nil && len(results) != len(stmts) {
			err = protocol("exec", engine.Applied, "number of results differs from number of statements")
		}
		if err == nil {
			a.settle(groups, results)
			return
		}
		definite := engine.OutcomeOf(err) == engine.NotApplied
		switch {
		case definite && len(index) > 1 && splittable(err):
			half := len(index) / 2
			a.run(index[:half], true)
			a.run(index[half:], true)
			return
		case definite && !uncertain:
			for _, at := range index {
				a.report(at, fmt.Errorf("append to workspace %v: %w", a.all[at].ref, err))
			}
			return
		case refused(err), errors.Is(err, ErrClosed):
			a.unknown(index, err)
			return
		}
		if !definite {
			a.s.counters.unknown.Add(1)
			uncertain = true
			for _, at := range index {
				a.all[at].uncertain = true
			}
		}
		if !retry.Sleep(a.ctx, pause.NextBackOff()) {
			a.unknown(index, err)
			return
		}
	}
}

// splittable reports whether one of several appends may be to blame.
func splittable(err error) bool {
	return refused(err) || errors.Is(err, engine.ErrTooLarge) || errors.Is(err, engine.ErrProtocol)
}

// settle reports the groups that moved their row, and looks into the others.
func (a *application) settle(groups []*group, results []engine.Result) {
	var open []*group
	for _, g := range groups {
		r := rows{res: &results[g.move]}
		if !r.next() {
			open = append(open, g)
			continue
		}
		head, ts := r.int("head_seq"), r.int("head_ts")
		if r.err != nil {
			open = append(open, g)
			continue
		}
		a.s.watch.raise(g.ref, head)
		seq := head - int64(g.entries)
		for _, at := range g.members {
			seq += int64(len(a.all[at].records))
			a.applied(at, seq, ts)
		}
	}
	if len(open) > 0 {
		a.judge(open)
	}
}

// applied reports an append whose last event is at head.
func (a *application) applied(at int, head, ts int64) {
	ap := a.all[at]
	ap.head, ap.ts = head, ts
	a.report(at, nil)
}

// judge finds out what became of groups of which an id was in the log: an append
// has its own token there if an earlier send had won.
func (a *application) judge(groups []*group) {
	var stmts []engine.Statement
	var index, ends []int
	alone := make(map[int]bool)
	for _, g := range groups {
		for _, at := range g.members {
			stmts = append(stmts, byIDs(a.all[at].ref, a.all[at].appendIDs(nil))...)
			index, ends = append(index, at), append(ends, len(stmts))
			alone[at] = len(g.members) == 1
		}
	}
	results, err := a.s.query(a.ctx, engine.Linearizable, stmts...)
	if err != nil {
		a.unknown(index, err)
		return
	}
	var again []int
	first := 0
	for i, at := range index {
		found, err := storedByID(a.all[at].ref, results[first:ends[i]])
		first = ends[i]
		if err != nil {
			a.unknown([]int{at}, err)
			continue
		}
		if !a.verdict(at, found, alone[at]) {
			again = append(again, at)
		}
	}
	slices.Sort(again)
	a.run(again, false)
}

// verdict reports an append by what the log holds of its ids. It returns false if
// the append was not applied, and may be.
func (a *application) verdict(at int, found map[string]stored, alone bool) bool {
	ap := a.all[at]
	last := len(ap.records) - 1
	if e, ok := found[ap.records[last].entry.ID]; ok && e.token == ap.token {
		a.s.counters.recovered.Add(1)
		a.s.watch.raise(ap.ref, e.Seq)
		a.applied(at, e.Seq, e.TS.UnixMicro())
		return true
	}
	for i := range ap.records {
		if e, ok := found[ap.records[i].entry.ID]; ok {
			a.report(at, &DuplicateError{ID: e.ID, Envelope: e.Envelope, Same: e.same(&ap.records[i])})
			return true
		}
	}
	if !alone {
		return false
	}
	a.unknown([]int{at}, protocol("exec", engine.Unknown, "the row did not move, although no id is in the log"))
	return true
}

func (a *application) unknown(index []int, err error) {
	for _, at := range index {
		a.report(at, &UnknownError{Ref: a.all[at].ref, Err: joined(a.ctx, err)})
	}
}
