// Package postgrestest gives tests a PostgreSQL: the server that
// QUORATE_POSTGRES_URL names, with a schema of its own for each test.
package postgrestest

import (
	"context"
	"crypto/rand"
	"fmt"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

// Variable is the environment variable that names the server, as a URL. Its user
// must be allowed to create schemas.
const Variable = "QUORATE_POSTGRES_URL"

// Require returns the server's URL, or skips the test and says how to enable it.
func Require(t testing.TB) string {
	t.Helper()
	u := os.Getenv(Variable)
	if u == "" {
		t.Skipf("no PostgreSQL: set %s to a server's URL, or run eval \"$(.ci/postgres start)\" first, which starts a private one", Variable)
	}
	return u
}

// Schema makes a new, empty schema and returns a URL whose connections use it and
// no other. It is dropped at the end of the test. In it are, for SQL that was
// written for SQLite, the functions json_extract and typeof and a view
// sqlite_master, none of which Quorate needs. Without a server the test is
// skipped: see [Require].
func Schema(t testing.TB) string {
	t.Helper()
	server := Require(t)
	u, err := url.Parse(server)
	if err != nil {
		t.Fatalf("%s is not a URL", Variable)
	}
	name := "quorate_test_" + strings.ToLower(rand.Text()[:12])
	run(t, server, "CREATE SCHEMA \""+name+"\"")
	t.Cleanup(func() { run(t, server, "DROP SCHEMA IF EXISTS \""+name+"\" CASCADE") })
	u.RawQuery = strings.TrimPrefix(u.RawQuery+"&search_path="+name, "&")
	run(t, u.String(), compatibility)
	return u.String()
}

// run runs SQL on a connection of its own.
func run(t testing.TB, server, sql string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := exec(ctx, server, sql); err != nil {
		t.Fatalf("%s: %v", Variable, err)
	}
}

func exec(ctx context.Context, server, sql string) error {
	pg, err := pgconn.Connect(ctx, server)
	if err != nil {
		return err
	}
	defer func() { _ = pg.Close(ctx) }()
	if _, err := pg.Exec(ctx, sql).ReadAll(); err != nil {
		return fmt.Errorf("%.60s: %w", sql, err)
	}
	return nil
}

const compatibility = `
CREATE FUNCTION json_extract(data text,path text) RETURNS text LANGUAGE sql IMMUTABLE AS $$SELECT data::json#>>string_to_array(substr(path,3),'.')$$;
CREATE FUNCTION typeof(double precision) RETURNS text LANGUAGE sql IMMUTABLE AS $$SELECT 'real'$$;
CREATE FUNCTION typeof(text) RETURNS text LANGUAGE sql IMMUTABLE AS $$SELECT 'text'$$;
CREATE VIEW sqlite_master AS
	SELECT CASE WHEN c.relkind='i' THEN 'index' ELSE 'table' END AS type,c.relname::text AS name,
		CASE WHEN c.relkind='i' THEN pg_get_indexdef(c.oid) ELSE (SELECT string_agg(a.attname||' '||format_type(a.atttypid,a.atttypmod),',' ORDER BY a.attnum) FROM pg_attribute a WHERE a.attrelid=c.oid AND a.attnum>0 AND NOT a.attisdropped) END AS sql
	FROM pg_class c WHERE c.relnamespace=current_schema()::regnamespace AND c.relkind IN ('r','i')
	UNION ALL SELECT 'trigger',t.tgname::text,pg_get_triggerdef(t.oid) FROM pg_trigger t JOIN pg_class c ON c.oid=t.tgrelid WHERE c.relnamespace=current_schema()::regnamespace AND NOT t.tgisinternal;
`
