package coordination

import (
	"context"
	"time"

	"github.com/quorate/quorate/store/engine"
)

// A row of quorate_rwlocks is never deleted, since its generation must only grow. A
// writer whose lease ended stays in its row, with deadline_us 0 once anybody has
// noticed: that is how the next writer learns of it. quorate_rwlock_holders has a
// row for each reader ('r') and each waiting writer ('i'), and for a lease each token
// that has left ('x'): so that the answer to a release that is sent again is true,
// and a request that arrives after the release of its token takes nothing. Rows that
// expired go when the name is next asked for.
var rwlockDDL = []string{
	`CREATE TABLE IF NOT EXISTS quorate_rwlocks (
		name TEXT NOT NULL PRIMARY KEY,
		writer TEXT NOT NULL,
		released TEXT NOT NULL,
		version BIGINT NOT NULL,
		lease_us BIGINT NOT NULL,
		deadline_us BIGINT NOT NULL,
		generation BIGINT NOT NULL,
		poisoned BIGINT NOT NULL)`,
	`CREATE TABLE IF NOT EXISTS quorate_rwlock_holders (
		name TEXT NOT NULL,
		kind TEXT NOT NULL,
		token TEXT NOT NULL,
		version BIGINT NOT NULL,
		lease_us BIGINT NOT NULL,
		deadline_us BIGINT NOT NULL,
		generation BIGINT NOT NULL,
		PRIMARY KEY (name, kind, token))`,
}

const (
	kindReader = "r"
	kindIntent = "i"
	kindGone   = "x"
)

// Every acquisition begins with these two, which end what has expired at this
// instant, or was seen unchanged for a whole lease. From then on no statement of the
// list looks at a clock: a writer is live iff deadline_us > 0, a holder iff it has a
// row. The first also locks the row on which everything else depends, where rows are
// locked one by one.
const (
	rwExpireSQL = `INSERT INTO quorate_rwlocks(name,writer,released,version,lease_us,deadline_us,generation,poisoned) VALUES(?1,'','',1,0,0,0,0)
ON CONFLICT(name) DO UPDATE SET
version=quorate_rwlocks.version+CASE WHEN quorate_rwlocks.deadline_us>0 AND (quorate_rwlocks.deadline_us<=?2 OR quorate_rwlocks.version=?3) THEN 1 ELSE 0 END,
deadline_us=CASE WHEN quorate_rwlocks.deadline_us<=?2 OR quorate_rwlocks.version=?3 THEN 0 ELSE quorate_rwlocks.deadline_us END`

	rwReapSQL    = `DELETE FROM quorate_rwlock_holders WHERE name=?1 AND (deadline_us<=?2 OR (kind='x' AND deadline_us<=?3))`
	rwReapOneSQL = `DELETE FROM quorate_rwlock_holders WHERE name=?1 AND kind=?2 AND token=?3 AND version=?4`
)

const rwReadSQL = `INSERT INTO quorate_rwlock_holders(name,kind,token,version,lease_us,deadline_us,generation)
SELECT ?1,'r',?2,1,?3,?4,l.generation FROM quorate_rwlocks l WHERE l.name=?1
AND NOT EXISTS(SELECT 1 FROM quorate_rwlock_holders h WHERE h.name=?1 AND h.kind='x' AND h.token=?2)
AND (EXISTS(SELECT 1 FROM quorate_rwlock_holders h WHERE h.name=?1 AND h.kind='r' AND h.token=?2)
OR (l.deadline_us=0 AND NOT EXISTS(SELECT 1 FROM quorate_rwlock_holders h WHERE h.name=?1 AND h.kind='i')))
ON CONFLICT(name,kind,token) DO UPDATE SET version=quorate_rwlock_holders.version+1,
deadline_us=CASE WHEN quorate_rwlock_holders.deadline_us>?4 THEN quorate_rwlock_holders.deadline_us ELSE ?4 END
RETURNING generation`

// rwWriteSQL keeps poisoned as it is for a writer that has it already: sending it
// again after a lost answer must not wash it clean.
const rwWriteSQL = `UPDATE quorate_rwlocks SET
generation=generation+CASE WHEN writer=?2 AND deadline_us>0 THEN 0 ELSE 1 END,
poisoned=CASE WHEN writer=?2 AND deadline_us>0 THEN poisoned WHEN writer<>'' THEN 1 ELSE 0 END,
deadline_us=CASE WHEN writer=?2 AND deadline_us>?4 THEN deadline_us ELSE ?4 END,
writer=?2,version=version+1,lease_us=?3
WHERE name=?1 AND released<>?2
AND NOT EXISTS(SELECT 1 FROM quorate_rwlock_holders h WHERE h.name=?1 AND h.kind='x' AND h.token=?2)
AND ((writer=?2 AND deadline_us>0)
OR (deadline_us=0 AND NOT EXISTS(SELECT 1 FROM quorate_rwlock_holders h WHERE h.name=?1 AND h.kind='r')))
RETURNING generation,poisoned`

const (
	rwIntentDoneSQL = `DELETE FROM quorate_rwlock_holders WHERE name=?1 AND kind='i' AND token=?2
AND EXISTS(SELECT 1 FROM quorate_rwlocks l WHERE l.name=?1 AND l.writer=?2 AND l.deadline_us>0)`

	rwIntentSQL = `INSERT INTO quorate_rwlock_holders(name,kind,token,version,lease_us,deadline_us,generation)
SELECT ?1,'i',?2,1,?3,?4,l.generation FROM quorate_rwlocks l WHERE l.name=?1 AND (l.writer<>?2 OR l.deadline_us=0)
AND NOT EXISTS(SELECT 1 FROM quorate_rwlock_holders h WHERE h.name=?1 AND h.kind='x' AND h.token=?2)
ON CONFLICT(name,kind,token) DO UPDATE SET version=quorate_rwlock_holders.version+1,
deadline_us=CASE WHEN quorate_rwlock_holders.deadline_us>?4 THEN quorate_rwlock_holders.deadline_us ELSE ?4 END`
)

const (
	rwRenewReadSQL = `UPDATE quorate_rwlock_holders SET version=version+1,deadline_us=CASE WHEN deadline_us>?4 THEN deadline_us ELSE ?4 END
WHERE name=?1 AND kind='r' AND token=?2 AND deadline_us>?3`

	rwRenewWriteSQL = `UPDATE quorate_rwlocks SET version=version+1,deadline_us=CASE WHEN deadline_us>?4 THEN deadline_us ELSE ?4 END
WHERE name=?1 AND writer=?2 AND deadline_us>?3`

	rwReleaseReadSQL = `UPDATE quorate_rwlock_holders SET kind='x',version=version+1,deadline_us=?4
WHERE name=?1 AND kind='r' AND token=?2 AND deadline_us>?3`

	rwReleaseWriteSQL = `UPDATE quorate_rwlocks SET writer='',released=?2,version=version+1,deadline_us=0
WHERE name=?1 AND writer=?2 AND deadline_us>?3`

	// A lapsed write lock looks like one whose lease has ended: the next writer is
	// told. So it is after one that nobody has used, if that one would have been told.
	rwLapseWriteSQL = `UPDATE quorate_rwlocks SET version=version+1,deadline_us=0
WHERE name=?1 AND writer=?2 AND deadline_us>?3`
	rwUnusedWriteSQL = `UPDATE quorate_rwlocks SET writer=CASE WHEN poisoned=1 THEN writer ELSE '' END,released=?2,version=version+1,deadline_us=0
WHERE name=?1 AND writer=?2 AND deadline_us>?3`

	// After rwReleaseWriteSQL: the writer becomes a reader. Sent again, it finds the
	// reader there, unless others have written since.
	rwDowngradedSQL = `INSERT INTO quorate_rwlock_holders(name,kind,token,version,lease_us,deadline_us,generation)
SELECT ?1,'r',?2,1,?3,?4,l.generation FROM quorate_rwlocks l WHERE l.name=?1 AND l.released=?2 AND l.writer=''
AND NOT EXISTS(SELECT 1 FROM quorate_rwlock_holders h WHERE h.name=?1 AND h.kind='x' AND h.token=?2)
ON CONFLICT(name,kind,token) DO UPDATE SET version=quorate_rwlock_holders.version+1,
deadline_us=CASE WHEN quorate_rwlock_holders.deadline_us>?4 THEN quorate_rwlock_holders.deadline_us ELSE ?4 END`

	rwForgetSQL = `DELETE FROM quorate_rwlock_holders WHERE name=?1 AND token=?2 AND kind<>'x'`
	rwGoneSQL   = `INSERT INTO quorate_rwlock_holders(name,kind,token,version,lease_us,deadline_us,generation) VALUES(?1,'x',?2,1,?3,?4,0)
ON CONFLICT(name,kind,token) DO NOTHING`
)

const (
	rwLookSQL    = `SELECT writer,released,version,lease_us,CASE WHEN deadline_us>?2 THEN 1 ELSE 0 END AS live,generation FROM quorate_rwlocks WHERE name=?1`
	rwHoldersSQL = `SELECT kind,token,version,lease_us,CASE WHEN deadline_us>?2 THEN 1 ELSE 0 END AS live FROM quorate_rwlock_holders WHERE name=?1`
)

// rwStatement binds the parameters that most of them share: the name, the token,
// and what else there is.
func rwStatement(sql, name, token string, args ...engine.Value) engine.Statement {
	return engine.Statement{SQL: sql, Args: append([]engine.Value{engine.Text(name), engine.Text(token)}, args...)}
}

func (p *Provider) rwRenewal(sql, name, token string, lease time.Duration) engine.Statement {
	return rwStatement(sql, name, token, p.judge(), p.now(lease))
}

func (p *Provider) rwTaking(sql, name, token string, lease time.Duration) engine.Statement {
	return rwStatement(sql, name, token, engine.Int(micros(lease)), p.now(lease))
}

// rwLock locks the row on which everything else depends, where rows are locked one
// by one. It ends a writer that has expired.
func (p *Provider) rwLock(name string) engine.Statement {
	return engine.Statement{SQL: rwExpireSQL, Args: []engine.Value{engine.Text(name), p.judge(), engine.Int(never)}}
}

// rwAbandon gives back whatever a token may have got, and whatever it may yet get by
// a request that is still on its way. A write lock is given back by the statement
// write.
func (p *Provider) rwAbandon(write, name, token string, lease time.Duration) []engine.Statement {
	return []engine.Statement{
		p.rwLock(name),
		rwStatement(write, name, token, p.judge()),
		rwStatement(rwForgetSQL, name, token),
		p.rwTaking(rwGoneSQL, name, token, lease),
	}
}

// rwHolder is a row of quorate_rwlock_holders.
type rwHolder struct {
	kind, token string
	version     int64
	lease       time.Duration
	live        bool
}

// rwRows is all that is known of a read-write lock.
type rwRows struct {
	writer, released string
	version          int64
	lease            time.Duration
	writing          bool
	generation       int64
	holders          []rwHolder
}

// rwLook reads the rows of a name; an unknown one has none.
func (p *Provider) rwLook(ctx context.Context, name string) (*rwRows, error) {
	judge := p.judge()
	res, err := p.query(ctx, engine.Linearizable,
		engine.Statement{SQL: rwLookSQL, Args: []engine.Value{engine.Text(name), judge}},
		engine.Statement{SQL: rwHoldersSQL, Args: []engine.Value{engine.Text(name), judge}})
	if err != nil {
		return nil, err
	}
	r := &rwRows{}
	if res[0].Len() > 0 {
		row := res[0].Row(0)
		r.writer, _ = row[0].Text()
		r.released, _ = row[1].Text()
		r.version, _ = row[2].Int()
		r.lease = microseconds(row[3])
		r.writing = isOne(row[4])
		r.generation, _ = row[5].Int()
	}
	for i := range res[1].Len() {
		row := res[1].Row(i)
		h := rwHolder{lease: microseconds(row[3]), live: isOne(row[4])}
		h.kind, _ = row[0].Text()
		h.token, _ = row[1].Text()
		h.version, _ = row[2].Int()
		r.holders = append(r.holders, h)
	}
	return r, nil
}

func microseconds(v engine.Value) time.Duration {
	us, _ := v.Int()
	return time.Duration(us) * time.Microsecond
}

func isOne(v engine.Value) bool { n, _ := v.Int(); return n == 1 }
