package workspace

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/quorate/quorate/store"
)

// Ref names a workspace: the unit of isolation, of order and of locking. It may be
// the key of a map. Two tenants may use the same workspace id.
//
// Nothing creates a workspace: it is there from the first transaction that writes
// to it, and [Store.Workspaces] lists it once its log holds an event.
type Ref struct {
	// Tenant is the outer boundary. It never appears in an event.
	Tenant string
	// Workspace is the id within the tenant.
	Workspace string
}

// String returns both parts, quoted.
func (r Ref) String() string { return fmt.Sprintf("%q of tenant %q", r.Workspace, r.Tenant) }

func (r Ref) check() error {
	if err := checkName("Ref.Tenant", r.Tenant); err != nil {
		return err
	}
	return checkName("Ref.Workspace", r.Workspace)
}

// Limits of what one call may carry.
const (
	// MaxName is the largest size of an id or name, in bytes.
	MaxName = 1024
	// MaxDocument is the largest size of an event, a state, or another document,
	// in bytes.
	MaxDocument = 16 << 20
	// MaxEntries is the largest number of entries in one append outside of a
	// transaction.
	MaxEntries = 4096
)

// checkName checks a name or id: every engine can keep what passes.
func checkName(field, s string) error {
	switch {
	case s == "":
		return &store.InvalidError{Field: field, Reason: "is empty"}
	case len(s) > MaxName:
		return &store.InvalidError{Field: field, Reason: fmt.Sprintf("is %d bytes, above the limit of %d", len(s), MaxName)}
	case strings.IndexByte(s, 0) >= 0:
		return &store.InvalidError{Field: field, Reason: "contains a NUL character"}
	case !utf8.ValidString(s):
		return &store.InvalidError{Field: field, Reason: "is not valid UTF-8"}
	}
	// rqlite would store it as a blob.
	if t := strings.TrimSpace(s); len(t) >= 3 && (t[0] == 'x' || t[0] == 'X') && t[1] == '\'' && t[len(t)-1] == '\'' {
		return &store.InvalidError{Field: field, Reason: "has the shape of a blob literal (x'...')"}
	}
	return nil
}
