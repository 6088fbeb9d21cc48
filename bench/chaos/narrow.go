package main

import (
	"cmp"
	"math"
	"slices"

	"github.com/anishathalye/porcupine"
)

// Porcupine's search is exponential in the number of operations that overlap,
// and here dozens do. Most of its choices are none, since an operation says which
// version it belongs to: a commit made one, a load saw one. What belongs to a
// later version takes place after all that belongs to an earlier one. So an
// operation cannot take place before the call of any that is earlier by version,
// nor after the return of any that is later. Cutting intervals down to that
// changes nothing about whether a history is linearizable, and leaves porcupine
// little to search.

// rank orders operations by version: the commit that made it, then what saw it.
// It returns -1 for an operation that belongs to no version in particular.
func (op *operation) rank() int64 {
	switch {
	case op.Commit == 0:
		return 2*op.Found.Version + 1
	case op.Verdict == verdictOK:
		return 2 * (op.Base.Version + 1)
	case op.Verdict == verdictConflict && op.Found.Version != unseen && op.Found.Version != op.Base.Version:
		return 2*op.Found.Version + 1
	}
	return -1
}

// narrow cuts the intervals of operations down. If one has nothing left, the
// history is not linearizable; narrow then returns two operations that contradict
// each other, and leaves all as they were.
func narrow(ops []operation) (early, late *operation) {
	order := make([]int, 0, len(ops))
	for i := range ops {
		if ops[i].rank() >= 0 {
			order = append(order, i)
		}
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(ops[a].rank(), ops[b].rank()) })

	calls, returns := make([]int64, len(ops)), make([]int64, len(ops))
	// Going up, the latest call of lower ranks; going down, the earliest return of
	// higher ones.
	sweep := func(each func(i int), same func(a, b int) bool, fold func(i int)) {
		for at := 0; at < len(order); {
			end := at
			for ; end < len(order) && same(order[at], order[end]); end++ {
				each(order[end])
			}
			for ; at < end; at++ {
				fold(order[at])
			}
		}
	}
	same := func(a, b int) bool { return ops[a].rank() == ops[b].rank() }
	last, latest := -1, int64(math.MinInt64)
	sweep(func(i int) {
		if calls[i] = max(ops[i].Call, latest); calls[i] > ops[i].Return && early == nil {
			early, late = &ops[i], &ops[last]
		}
	}, same, func(i int) {
		if ops[i].Call > latest {
			last, latest = i, ops[i].Call
		}
	})
	if early != nil {
		return early, late
	}
	slices.Reverse(order)
	earliest := int64(math.MaxInt64)
	sweep(func(i int) { returns[i] = min(ops[i].Return, earliest) }, same, func(i int) { earliest = min(earliest, ops[i].Return) })
	for _, i := range order {
		ops[i].Call, ops[i].Return = calls[i], returns[i]
	}
	return nil, nil
}

// events turns a history into porcupine's form. Calls at the same time come in
// the order of their versions, which is the order to try them in.
func events(ops []operation) []porcupine.Event {
	type moment struct {
		at    int64
		event porcupine.Event
		rank  int64
	}
	moments := make([]moment, 0, 2*len(ops))
	for i := range ops {
		op := &ops[i]
		lane := op.lane
		moments = append(moments,
			moment{op.Call, porcupine.Event{ClientId: lane, Kind: porcupine.CallEvent, Value: op, Id: i}, op.rank()},
			moment{op.Return, porcupine.Event{ClientId: lane, Kind: porcupine.ReturnEvent, Value: op.Verdict, Id: i}, op.rank()})
	}
	slices.SortStableFunc(moments, func(a, b moment) int {
		if c := cmp.Compare(a.at, b.at); c != 0 {
			return c
		}
		if a.event.Kind != b.event.Kind {
			if a.event.Kind == porcupine.CallEvent {
				return -1
			}
			return 1
		}
		return cmp.Compare(a.rank, b.rank)
	})
	list := make([]porcupine.Event, len(moments))
	for i := range moments {
		list[i] = moments[i].event
	}
	return list
}
