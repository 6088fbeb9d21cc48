package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"

	"github.com/quorate/quorate/store/engine"
	"github.com/quorate/quorate/store/postgres"
)

// postgresVariable names the server where -url does not, as for the tests.
const postgresVariable = "QUORATE_POSTGRES_URL"

// openPostgres connects to the server at -url, or to the tests'. A run has a
// schema of its own, which goes with it.
func openPostgres(ctx context.Context, cfg *config) (*backend, error) {
	target := cfg.url
	if target == "" {
		target = os.Getenv(postgresVariable)
	}
	if target == "" {
		return nil, usageError{"-engine postgres needs -url, or " + postgresVariable + `: eval "$(.ci/postgres start)" starts a server and sets it`}
	}
	u, err := url.Parse(target)
	if err != nil || u.Host == "" {
		return nil, usageError{"-url wants a URL like postgres://user:password@host:5432/database"}
	}
	admin, err := postgres.Open(ctx, target, postgres.WithMaxConns(1))
	if err != nil {
		return nil, err
	}
	schema := "quorate_bench_" + strings.ToLower(rand.Text()[:12])
	if err := admin.Define(ctx, []string{"CREATE SCHEMA " + schema}); err != nil {
		return nil, errors.Join(err, admin.Close())
	}
	u.RawQuery = strings.TrimPrefix(u.RawQuery+"&search_path="+schema, "&")
	b := &backend{engine: "postgres", server: "PostgreSQL at " + u.Host}
	if res, err := admin.Query(ctx, engine.Linearizable, []engine.Statement{{SQL: "SELECT current_setting('server_version') AS v,current_setting('synchronous_commit') AS s"}}); err == nil {
		version, _ := res[0].Row(0)[0].Text()
		b.server += ", version " + version
		b.durability, _ = res[0].Row(0)[1].Text()
		b.durability = "synchronous_commit " + b.durability
	}
	b.open = func(ctx context.Context, pool int) (engine.Engine, error) {
		var opts []postgres.Option
		if pool > 0 {
			opts = append(opts, postgres.WithMaxConns(min(pool, maxPostgresConns)))
		}
		return postgres.Open(ctx, u.String(), opts...)
	}
	b.close = func() error {
		err := admin.Define(context.WithoutCancel(ctx), []string{"DROP SCHEMA " + schema + " CASCADE"})
		if err != nil {
			err = fmt.Errorf("drop the schema: %w", err)
		}
		return errors.Join(err, admin.Close())
	}
	return b, nil
}

// maxPostgresConns bounds the connections of sync-pool: a server allows 100 by
// default, and each one is a process.
const maxPostgresConns = 80
