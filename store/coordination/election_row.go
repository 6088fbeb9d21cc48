package coordination

import (
	"context"
	"encoding/json"
	"strings"
	"time"

	"github.com/quorate/quorate/store/engine"
)

// A row is never deleted, so that terms only grow. It is vacant if expires is 0,
// as a release leaves it; holder then still names who led last. The version grows
// with every write, for takeovers without a shared clock.
var electionDDL = []string{
	`CREATE TABLE IF NOT EXISTS quorate_elections (
	name TEXT PRIMARY KEY,
	holder TEXT NOT NULL,
	lease BIGINT NOT NULL,
	acquired BIGINT NOT NULL,
	renewed BIGINT NOT NULL,
	expires BIGINT NOT NULL,
	transitions BIGINT NOT NULL,
	term BIGINT NOT NULL,
	version BIGINT NOT NULL,
	metadata TEXT NOT NULL)`,
}

// standSQL acquires or renews. It writes nothing over the live lease of another.
//
// ?9 is the term that the caller holds, or 0. With a term it only renews: a lease
// that has ended is not retaken, so a request that arrives after its own
// campaign's release does nothing. Without one, a lease of the caller's own begins
// a new term, since the caller has stopped leading in between. A holder that has
// released never stands again, so that a candidacy which arrives late takes nothing;
// and a late renewal must not shorten a lease.
//
// ?8 is what expires must exceed for a lease to live: now, or 0 where no clock is
// shared. Then ?10 is the version that was seen unchanged for a whole lease, or -1.
// ?6 is the greatest term ever seen by the caller, in case somebody deleted the row.
const standSQL = `INSERT INTO quorate_elections (name,holder,lease,acquired,renewed,expires,transitions,term,version,metadata)
VALUES (?1,?2,?3,?4,?4,?5,0,?6+1,1,?7)
ON CONFLICT(name) DO UPDATE SET
 acquired=CASE WHEN quorate_elections.holder=?2 AND quorate_elections.term=?9 THEN quorate_elections.acquired ELSE excluded.acquired END,
 transitions=CASE WHEN quorate_elections.holder=?2 THEN quorate_elections.transitions ELSE quorate_elections.transitions+1 END,
 term=CASE WHEN quorate_elections.holder=?2 AND quorate_elections.term=?9 THEN quorate_elections.term ELSE quorate_elections.term+1 END,
 renewed=CASE WHEN quorate_elections.holder=?2 AND quorate_elections.renewed>?4 THEN quorate_elections.renewed ELSE ?4 END,
 expires=CASE WHEN quorate_elections.holder=?2 AND quorate_elections.expires>?5 THEN quorate_elections.expires ELSE ?5 END,
 holder=excluded.holder, lease=excluded.lease,
 version=quorate_elections.version+1, metadata=excluded.metadata
WHERE (quorate_elections.holder=?2 AND quorate_elections.expires>?8)
 OR (?9=0 AND (quorate_elections.holder<>?2 OR quorate_elections.expires>0) AND (quorate_elections.expires<=?8 OR quorate_elections.version=?10))
RETURNING holder,lease,acquired,renewed,expires,transitions,term,version,metadata`

// vacateSQL releases: the lease of the holder (?2) in its term (?3; 0 is any).
const vacateSQL = `UPDATE quorate_elections SET expires=0, version=quorate_elections.version+1
WHERE name=?1 AND holder=?2 AND (term=?3 OR ?3=0) AND expires>0`

const leaderSQL = `SELECT holder,lease,acquired,renewed,expires,transitions,term,version,metadata,expires-?2 AS remaining
FROM quorate_elections WHERE name=?1`

// Leader is who leads an election, or did last.
type Leader struct {
	// ID is what the leader's [ElectionOptions] say; Holder is its identity: the ID
	// and a random part. It is empty if nobody leads.
	ID, Holder string
	// Term is the fencing token: it grows with every new leadership, also one of the
	// same holder, and is never given twice.
	Term int64
	// Transitions counts how often another holder than the last took over.
	Transitions int64
	// Lease is how long the leadership outlives its last renewal.
	Lease time.Duration
	// Acquired, Renewed and Expires are the beginning of the term, its last renewal,
	// and its end unless it is renewed again, all by the database's clock.
	Acquired, Renewed, Expires time.Time
	// Metadata is what the leader wants to be known. It must not be changed.
	Metadata map[string]string
}

// electionRow is a row as one request saw it.
type electionRow struct {
	Leader
	expires   int64
	version   int64
	remaining time.Duration // until the lease ends
}

// live reports whether the row, just read, is somebody's.
func (e *Election) live(r *electionRow) bool {
	return r.Holder != "" && r.expires != 0 && (r.remaining > 0 || e.p.noSharedClock)
}

// stand sends the one statement. The row is nil if another leads, or if held has
// ended.
func (e *Election) stand(ctx context.Context, holder string, held, seen, unchanged int64) (*electionRow, error) {
	o := &e.opts
	res, err := e.p.do(ctx, "campaign in election", e.name, engine.Statement{SQL: standSQL, Returning: true, Args: []engine.Value{
		engine.Text(e.name), engine.Text(holder), engine.Int(micros(o.Lease)), e.p.now(0), e.p.now(o.Lease), engine.Int(seen),
		engine.Text(e.metadata), e.p.judge(), engine.Int(held), engine.Int(unchanged),
	}})
	if err != nil || res[0].Len() == 0 {
		return nil, err
	}
	return e.parse(res[0].Row(0))
}

// look reads the row; the zero row stands for none.
func (e *Election) look(ctx context.Context) (*electionRow, error) {
	res, err := e.p.read(ctx, "look at election", e.name, engine.Statement{SQL: leaderSQL, Args: []engine.Value{engine.Text(e.name), e.p.now(0)}})
	if err != nil {
		return nil, err
	}
	if res[0].Len() == 0 {
		return &electionRow{}, nil
	}
	return e.parse(res[0].Row(0))
}

// vacate releases the lease of a holder in a term, or in any if term is 0, and
// reports whether there was one.
func (e *Election) vacate(ctx context.Context, holder string, term int64) (bool, error) {
	res, err := e.p.do(ctx, "resign from election", e.name, engine.Statement{SQL: vacateSQL, Args: []engine.Value{
		engine.Text(e.name), engine.Text(holder), engine.Int(term),
	}})
	return err == nil && res[0].RowsAffected > 0, err
}

func (e *Election) parse(row []engine.Value) (*electionRow, error) {
	holder, ok := row[0].Text()
	metadata, ok2 := row[8].Text()
	var n [9]int64
	for i, v := range row {
		if i == 0 || i == 8 {
			continue
		}
		x, isInt := v.Int()
		if ok = ok && isInt; i < 8 {
			n[i] = x
		} else {
			n[8] = x
		}
	}
	r := &electionRow{expires: n[4], version: n[7], remaining: time.Duration(n[8]) * time.Microsecond}
	r.Leader = Leader{
		ID: holder, Holder: holder, Term: n[6], Transitions: n[5], Lease: time.Duration(n[1]) * time.Microsecond,
		Acquired: time.UnixMicro(n[2]), Renewed: time.UnixMicro(n[3]), Expires: time.UnixMicro(n[4]),
	}
	if i := strings.LastIndexByte(holder, '#'); i >= 0 {
		r.ID = holder[:i]
	}
	if !ok || !ok2 || metadata != "{}" && json.Unmarshal([]byte(metadata), &r.Metadata) != nil {
		return nil, &Error{"read election", e.name, errStored}
	}
	return r, nil
}
