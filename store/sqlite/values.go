package sqlite

import (
	"fmt"
	"time"

	"github.com/ncruces/go-sqlite3"

	"github.com/quorate/quorate/store/engine"
)

// moment is the instant that the values of engine.Now stand for in one call: the
// clock is read when the first of them is bound, so inside the transaction.
type moment struct{ at time.Time }

func (m *moment) now() time.Time {
	if m.at.IsZero() {
		m.at = time.Now()
	}
	return m.at
}

// bind binds args to s and returns how many bytes of text SQLite now holds for
// them. SQLite copies texts as they are, with NULs and invalid UTF-8.
func bind(s *sqlite3.Stmt, args []engine.Value, m *moment) (size int, err error) {
	for i := range args {
		v := &args[i]
		switch v.Kind() {
		case engine.KindText:
			text, _ := v.Text()
			size += len(text)
			err = s.BindText(i+1, text)
		case engine.KindInt:
			n, _ := v.Int()
			err = s.BindInt64(i+1, n)
		case engine.KindFloat:
			f, _ := v.Float()
			err = s.BindFloat(i+1, f)
		case engine.KindNow:
			n, _ := v.At(m.now()).Int()
			err = s.BindInt64(i+1, n)
		case engine.KindBlob:
			b, _ := v.Bytes()
			size += len(b)
			err = s.BindBlob(i+1, []byte(b))
		default:
			err = s.BindNull(i + 1)
		}
		if err != nil {
			return size, fmt.Errorf("parameter %d: %w", i+1, err)
		}
	}
	return size, nil
}

// column returns the value of column i of the current row of s. It copies texts
// and blobs once, out of SQLite's memory.
func column(s *sqlite3.Stmt, i int) engine.Value {
	switch s.ColumnType(i) {
	case sqlite3.INTEGER:
		return engine.Int(s.ColumnInt64(i))
	case sqlite3.FLOAT:
		return engine.Float(s.ColumnFloat(i))
	case sqlite3.TEXT:
		return engine.Text(string(s.ColumnRawText(i)))
	case sqlite3.BLOB:
		return engine.Blob(string(s.ColumnRawBlob(i)))
	}
	return engine.Null()
}
