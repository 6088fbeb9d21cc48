package rqlitetest

// valueKind is the storage class of a value, plus the two shapes rqlite gives to
// integers and texts of columns declared BOOLEAN or as a date.
type valueKind uint8

const (
	kindNull valueKind = iota
	kindInt
	kindReal
	kindText
	kindBlob
	kindBool
)

// value is a bound parameter or a column of a row.
type value struct {
	kind valueKind
	i    int64 // kindInt, kindBool (0 or 1)
	f    float64
	s    string // kindText, kindBlob
}

// parameter is a value with the name it was given, "" for a positional one.
type parameter struct {
	name string
	val  value
}

// statement is one element of a request's list.
type statement struct {
	sql    string
	params []parameter
	// returning tells that the server takes the statement for one with a
	// RETURNING clause and so answers with rows.
	returning bool
	// qualify asks for column names with the names of their tables.
	qualify bool
	// fail, if set, makes the statement fail with this text without running.
	fail string
}

type resultShape uint8

const (
	shapeCounters resultShape = iota // last_insert_id, rows_affected
	shapeRows                        // columns, types, values
	shapeError                       // error only
)

// result is the outcome of one statement.
type result struct {
	shape    resultShape
	lastID   int64
	affected int64
	columns  []string
	types    []string
	values   []value // row after row, len(columns) each
	err      string
	// queryErr tells that err came by the row-returning path, which the
	// associative form shows differently.
	queryErr bool
	seconds  float64
}

func (r *result) rows() int {
	if len(r.columns) == 0 {
		return 0
	}
	return len(r.values) / len(r.columns)
}
