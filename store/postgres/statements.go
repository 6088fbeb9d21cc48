package postgres

import (
	"strconv"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/quorate/quorate/store/engine"
)

const (
	// maxPrepared bounds the statements that are prepared on a connection. The
	// store's are some dozens.
	maxPrepared = 500
	// maxPreparedParams bounds the size of a statement that is worth being kept.
	maxPreparedParams = 2000
	// maxPreparedAge lets a statement be planned anew: while a table is small the
	// server may have chosen a plan for small tables.
	maxPreparedAge = time.Minute
)

// prepared is a statement as the server knows it.
type prepared struct {
	sql     string
	desc    *pgconn.StatementDescription
	now     []bool // parameters that stand for the present
	formats []int16
	columns []string
	since   time.Time
	used    uint64
}

// fits reports whether the arguments are of the types that it was prepared for.
// Null is of any.
func (p *prepared) fits(args []engine.Value) bool {
	for i, v := range args {
		if (v.Kind() == engine.KindNow) != p.now[i] || !v.IsNull() && p.desc.ParamOIDs[i] != typeOf(v) && !(p.desc.ParamOIDs[i] == oidVarchar && typeOf(v) == oidText) {
			return false
		}
	}
	return true
}

// statements are those of one connection.
type statements struct {
	bySQL  map[string][]*prepared
	count  int
	tick   uint64
	serial int
	drop   []string // names that the server need not keep any longer
}

func newStatements() statements { return statements{bySQL: make(map[string][]*prepared)} }

// find returns the statement for a text and arguments, or nil.
func (s *statements) find(sql string, args []engine.Value) *prepared {
	for _, p := range s.bySQL[sql] {
		if len(p.now) == len(args) && p.fits(args) {
			s.tick++
			p.used = s.tick
			return p
		}
	}
	return nil
}

func (s *statements) name() string {
	s.serial++
	return "quorate_" + strconv.Itoa(s.serial)
}

func (s *statements) add(p *prepared) {
	for s.count >= maxPrepared {
		s.remove(s.oldest())
	}
	s.tick++
	p.used = s.tick
	s.bySQL[p.sql] = append(s.bySQL[p.sql], p)
	s.count++
}

func (s *statements) oldest() (old *prepared) {
	for _, all := range s.bySQL {
		for _, p := range all {
			if old == nil || p.used < old.used {
				old = p
			}
		}
	}
	return old
}

func (s *statements) remove(p *prepared) {
	all := s.bySQL[p.sql]
	for i := range all {
		if all[i] == p {
			s.bySQL[p.sql] = append(all[:i:i], all[i+1:]...)
			s.count--
			s.drop = append(s.drop, p.desc.Name)
			break
		}
	}
	if len(s.bySQL[p.sql]) == 0 {
		delete(s.bySQL, p.sql)
	}
}

func newPrepared(sql string, args []engine.Value, desc *pgconn.StatementDescription) *prepared {
	p := &prepared{sql: sql, desc: desc, now: make([]bool, len(args)), formats: resultFormats(desc.Fields), since: time.Now()}
	for i, v := range args {
		p.now[i] = v.Kind() == engine.KindNow
	}
	p.columns = columnNames(desc.Fields)
	return p
}

func columnNames(fields []pgconn.FieldDescription) []string {
	if len(fields) == 0 {
		return nil
	}
	names := make([]string, len(fields))
	for i := range fields {
		names[i] = fields[i].Name
	}
	return names
}

// texts keeps what was parsed of the texts of statements, for all connections.
type texts struct {
	mu sync.RWMutex
	m  map[string]*text
}

const maxTexts = 4096

func (t *texts) get(sql string) *text {
	t.mu.RLock()
	p := t.m[sql]
	t.mu.RUnlock()
	if p != nil {
		return p
	}
	p = parse(sql)
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.m == nil || len(t.m) >= maxTexts {
		t.m = make(map[string]*text)
	}
	t.m[sql] = p
	return p
}
