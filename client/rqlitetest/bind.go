package rqlitetest

import (
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/ncruces/go-sqlite3"
)

// bind binds the statement's share of params: its positional ones from start on,
// and every named one of the whole list. A name fills :name, @name and $name;
// names the statement does not know are ignored, slots nobody fills stay NULL.
func (p *prepared) bind(params []parameter, start int) error {
	if p.inputs == 0 {
		return nil
	}
	for i := range params {
		pr := &params[i]
		inside := i >= start && i < start+p.inputs
		if pr.name == "" {
			if inside {
				if err := bindValue(p.stmt, i-start+1, pr.val); err != nil {
					return err
				}
			}
			continue
		}
		for _, prefix := range [...]string{":", "@", "$"} {
			if n := p.stmt.BindIndex(prefix + pr.name); n != 0 {
				if err := bindValue(p.stmt, n, pr.val); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

func bindValue(stmt *sqlite3.Stmt, n int, v value) error {
	var err error
	switch v.kind {
	case kindInt, kindBool:
		err = stmt.BindInt64(n, v.i)
	case kindReal:
		err = stmt.BindFloat(n, v.f)
	case kindText:
		err = stmt.BindText(n, v.s)
	case kindBlob:
		if v.s == "" {
			err = stmt.BindZeroBlob(n, 0)
		} else {
			err = stmt.BindBlob(n, []byte(v.s))
		}
	default:
		err = stmt.BindNull(n)
	}
	if err != nil {
		return sqlError(err)
	}
	return nil
}

// checkNames refuses parameter names that do not begin with a letter.
func checkNames(params []parameter) error {
	for i := range params {
		name := params[i].name
		if name == "" {
			continue
		}
		if r, _ := utf8.DecodeRuneInString(name); !unicode.IsLetter(r) {
			return fmt.Errorf("name %q does not begin with a letter", name)
		}
	}
	return nil
}

// collect steps through the rows of a bound statement.
func (p *prepared) collect(res *result) {
	n := len(p.columns)
	types := p.types
	settled := !hasEmpty(types)
	if !settled {
		types = append([]string(nil), types...)
	}
	for p.stmt.Step() && n > 0 {
		for i := range n {
			res.values = append(res.values, columnValue(p.stmt, i, types[i], p.types[i]))
		}
		if !settled {
			// Expressions get the type of the first row, and keep it.
			settled = true
			for i := range types {
				if types[i] == "" {
					types[i] = res.values[i].typeName()
				}
			}
		}
	}
	res.columns, res.types = p.columns, types
}

func hasEmpty(types []string) bool {
	for _, t := range types {
		if t == "" {
			return true
		}
	}
	return false
}

func (v value) typeName() string {
	switch v.kind {
	case kindInt:
		return "integer"
	case kindReal:
		return "real"
	case kindText:
		return "text"
	case kindBlob:
		return "blob"
	case kindBool:
		return "boolean"
	}
	return ""
}

// columnValue reads a column. Its type, declared or of the first row, decides
// whether a blob goes out as text; the declared type alone decides what becomes
// a truth value or a date.
func columnValue(stmt *sqlite3.Stmt, i int, typ, declared string) value {
	switch stmt.ColumnType(i) {
	case sqlite3.INTEGER:
		n := stmt.ColumnInt64(i)
		switch declared {
		case "boolean":
			if n > 0 {
				return value{kind: kindBool, i: 1}
			}
			return value{kind: kindBool}
		case "timestamp", "datetime", "date":
			if n > 1e12 || n < -1e12 {
				return dateValue(time.Unix(0, n*int64(time.Millisecond)).UTC())
			}
			return dateValue(time.Unix(n, 0).UTC())
		}
		return value{kind: kindInt, i: n}
	case sqlite3.FLOAT:
		return value{kind: kindReal, f: stmt.ColumnFloat(i)}
	case sqlite3.TEXT:
		s := string(stmt.ColumnRawText(i))
		switch declared {
		case "timestamp", "datetime", "date":
			return dateValue(parseDate(s))
		}
		return value{kind: kindText, s: s}
	case sqlite3.BLOB:
		s := string(stmt.ColumnRawBlob(i))
		if textType(typ) {
			return value{kind: kindText, s: s}
		}
		return value{kind: kindBlob, s: s}
	}
	return value{}
}

// textType tells the declared types whose blobs the server returns as text.
func textType(t string) bool {
	switch t {
	case "", "text", "json":
		return true
	}
	for _, prefix := range [...]string{"varchar", "varying character", "nchar", "native character", "nvarchar", "clob"} {
		if strings.HasPrefix(t, prefix) {
			return true
		}
	}
	return false
}

func dateValue(t time.Time) value {
	return value{kind: kindText, s: t.Format(time.RFC3339Nano)}
}

// dateLayouts are the texts understood as dates, in the order they are tried.
var dateLayouts = [...]string{
	"2006-01-02 15:04:05.999999999-07:00",
	"2006-01-02T15:04:05.999999999-07:00",
	"2006-01-02 15:04:05.999999999",
	"2006-01-02T15:04:05.999999999",
	"2006-01-02 15:04:05",
	"2006-01-02T15:04:05",
	"2006-01-02 15:04",
	"2006-01-02T15:04",
	"2006-01-02",
}

// parseDate reads a date; what is none becomes the zero time.
func parseDate(s string) time.Time {
	s = strings.TrimSuffix(s, "Z")
	for _, layout := range dateLayouts {
		if t, err := time.ParseInLocation(layout, s, time.UTC); err == nil {
			return t
		}
	}
	return time.Time{}
}
