//go:build !unix

package postgres

import "github.com/jackc/pgx/v5/pgconn"

// isCut reports whether the server has closed an idle connection. It blocks for
// a millisecond.
func isCut(pg *pgconn.PgConn) bool { return hasLeft(pg) }
