package storetest

import (
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/quorate/quorate/store"
	"github.com/quorate/quorate/store/engine"
)

var listCases = []storeCase{
	{promise: "every filter and all their combinations, with any limit, visit each execution once in byte order", run: func(e *env) {
		all := e.population()
		for _, sts := range [][]store.Status{
			nil, {store.StatusRunning}, {store.StatusDone, store.StatusFailed}, {store.StatusRunning, store.StatusRunning}, statuses,
		} {
			for _, definition := range []string{"", "d1", "nobody's"} {
				for _, roots := range []bool{false, true} {
					q := store.ListQuery{Status: sts, DefinitionID: definition, RootsOnly: roots}
					var want []string
					for _, s := range all {
						if (len(sts) == 0 || slices.Contains(sts, s.Status)) && (definition == "" || s.DefinitionID == definition) && (!roots || s.ParentID == "") {
							want = append(want, s.ID)
						}
					}
					for _, limit := range []int{4, 1000} {
						q.Limit = limit
						e.wantPages(q, want)
					}
				}
			}
		}
		for _, limit := range []int{1, 3, len(all) - 1, len(all), len(all) + 1} {
			var want []string
			for _, s := range all {
				want = append(want, s.ID)
			}
			e.wantPages(store.ListQuery{Limit: limit}, want)
		}
	}},
	{promise: "a summary tells what a load tells", run: func(e *env) {
		for _, want := range e.population() {
			page, err := e.List(e.ctx, store.ListQuery{DefinitionID: want.DefinitionID, Limit: 1000})
			e.must(err)
			i := slices.IndexFunc(page.Items, func(s store.Summary) bool { return s.ID == want.ID })
			if i < 0 || page.Items[i] != want {
				e.Fatalf("%q is not listed as %+v", want.ID, want)
			}
			x := e.load(want.ID)
			if got := (store.Summary{ID: x.ID, DefinitionID: x.DefinitionID, Status: x.Status, Outcome: x.Outcome, ActivePath: x.ActivePath, Version: x.Version, ParentID: x.ParentID}); got != want {
				e.Errorf("loaded %+v, listed %+v", got, want)
			}
		}
	}},
	{promise: "a page holds 100 by default, and none is no limit", run: func(e *env) {
		var ops []op
		for i := range 101 {
			ops = append(ops, op{commit: &store.Commit{Execution: execution(fmt.Sprintf("%03d", i))}})
		}
		for _, r := range e.together(e.ctx, ops) {
			e.must(r.err)
		}
		page, err := e.List(e.ctx, store.ListQuery{})
		e.must(err)
		if len(page.Items) != 100 || page.Next == "" {
			e.Errorf("%d items, next %q", len(page.Items), page.Next)
		}
		page, err = e.List(e.ctx, store.ListQuery{Cursor: page.Next})
		e.must(err)
		if len(page.Items) != 1 || page.Next != "" {
			e.Errorf("%d items, next %q", len(page.Items), page.Next)
		}
		for _, limit := range []int{-1, -100} {
			if _, err := e.List(e.ctx, store.ListQuery{Limit: limit}); !errors.Is(err, store.ErrInvalid) {
				e.Errorf("limit %d: got %v, want invalid input", limit, err)
			}
		}
	}},
	{promise: "a list of nothing is a page without items", run: func(e *env) {
		page, err := e.List(e.ctx, store.ListQuery{})
		if err != nil || len(page.Items) != 0 || page.Next != "" {
			e.Errorf("got %+v, %v", page, err)
		}
	}},
	{promise: "a cursor goes with its own filters only, and garbage is an error", run: func(e *env) {
		e.create("a")
		e.create("b")
		q := store.ListQuery{Limit: 1, Status: []store.Status{store.StatusPending, store.StatusDone}}
		page, err := e.List(e.ctx, q)
		e.must(err)
		good := page.Next
		raw, err := base64.RawURLEncoding.DecodeString(good)
		e.must(err)
		version := slices.Clone(raw)
		version[0]++
		for what, cursor := range map[string]string{
			"not base64": "?", "empty": "AA", "text": "b", "truncated": good[:6], "longer": good + "=", "of another version": base64.RawURLEncoding.EncodeToString(version),
			"a line": good + "\n", "NUL": "\x00", "long": strings.Repeat("A", 4096),
		} {
			q.Cursor = cursor
			if _, err := e.List(e.ctx, q); !errors.Is(err, store.ErrInvalid) {
				e.Errorf("a cursor that is %s: got %v, want invalid input", what, err)
			}
		}
		for _, other := range []store.ListQuery{
			{}, {Status: []store.Status{store.StatusPending}}, {Status: q.Status, DefinitionID: "d"}, {Status: q.Status, RootsOnly: true},
		} {
			other.Cursor = good
			if _, err := e.List(e.ctx, other); !errors.Is(err, store.ErrInvalid) {
				e.Errorf("a cursor with the filters %+v: got %v, want invalid input", other, err)
			}
		}
		// The order of the statuses, the limit and the freshness are no filters.
		got, err := e.List(e.ctx, store.ListQuery{Cursor: good, Limit: 7, Status: []store.Status{store.StatusDone, store.StatusPending}, Consistency: store.Weak})
		e.must(err)
		if len(got.Items) != 1 || got.Items[0].ID != "b" {
			e.Errorf("got %+v", got)
		}
	}},
	{promise: "a cursor works in another process", run: func(e *env) {
		e.create("a")
		e.create("b")
		page, err := e.List(e.ctx, store.ListQuery{Limit: 1})
		e.must(err)
		page, err = e.another().List(e.ctx, store.ListQuery{Limit: 1, Cursor: page.Next})
		e.must(err)
		if len(page.Items) != 1 || page.Items[0].ID != "b" || page.Next != "" {
			e.Errorf("got %+v", page)
		}
	}},
	{promise: "executions that come and go between pages disturb none of the others", run: func(e *env) {
		for _, id := range []string{"b", "d", "f", "h"} {
			e.create(id)
		}
		page, err := e.List(e.ctx, store.ListQuery{Limit: 2})
		e.must(err)
		e.create("a")
		e.create("c")
		e.create("g")
		e.foreign("DELETE FROM executions WHERE id=?", "d") // where the cursor is
		var got []string
		for page.Next != "" {
			page, err = e.List(e.ctx, store.ListQuery{Limit: 1, Cursor: page.Next})
			e.must(err)
			for _, s := range page.Items {
				got = append(got, s.ID)
			}
		}
		if want := []string{"f", "g", "h"}; !slices.Equal(got, want) {
			e.Errorf("the pages after b and d hold %v, want %v", got, want)
		}
	}},
	{promise: "rows whose data is broken are listed without a status and hide no others", run: func(e *env) {
		e.create("a")
		e.create("z")
		for i, data := range []string{"", "not json", "{", `{"status":"RUNNING"`, "[]", "null", `"RUNNING"`, "{}", `{"status":7}`, `{"status":{"a":1}}`, "\ufeff{}", `{"status":"RUNNING",}`, strings.Repeat("[", 3000)} {
			e.foreign("INSERT INTO executions(id,definition_id,data,version) VALUES(?,?,?,?)", fmt.Sprintf("m%02d", i), "broken", data, 1)
		}
		e.wantPages(store.ListQuery{Limit: 4}, []string{"a", "m00", "m01", "m02", "m03", "m04", "m05", "m06", "m07", "m08", "m09", "m10", "m11", "m12", "z"})
		e.wantPages(store.ListQuery{Limit: 4, Status: []store.Status{store.StatusPending}}, []string{"a", "z"})
		e.wantPages(store.ListQuery{Status: []store.Status{store.StatusRunning}}, nil)
		page, err := e.List(e.ctx, store.ListQuery{DefinitionID: "broken"})
		e.must(err)
		for _, s := range page.Items {
			if s.Status.Valid() || s.Version != 1 {
				e.Errorf("listed %+v", s)
			}
		}
	}},
	{promise: "a change by another service is listed as what it is", run: func(e *env) {
		e.create("x")
		e.foreignCommit("x", 1, store.StatusDone)
		e.wantPages(store.ListQuery{Status: []store.Status{store.StatusPending}}, nil)
		e.wantPages(store.ListQuery{Status: []store.Status{store.StatusDone}}, []string{"x"})
		x := e.load("x")
		x.Status = store.StatusFailed
		e.ok(e.Save(e.ctx, x))
		e.wantPages(store.ListQuery{Status: []store.Status{store.StatusDone}}, nil)
		e.wantPages(store.ListQuery{Status: []store.Status{store.StatusFailed, store.StatusPending}}, []string{"x"})
	}},
	{promise: "ids that only other services can have made do not stop the pages", run: func(e *env) {
		ids := []string{"", "x'41'", "X'42' ", "y"}
		for _, id := range ids {
			// Bound, an engine may take such a text for a blob.
			e.foreign("INSERT INTO executions(id,definition_id,data,version) VALUES('" + strings.ReplaceAll(id, "'", "''") + "','d','{}',1)")
		}
		if !e.db.Typed {
			e.foreign("INSERT INTO executions(id,definition_id,data,version) VALUES(x'ff','d','{}',1)") // no text at all
		}
		slices.Sort(ids)
		e.wantPages(store.ListQuery{Limit: 1}, ids)
	}},
	{promise: "a page costs what it holds, also with filters on status and definition", run: func(e *env) {
		e.population()
		page, err := e.List(e.ctx, store.ListQuery{Limit: 2})
		e.must(err)
		e.wantPlan([]string{"executions USING"}, "TEMP B-TREE")
		_, err = e.List(e.ctx, store.ListQuery{Limit: 2, Cursor: page.Next})
		e.must(err)
		e.wantPlan([]string{"SEARCH executions USING"}, "SCAN executions", "TEMP B-TREE")
		for _, q := range []store.ListQuery{
			{Status: []store.Status{store.StatusRunning}}, {Status: []store.Status{store.StatusRunning, store.StatusDone}}, {DefinitionID: "d0"},
		} {
			q.Limit = 2
			for range 2 {
				page, err := e.List(e.ctx, q)
				e.must(err)
				// Merging the branches sorts a page for each, never the table.
				e.wantPlan([]string{"SEARCH executions USING", "INDEX quorate_executions_"}, "SCAN executions")
				q.Cursor = page.Next
			}
		}
	}},
}

// population stores executions of every kind, by commits and by foreign
// writers, and returns their summaries in byte order.
func (e *env) population() []store.Summary {
	e.Helper()
	ids := []string{
		"a", "A", "Z", "z", "_", "%", "a_b", "aXb", "a%b", "A_b", `a\b`, "ä", "ä_b", "😀", "\uffff", "0", "00", "1", "10", "2", "-", " ", "'", "\"", "null",
		"aa", "aaa", "ab", "b", "\t", "~",
	}
	var all []store.Summary
	var ops []op
	for i, id := range ids {
		x := execution(id)
		x.DefinitionID, x.Status = fmt.Sprint("d", i%3), statuses[i%len(statuses)]
		if i%4 != 0 {
			x.ParentID = fmt.Sprint("parent", i)
		}
		if i%5 == 0 {
			x.Outcome, x.ActivePath = fmt.Sprint("outcome's ", i), "/😀"
		}
		version := int64(1)
		switch i % 3 {
		case 0: // another service wrote it
			version = 4
			x.Version = version
			data, err := x.MarshalJSON()
			e.must(err)
			e.foreign("INSERT INTO executions(id,definition_id,data,version) VALUES(?,?,?,?)", id, x.DefinitionID, string(data), version)
		default:
			ops = append(ops, op{commit: &store.Commit{Execution: x}})
		}
		all = append(all, store.Summary{ID: id, DefinitionID: x.DefinitionID, Status: x.Status, Outcome: x.Outcome, ActivePath: x.ActivePath, Version: version, ParentID: x.ParentID})
	}
	for _, r := range e.together(e.ctx, ops) {
		e.must(r.err)
	}
	slices.SortFunc(all, func(a, b store.Summary) int { return strings.Compare(a.ID, b.ID) })
	return all
}

// wantPages fails unless the pages of q hold these ids, each full but the last.
func (e *env) wantPages(q store.ListQuery, want []string) {
	e.Helper()
	var got []string
	for pages := 0; ; pages++ {
		page, err := e.List(e.ctx, q)
		if err != nil {
			e.Fatalf("%+v: %v", q, err)
		}
		for _, s := range page.Items {
			got = append(got, s.ID)
		}
		if page.Next == "" {
			break
		}
		if len(page.Items) != q.Limit || len(got) > len(want) || pages > len(want) {
			e.Fatalf("%+v: a page of %d items that is not the last; so far %q, want %q", q, len(page.Items), got, want)
		}
		q.Cursor = page.Next
	}
	if !slices.Equal(got, want) {
		e.Errorf("%+v: got %q, want %q", q, got, want)
	}
}

// wantPlan explains the last query and fails unless its plan holds the wanted
// parts and none of the others.
func (e *env) wantPlan(wanted []string, unwanted ...string) {
	e.Helper()
	last := e.tap.lastQuery()
	if len(last) != 1 {
		e.Fatalf("the last request had %d queries, want 1", len(last))
	}
	res, err := e.db.Engine.Query(e.ctx, engine.Linearizable, []engine.Statement{{SQL: "EXPLAIN QUERY PLAN " + last[0].SQL, Args: last[0].Args}})
	if err != nil {
		e.Skipf("this engine does not explain its plans (%v): give it EXPLAIN QUERY PLAN as SQLite has it to run this", err)
	}
	var plan strings.Builder
	col := res[0].Column("detail")
	for i := range res[0].Len() {
		if col >= 0 {
			line, _ := res[0].Row(i)[col].Text()
			plan.WriteString(line + "\n")
		}
	}
	if plan.Len() == 0 {
		e.Skip("this engine does not explain its plans: give it EXPLAIN QUERY PLAN as SQLite has it to run this")
	}
	for _, part := range wanted {
		if !strings.Contains(plan.String(), part) {
			e.Errorf("%s\nhas the plan\n%swithout %q", last[0].SQL, plan.String(), part)
		}
	}
	for _, part := range unwanted {
		if strings.Contains(plan.String(), part) {
			e.Errorf("%s\nhas the plan\n%swith %q", last[0].SQL, plan.String(), part)
		}
	}
}
