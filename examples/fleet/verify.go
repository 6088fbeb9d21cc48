package main

import (
	"context"
	"fmt"
	"strings"
)

// check is one line of the verification.
type check struct {
	what   string
	detail string
	err    string // why it failed; empty if it holds
}

// verifier compares the database with what the oracle expects, by plain SQL and
// without the store.
type verifier struct {
	db    querier
	model *oracle
	// versionsBefore is the sum of all versions before the run, commits how many
	// commits were acknowledged since.
	versionsBefore, commits int64
}

// readPage is how many rows a query of the verification returns at most.
const readPage = 5000

// verify runs all checks. The error says that one could not be run.
func (v *verifier) verify(ctx context.Context) ([]check, error) {
	var checks []check
	for _, do := range []func(context.Context) (check, error){
		v.orders, v.ledger, v.shipments, v.accounts, v.versions, v.acknowledged, v.empty, v.orphans,
	} {
		c, err := do(ctx)
		if err != nil {
			return checks, fmt.Errorf("verify that %s: %w", c.what, err)
		}
		checks = append(checks, c)
	}
	return checks, nil
}

// differences collects what is wrong and shows the first few.
type differences struct {
	n    int
	text []string
}

func (d *differences) add(format string, args ...any) {
	if d.n++; d.n <= 3 {
		d.text = append(d.text, fmt.Sprintf(format, args...))
	}
}

func (d *differences) String() string {
	if d.n > len(d.text) {
		return fmt.Sprintf("%s; and %d more", strings.Join(d.text, "; "), d.n-len(d.text))
	}
	return strings.Join(d.text, "; ")
}

// each runs a query whose last condition is a row value greater than the last
// row's key, page by page, and calls fn for each row.
func (v *verifier) each(ctx context.Context, query string, keys int, fn func(row []any)) error {
	last := make([]any, keys)
	for i := range last {
		last[i] = ""
	}
	for {
		rows, err := v.db.query(ctx, query+fmt.Sprint(readPage), last...)
		if err != nil {
			return err
		}
		for _, row := range rows {
			fn(row)
		}
		if len(rows) < readPage {
			return nil
		}
		copy(last, rows[len(rows)-1][:keys])
	}
}

// number runs a query for one number.
func (v *verifier) number(ctx context.Context, query string) (int64, error) {
	rows, err := v.db.query(ctx, query)
	if err != nil {
		return 0, err
	}
	if len(rows) != 1 || len(rows[0]) != 1 {
		return 0, fmt.Errorf("%d rows for a number", len(rows))
	}
	return integer(rows[0][0]), nil
}

func integer(v any) int64 {
	n, _ := v.(int64)
	return n
}

func text(v any) string {
	s, _ := v.(string)
	return s
}

// orders compares every order of the input with what its events must lead to.
func (v *verifier) orders(ctx context.Context) (check, error) {
	c := check{what: "every order is as its events demand"}
	found := make(map[string]outcome, len(v.model.orders))
	err := v.each(ctx, `SELECT id, json_extract(data,'$.status'), json_extract(data,'$.context.state'),`+
		` json_extract(data,'$.context.merchant'), json_extract(data,'$.context.items'), json_extract(data,'$.context.total_cents'),`+
		` json_extract(data,'$.context.late'), json_extract(data,'$.context.next_seq'), coalesce(json_array_length(data,'$.deferred'),0)`+
		` FROM executions WHERE definition_id='`+defOrder+`' AND id>? ORDER BY id LIMIT `, 1, func(row []any) {
		found[text(row[0])] = outcome{
			status: text(row[1]), state: text(row[2]), merchant: text(row[3]), items: integer(row[4]),
			totalCents: integer(row[5]), late: integer(row[6]), nextSeq: integer(row[7]), deferred: integer(row[8]),
		}
	})
	if err != nil {
		return c, err
	}
	var wrong differences
	states := make(map[string]int)
	for id, l := range v.model.orders {
		want := l.expect()
		states[want.state]++
		if got, ok := found[id]; !ok {
			wrong.add("order %s is missing", id)
		} else if got != want {
			wrong.add("order %s is %+v, should be %+v", id, got, want)
		}
	}
	c.detail, c.err = fmt.Sprintf("%s orders: %s", group(int64(len(v.model.orders))), tally(states)), wrong.String()
	return c, nil
}

// tally lists how many orders ended in each state.
func tally(states map[string]int) string {
	var parts []string
	for _, s := range []struct{ state, words string }{
		{orderShipped, "shipped"}, {orderExpired, "expired"}, {orderCancelled, "cancelled"}, {orderNew, "not placed"},
	} {
		if n := states[s.state]; n > 0 {
			parts = append(parts, fmt.Sprintf("%s %s", group(int64(n)), s.words))
		}
	}
	return strings.Join(parts, ", ")
}

// ledger compares the orders' processed events with the input. The primary key
// of the ledger keeps an event from being there twice; that its effect was
// counted once shows in the orders' and the accounts' sums.
func (v *verifier) ledger(ctx context.Context) (check, error) {
	c := check{what: "every event took effect, and each once"}
	seen := int64(0)
	var wrong differences
	err := v.each(ctx, `SELECT execution_id, event_id FROM processed_events WHERE (execution_id, event_id)>(?,?)`+
		` ORDER BY execution_id, event_id LIMIT `, 2, func(row []any) {
		order, id := text(row[0]), text(row[1])
		l := v.model.orders[order]
		if l == nil || strings.Contains(id, "/") { // of another execution, or made by the fleet
			return
		}
		if _, ok := l.ids[id]; !ok {
			wrong.add("order %s has processed %s, which is not in the input", order, id)
			return
		}
		seen++
	})
	if err != nil {
		return c, err
	}
	if seen != v.model.distinct {
		wrong.add("%d of %d events are in the ledger", seen, v.model.distinct)
	}
	c.detail, c.err = fmt.Sprintf("%s different events", group(v.model.distinct)), wrong.String()
	return c, nil
}

// shipments: each paid order has one shipment, delivered, and it knows.
func (v *verifier) shipments(ctx context.Context) (check, error) {
	c := check{what: "every paid order has its one shipment"}
	rows, err := v.db.query(ctx, `SELECT o.id FROM executions o LEFT JOIN executions s ON s.id='shipment/'||o.id AND s.definition_id='`+defShipment+`'`+
		` WHERE o.definition_id='`+defOrder+`' AND CASE WHEN json_extract(o.data,'$.context.state') IN ('paid','shipped') THEN`+
		` coalesce(json_extract(s.data,'$.status'),'')<>'DONE' OR json_extract(s.data,'$.parent_id')<>o.id`+
		` OR json_extract(o.data,'$.children."shipment/'||o.id||'".finished') IS NOT 1`+
		` OR json_extract(o.data,'$.children."shipment/'||o.id||'".result.parcels')<>(json_extract(o.data,'$.context.items')+9)/10`+
		` ELSE s.id IS NOT NULL END ORDER BY o.id`)
	if err != nil {
		return c, err
	}
	var wrong differences
	for _, row := range rows {
		wrong.add("order %s and its shipment do not fit", text(row[0]))
	}
	n, err := v.number(ctx, `SELECT count(*) FROM executions WHERE definition_id='`+defShipment+`'`)
	c.detail, c.err = group(n)+" shipments", wrong.String()
	return c, err
}

// accounts: the merchants' accounts hold what the paid orders cost.
func (v *verifier) accounts(ctx context.Context) (check, error) {
	c := check{what: "the accounts hold what was paid, to the cent"}
	const paid = `SELECT 'account/'||json_extract(data,'$.context.merchant') id, count(*) n, sum(json_extract(data,'$.context.total_cents')) cents` +
		` FROM executions WHERE definition_id='` + defOrder + `' AND json_extract(data,'$.context.state') IN ('paid','shipped') GROUP BY 1`
	const booked = `SELECT id, json_extract(data,'$.context.payments') n, json_extract(data,'$.context.total_cents') cents` +
		` FROM executions WHERE definition_id='` + defAccount + `'`
	rows, err := v.db.query(ctx, `SELECT id FROM (SELECT * FROM (`+paid+` EXCEPT `+booked+`) UNION SELECT * FROM (`+booked+` EXCEPT `+paid+`)) GROUP BY id ORDER BY id`)
	if err != nil {
		return c, err
	}
	var wrong differences
	for _, row := range rows {
		wrong.add("%s does not hold the sum of its orders", text(row[0]))
	}
	totals, err := v.db.query(ctx, `SELECT count(*), coalesce(sum(n),0), coalesce(sum(cents),0) FROM (`+booked+`)`)
	if err != nil {
		return c, err
	}
	cents := integer(totals[0][2])
	c.detail = fmt.Sprintf("%s accounts, %s payments, %s.%02d in all", group(integer(totals[0][0])), group(integer(totals[0][1])), group(cents/100), cents%100)
	c.err = wrong.String()
	return c, nil
}

// versions: each commit handled one event and left one step in the trace, so
// the three are counted alike. The trace keeps the last 200 steps.
func (v *verifier) versions(ctx context.Context) (check, error) {
	c := check{what: "versions = events processed = trace steps"}
	rows, err := v.db.query(ctx, `SELECT e.id FROM executions e`+
		` LEFT JOIN (SELECT execution_id id, count(*) n FROM processed_events GROUP BY 1) p ON p.id=e.id`+
		` LEFT JOIN (SELECT execution_id id, count(*) n, max(idx)+1 last FROM trace GROUP BY 1) t ON t.id=e.id`+
		` WHERE e.definition_id LIKE 'fleet.%' AND (e.version IS NOT p.n OR e.version IS NOT t.last OR t.n IS NOT min(e.version,200)`+
		` OR e.version IS NOT json_extract(e.data,'$.version') OR e.version IS NOT json_extract(e.data,'$.processed_events')) ORDER BY e.id`)
	if err != nil {
		return c, err
	}
	var wrong differences
	for _, row := range rows {
		wrong.add("they differ for %s", text(row[0]))
	}
	n, err := v.number(ctx, `SELECT count(*) FROM executions`)
	c.detail, c.err = group(n)+" executions", wrong.String()
	return c, err
}

// sumVersions is how many commits the database has seen.
func sumVersions(ctx context.Context, db querier) (int64, error) {
	v := verifier{db: db}
	return v.number(ctx, `SELECT coalesce(sum(version),0) FROM executions WHERE definition_id LIKE 'fleet.%'`)
}

// acknowledged: no commit that was acknowledged is missing. There may be more of
// them if other processes work on the same database.
func (v *verifier) acknowledged(ctx context.Context) (check, error) {
	c := check{what: "no acknowledged commit is lost"}
	after, err := sumVersions(ctx, v.db)
	if err != nil {
		return c, err
	}
	grown := after - v.versionsBefore
	c.detail = fmt.Sprintf("%s commits, versions grew by %s", group(v.commits), group(grown))
	if grown < v.commits {
		c.err = "versions grew by less than that"
	}
	return c, nil
}

// empty: nothing waits any more.
func (v *verifier) empty(ctx context.Context) (check, error) {
	c := check{what: "outbox, spawns and timers are empty"}
	left, err := v.left(ctx)
	if left != (leftover{}) {
		c.err = left.String()
	}
	return c, err
}

// orphans: nothing was written for an execution that is not there.
func (v *verifier) orphans(ctx context.Context) (check, error) {
	c := check{what: "nothing leaked from commits that lost"}
	n, err := v.number(ctx, `SELECT (SELECT count(*) FROM processed_events WHERE execution_id NOT IN (SELECT id FROM executions))`+
		`+(SELECT count(*) FROM trace WHERE execution_id NOT IN (SELECT id FROM executions))`+
		`+(SELECT count(*) FROM timers WHERE execution_id NOT IN (SELECT id FROM executions))`)
	if n > 0 {
		c.err = fmt.Sprintf("%d rows belong to executions that do not exist", n)
	}
	return c, err
}

// leftover is what still waits in the database.
type leftover struct{ outbox, spawns, timers int64 }

func (v *verifier) left(ctx context.Context) (leftover, error) {
	rows, err := v.db.query(ctx, `SELECT (SELECT count(*) FROM outbox), (SELECT count(*) FROM spawns), (SELECT count(*) FROM timers)`)
	if err != nil {
		return leftover{}, err
	}
	return leftover{integer(rows[0][0]), integer(rows[0][1]), integer(rows[0][2])}, nil
}

func (l leftover) String() string {
	return fmt.Sprintf("%s in the outbox, %s to spawn, %s timers", group(l.outbox), group(l.spawns), group(l.timers))
}
