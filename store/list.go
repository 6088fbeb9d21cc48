package store

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"sort"
	"strings"

	"github.com/quorate/quorate/store/engine"
)

// ListQuery selects executions. The zero value lists all, a hundred at a time.
type ListQuery struct {
	// Status keeps executions in any of these statuses; empty keeps all.
	Status []Status
	// DefinitionID keeps executions of this definition; empty keeps all.
	DefinitionID string
	// RootsOnly keeps executions without a parent.
	RootsOnly bool
	// Limit is the size of a page, 100 if it is 0.
	Limit int
	// Cursor continues after an earlier page: its Next. It goes with the same
	// filters only, and works in any process and on any engine.
	Cursor string
	// Consistency of the page, linearizable by default.
	Consistency Consistency
}

// Summary is what a list tells of an execution.
type Summary struct {
	ID, DefinitionID    string
	Status              Status
	Outcome, ActivePath string
	Version             int64
	ParentID            string
}

// Page is one page of a list.
type Page struct {
	// Items are in the byte order of their ids.
	Items []Summary
	// Next is the cursor of the page after this one, empty if this is the last.
	Next string
}

// List returns a page of summaries in the byte order of ids. A page costs what
// it holds, however far into the list it is, also with a filter on statuses or
// definition. Rows whose data is not valid JSON are listed, with an empty
// status. Errors: [ErrInvalid] (also for a cursor that is garbage or belongs to
// other filters), [ErrUnavailable], [ErrClosed], the context's.
func (s *Store) List(ctx context.Context, q ListQuery) (Page, error) {
	limit := q.Limit
	if limit == 0 {
		limit = 100
	}
	if limit < 1 {
		return Page{}, &InvalidError{Field: "Limit", Reason: "is less than 1"}
	}
	if q.DefinitionID != "" {
		if err := s.limits.text("DefinitionID", q.DefinitionID); err != nil {
			return Page{}, err
		}
	}
	statuses, err := distinct(q.Status)
	if err != nil {
		return Page{}, err
	}
	filter := filterHash(statuses, q.DefinitionID, q.RootsOnly)
	after, err := parseCursor(q.Cursor, filter)
	if err != nil {
		return Page{}, err
	}
	sql, args := listStatement(s.traits.Dialect, statuses, &q, after, limit+1)
	res, cols, err := s.scan(ctx, "list", q.Consistency, limit+1, sql, args, "id", "definition_id", "version", "status", "outcome", "active_path", "parent_id")
	if err != nil {
		return Page{}, err
	}
	n := min(res.Len(), limit)
	page := Page{Items: make([]Summary, n)}
	for i := range page.Items {
		row, it := res.Row(i), &page.Items[i]
		it.ID, _ = row[cols[0]].Bytes()
		it.DefinitionID, _ = row[cols[1]].Bytes()
		it.Version, _ = row[cols[2]].Int()
		status, _ := row[cols[3]].Bytes()
		it.Status = Status(status)
		it.Outcome, _ = row[cols[4]].Text()
		it.ActivePath, _ = row[cols[5]].Text()
		it.ParentID, _ = row[cols[6]].Text()
	}
	if res.Len() > limit {
		page.Next = makeCursor(page.Items[n-1].ID, filter)
	}
	return page, nil
}

func distinct(in []Status) ([]Status, error) {
	var out []Status
	for _, st := range in {
		if !st.Valid() {
			return nil, &InvalidError{Field: "Status", Reason: "is not one of the statuses"}
		}
		out = append(out, st)
	}
	sort.Slice(out, func(i, j int) bool { return out[i] < out[j] })
	n := 0
	for i, st := range out {
		if i == 0 || st != out[n-1] {
			out[n] = st
			n++
		}
	}
	return out[:n], nil
}

// listStatement builds the page's query, all but its last parameter, the limit.
// Each status has a branch of its own, which walks the index from the cursor and
// stops after a page; the branches are then merged.
func listStatement(d engine.Dialect, statuses []Status, q *ListQuery, after string, limit int) (string, []engine.Value) {
	// An id that is a blob cannot be loaded, nor can a list go on behind it. Every
	// text is less than any blob.
	id, where := "id", []string{"id<x''"}
	if d == engine.PostgreSQL {
		id, where = `id COLLATE "C"`, nil
	}
	jsonField := func(name string) string {
		if d == engine.PostgreSQL {
			return "quorate_json(data,'" + name + "')"
		}
		return "CASE WHEN json_valid(data) THEN json_extract(data,'$." + name + "') END"
	}
	var common []engine.Value
	switch {
	case q.Cursor == "":
	case d == engine.PostgreSQL:
		where = append(where, id+">?")
		common = append(common, engine.Text(after))
	case isBlobLiteral(after):
		// rqlite would take it for a blob, behind which there is no text.
		where = append(where, "id>substr(?,2)")
		common = append(common, engine.Text("-"+after))
	default:
		where = append(where, "id>?")
		common = append(common, engine.Text(after))
	}
	if q.DefinitionID != "" {
		where = append(where, "definition_id=?")
		common = append(common, engine.Text(q.DefinitionID))
	}
	if q.RootsOnly {
		where = append(where, "("+jsonField("parent_id")+") IS NULL")
	}
	var args []engine.Value
	branch := func(conditions ...string) string {
		conditions = append(conditions, where...)
		args = append(args, common...)
		args = append(args, engine.Int(int64(limit)))
		condition := ""
		if len(conditions) > 0 {
			condition = " WHERE " + strings.Join(conditions, " AND ")
		}
		return "SELECT * FROM (SELECT id,definition_id,version,data,quorate_status FROM executions" + condition + " ORDER BY " + id + " LIMIT ?) b"
	}
	var branches []string
	for _, st := range statuses {
		args = append(args, engine.Text(string(st)))
		branches = append(branches, branch("quorate_status=?"))
	}
	if len(statuses) == 0 {
		branches = append(branches, branch())
	}
	return "SELECT id AS id,definition_id AS definition_id,version AS version,quorate_status AS status," +
		jsonField("outcome") + " AS outcome," + jsonField("active_path") + " AS active_path," + jsonField("parent_id") + " AS parent_id" +
		" FROM (" + strings.Join(branches, " UNION ALL ") + ") p ORDER BY " + id + " LIMIT ?", args
}

// A cursor is a version byte, a hash of the filters, and the last id, in
// URL-safe base64.
const cursorVersion = 1

func filterHash(statuses []Status, definition string, roots bool) uint64 {
	h := fnv.New64a()
	for _, st := range statuses {
		h.Write([]byte(st))
		h.Write([]byte{0})
	}
	fmt.Fprintf(h, "\x01%s\x01%t", definition, roots)
	return h.Sum64()
}

func makeCursor(last string, filter uint64) string {
	b := make([]byte, 0, 9+len(last))
	b = append(b, cursorVersion)
	b = binary.BigEndian.AppendUint64(b, filter)
	b = append(b, last...)
	return base64.RawURLEncoding.EncodeToString(b)
}

func parseCursor(cursor string, filter uint64) (string, error) {
	if cursor == "" {
		return "", nil
	}
	b, err := base64.RawURLEncoding.DecodeString(cursor)
	switch {
	case err != nil, len(b) < 9, base64.RawURLEncoding.EncodeToString(b) != cursor:
		return "", &InvalidError{Field: "Cursor", Reason: "is not one that a list returned"}
	case b[0] != cursorVersion:
		return "", &InvalidError{Field: "Cursor", Reason: "is of another version"}
	case binary.BigEndian.Uint64(b[1:]) != filter:
		return "", &InvalidError{Field: "Cursor", Reason: "belongs to other filters"}
	}
	// No check of the id: services in other languages may have made one that this
	// library would refuse, and the list has to go on behind it.
	return string(b[9:]), nil
}
