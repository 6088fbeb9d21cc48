package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/quorate/quorate/store/engine"
)

// job is a list of statements on its way to the server.
type job struct {
	stmts []engine.Statement
	texts []*text
	// lost is what became of the statements if the connection breaks after they
	// were sent.
	lost engine.Outcome
	// commits says that the last statement ends the transaction, not the end of
	// the message.
	commits bool
	// unprepared sends texts instead of names.
	unprepared bool
}

// newJob looks at statements before anything is sent.
func (e *Engine) newJob(stmts []engine.Statement, lost engine.Outcome) (*job, *failure) {
	j := &job{stmts: stmts, texts: make([]*text, len(stmts)), lost: lost, unprepared: e.unprepared.Load()}
	for i := range stmts {
		t := e.texts.get(stmts[i].SQL)
		if t.count != len(stmts[i].Args) {
			return nil, unfit(i, fmt.Errorf("%d parameters for %d arguments", t.count, len(stmts[i].Args)))
		}
		j.texts[i] = t
		// A statement on a table that one before it makes cannot be prepared.
		j.unprepared = j.unprepared || !t.plain
	}
	return j, nil
}

// last is how many answers there are before the transaction ends.
func (j *job) last() int {
	if j.commits {
		return len(j.stmts) - 1
	}
	return len(j.stmts)
}

// unfit builds the failure of a statement that cannot be sent.
func unfit(index int, err error) *failure {
	return &failure{outcome: engine.NotApplied, err: &engine.StatementError{Index: index, Message: err.Error()}}
}

// run sends the statements in one round trip, as one transaction if none is
// open, and returns a result for each. Those whose text is new to the connection
// are prepared first, in a round trip of their own.
func (c *conn) run(j *job) ([]engine.Result, *failure) {
	plans := make([]*prepared, len(j.stmts))
	if !j.unprepared {
		if f := c.prepare(j, plans); f != nil {
			return nil, f
		}
	}
	p := c.pg.StartPipeline(context.Background())
	for i := range j.stmts {
		if err := c.args.set(j.stmts[i].Args); err != nil {
			c.retired = true // what was begun is not sent
			_ = p.Close()
			return nil, unfit(i, err)
		}
		a := &c.args
		if plan := plans[i]; plan != nil {
			p.SendQueryStatement(plan.desc, a.values, a.formats, plan.formats)
		} else {
			p.SendQueryParams(j.texts[i].render(j.stmts[i].Args), a.values, a.types, a.formats, nil)
		}
	}
	// The last message ends the transaction. If it could not be written in full
	// there is nothing to end: the server undoes what it has done. A COMMIT stands
	// before it, and may have arrived.
	if err := p.Sync(); err != nil {
		_ = p.Close()
		if j.commits {
			return nil, broken(j.lost, err)
		}
		return nil, broken(engine.NotApplied, err)
	}
	results, f := c.receive(p, j, plans)
	if err := p.Close(); err != nil && f == nil {
		f = broken(j.lost, err)
	}
	if f != nil {
		return nil, f
	}
	return results, nil
}

// receive reads the results, up to the word that the transaction has ended.
func (c *conn) receive(p *pgconn.Pipeline, j *job, plans []*prepared) ([]engine.Result, *failure) {
	results := make([]engine.Result, len(j.stmts))
	for i := range j.stmts {
		got, err := p.GetResults()
		if err == nil {
			rows, ok := got.(*pgconn.ResultReader)
			if !ok {
				return nil, broken(j.lost, fmt.Errorf("%T where the rows of a statement were expected", got))
			}
			var columns []string
			if plans[i] != nil {
				columns = plans[i].columns
			}
			err = take(rows, columns, &results[i])
		}
		if err != nil {
			return nil, c.failed(i, j.last(), j.lost, err)
		}
	}
	got, err := p.GetResults()
	if err != nil {
		f := c.failed(len(j.stmts), j.last(), j.lost, err)
		var refused *engine.StatementError
		if errors.As(f.err, &refused) {
			refused.Index-- // a constraint that was deferred to the end: there is no statement of that number
		}
		return nil, f
	}
	if _, ok := got.(*pgconn.PipelineSync); !ok {
		return nil, broken(j.lost, fmt.Errorf("%T where the end of the transaction was expected", got))
	}
	return results, nil
}

// take reads the rows of one statement.
func take(rows *pgconn.ResultReader, columns []string, res *engine.Result) error {
	fields := rows.FieldDescriptions()
	if columns == nil {
		columns = columnNames(fields)
	}
	res.Columns = columns
	var bad error
	for rows.NextRow() {
		for k, raw := range rows.Values() {
			v, err := decode(&fields[k], raw)
			if err != nil && bad == nil {
				bad = fmt.Errorf("column %q: %w", fields[k].Name, err)
			}
			res.Values = append(res.Values, v)
		}
	}
	tag, err := rows.Close()
	if err != nil {
		return err
	}
	if bad != nil {
		return bad
	}
	if tag.Insert() || tag.Update() || tag.Delete() {
		res.RowsAffected = tag.RowsAffected()
	}
	return nil
}

// failed builds the failure of a list that was sent, of which the first index
// statements were answered; after the last answer the transaction ends.
//
// The server ends the transaction after the last of them. So an error of a
// statement, and one of the end itself, say that it was undone; but a session
// that is ended by force after the last one may have done its work.
func (c *conn) failed(index, last int, lost engine.Outcome, err error) *failure {
	var pg *pgconn.PgError
	if !errors.As(err, &pg) {
		return broken(lost, err)
	}
	f := refused(index, pg)
	if pg.Severity == "FATAL" || pg.SeverityUnlocalized == "FATAL" || pg.Severity == "PANIC" || pg.SeverityUnlocalized == "PANIC" {
		c.retired = true
		f = broken(engine.NotApplied, pg)
		if index >= last {
			f.outcome, f.again = lost, never
		}
	}
	return f
}

// broken builds the failure of a connection that is of no more use.
func broken(outcome engine.Outcome, err error) *failure {
	f := &failure{outcome: outcome, reason: engine.ErrUnavailable, err: fmt.Errorf("%w: %w", errLost, err)}
	if outcome == engine.NotApplied {
		f.again = stale
	}
	return f
}

// prepare finds, or makes, the prepared statement of each of the job's.
func (c *conn) prepare(j *job, plans []*prepared) *failure {
	var missing []int
	now := time.Now()
	for i := range j.stmts {
		st := &j.stmts[i]
		if len(st.Args) > maxPreparedParams {
			continue
		}
		plan := c.statements.find(st.SQL, st.Args)
		if plan != nil && now.Sub(plan.since) > maxPreparedAge {
			c.statements.remove(plan)
			plan = nil
		}
		if plans[i] = plan; plan == nil && !among(j.stmts, missing, st) {
			missing = append(missing, i)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	p := c.pg.StartPipeline(context.Background())
	for _, name := range c.statements.drop {
		p.SendDeallocate(name)
	}
	drops := len(c.statements.drop)
	names := make([]string, len(missing))
	types := make([]uint32, 0, 16)
	for k, i := range missing {
		types = types[:0]
		for _, v := range j.stmts[i].Args {
			types = append(types, typeOf(v))
		}
		names[k] = c.statements.name()
		p.SendPrepare(names[k], j.texts[i].render(j.stmts[i].Args), types)
	}
	if err := p.Sync(); err != nil {
		_ = p.Close()
		return broken(engine.NotApplied, err)
	}
	f := func() *failure {
		for range drops {
			if _, err := p.GetResults(); err != nil {
				return c.failed(0, 1, engine.NotApplied, err)
			}
		}
		c.statements.drop = c.statements.drop[:0]
		for k, i := range missing {
			got, err := p.GetResults()
			if err != nil {
				return c.failed(i, len(j.stmts)+1, engine.NotApplied, err)
			}
			desc, ok := got.(*pgconn.StatementDescription)
			if !ok || len(desc.ParamOIDs) != len(j.stmts[i].Args) {
				return broken(engine.NotApplied, fmt.Errorf("%T where a statement's description was expected", got))
			}
			desc.Name, desc.SQL = names[k], j.stmts[i].SQL
			c.statements.add(newPrepared(j.stmts[i].SQL, j.stmts[i].Args, desc))
		}
		return nil
	}()
	if err := p.Close(); err != nil && f == nil {
		f = broken(engine.NotApplied, err)
	}
	if f != nil {
		return f
	}
	for i := range j.stmts {
		if plans[i] == nil && len(j.stmts[i].Args) <= maxPreparedParams {
			// What does not fit although it was just made is sent as text.
			plans[i] = c.statements.find(j.stmts[i].SQL, j.stmts[i].Args)
		}
	}
	return nil
}

// among reports whether one of the statements has the text and the types of st.
func among(stmts []engine.Statement, index []int, st *engine.Statement) bool {
	for _, i := range index {
		if o := &stmts[i]; o.SQL == st.SQL && sameTypes(o.Args, st.Args) {
			return true
		}
	}
	return false
}

func sameTypes(a, b []engine.Value) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i].Kind() != b[i].Kind() && !b[i].IsNull() {
			return false
		}
	}
	return true
}
