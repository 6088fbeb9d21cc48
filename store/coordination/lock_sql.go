package coordination

import (
	"strconv"
	"strings"
	"time"

	"github.com/quorate/quorate/store/engine"
)

// A row of quorate_locks is never deleted, since its fence must only grow. It is
// vacant if deadline_us is 0; then token is empty. version changes with every
// write. released is the token of the latest holder that released in time: by it a
// release whose answer was lost is told from a lease that was lost, and an acquire
// that arrives after the release of its own token takes nothing.
var lockDDL = []string{
	`CREATE TABLE IF NOT EXISTS quorate_locks (
		name TEXT NOT NULL PRIMARY KEY,
		token TEXT NOT NULL,
		released TEXT NOT NULL,
		fence BIGINT NOT NULL,
		version BIGINT NOT NULL,
		lease_us BIGINT NOT NULL,
		deadline_us BIGINT NOT NULL)`,
}

// judge returns the instant at which a request judges leases. Without a shared
// clock it is 0, so that nothing held ever looks expired.
func (p *Provider) judge() engine.Value {
	if p.noSharedClock {
		return engine.Int(0)
	}
	return p.now(0)
}

// never is a version that no row has.
const never = -1

// lockAcquireSQL takes a lock that is vacant or expired, or was seen at the version
// given for a whole lease; for its live holder, whose answer was lost, it is a
// renewal, as an answer that arrives late must not shorten a lease. All that
// decides is inside the statement. ?4 is the instant, ?5 the new deadline.
const lockAcquireSQL = `INSERT INTO quorate_locks(name,token,released,fence,version,lease_us,deadline_us) VALUES(?1,?2,'',1,1,?3,?5)
ON CONFLICT(name) DO UPDATE SET
fence=quorate_locks.fence+CASE WHEN quorate_locks.token=?2 AND quorate_locks.deadline_us>?4 THEN 0 ELSE 1 END,
deadline_us=CASE WHEN quorate_locks.token=?2 AND quorate_locks.deadline_us>?5 THEN quorate_locks.deadline_us ELSE ?5 END,
token=?2,version=quorate_locks.version+1,lease_us=?3
WHERE quorate_locks.released<>?2 AND (quorate_locks.deadline_us<=?4 OR quorate_locks.token=?2 OR quorate_locks.version=?6)
RETURNING fence`

func (p *Provider) lockAcquire(name, token string, lease time.Duration, seen int64) engine.Statement {
	return engine.Statement{SQL: lockAcquireSQL, Returning: true, Args: []engine.Value{
		engine.Text(name), engine.Text(token), engine.Int(micros(lease)), p.judge(), p.now(lease), engine.Int(seen),
	}}
}

// lockRenewSQL prolongs a live lease of the token's, and nothing else.
const lockRenewSQL = `UPDATE quorate_locks SET version=version+1,deadline_us=CASE WHEN deadline_us>?4 THEN deadline_us ELSE ?4 END
WHERE name=?1 AND token=?2 AND deadline_us>?3`

func (p *Provider) lockRenew(name, token string, lease time.Duration) engine.Statement {
	return engine.Statement{SQL: lockRenewSQL, Args: []engine.Value{
		engine.Text(name), engine.Text(token), p.judge(), p.now(lease),
	}}
}

// lockRenewManySQL is lockRenewSQL for several locks at once, each by the lease in its
// row. The names are for the index; a token is in no other row than its own. It
// returns the tokens renewed.
const lockRenewManySQL = `UPDATE quorate_locks SET version=version+1,deadline_us=CASE WHEN deadline_us>lease_us+?2 THEN deadline_us ELSE lease_us+?2 END
WHERE deadline_us>?1 AND name IN (`

func (p *Provider) lockRenewMany(holds []*hold) engine.Statement {
	var sql strings.Builder
	args := make([]engine.Value, 0, 2+2*len(holds))
	args = append(args, p.judge(), p.now(0))
	list := func(of func(h *hold) string) {
		for i, h := range holds {
			if i > 0 {
				sql.WriteByte(',')
			}
			args = append(args, engine.Text(of(h)))
			sql.WriteByte('?')
			sql.WriteString(strconv.Itoa(len(args)))
		}
	}
	sql.WriteString(lockRenewManySQL)
	list(func(h *hold) string { return h.name })
	sql.WriteString(") AND token IN (")
	list(func(h *hold) string { return h.token })
	sql.WriteString(") RETURNING token")
	return engine.Statement{SQL: sql.String(), Args: args, Returning: true}
}

const lockReleaseSQL = `UPDATE quorate_locks SET token='',released=?2,version=version+1,deadline_us=0
WHERE name=?1 AND token=?2 AND deadline_us>?3`

// lockLingerSQL releases a lock that stays closed for a while: nobody has its token.
const lockLingerSQL = `UPDATE quorate_locks SET token=?4,released=?2,version=version+1,lease_us=?5,deadline_us=?6
WHERE name=?1 AND token=?2 AND deadline_us>?3`

func (p *Provider) lockRelease(name, token string, linger time.Duration) engine.Statement {
	args := []engine.Value{engine.Text(name), engine.Text(token), p.judge()}
	if linger <= 0 {
		return engine.Statement{SQL: lockReleaseSQL, Args: args}
	}
	return engine.Statement{SQL: lockLingerSQL, Args: append(args, engine.Text(newToken()), engine.Int(micros(linger)), p.now(linger))}
}

const lockLookSQL = `SELECT token,released,fence,version,lease_us,CASE WHEN deadline_us>?2 THEN 1 ELSE 0 END AS live FROM quorate_locks WHERE name=?1`

func (p *Provider) lockLook(name string) engine.Statement {
	return engine.Statement{SQL: lockLookSQL, Args: []engine.Value{engine.Text(name), p.judge()}}
}
