package postgres

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/quorate/quorate/store/engine"
)

// planner keeps the server from plans that it would choose for a table that is
// still small and go on using, in prepared statements, when the table has grown.
// All of the store's statements find rows by an index.
const planner = "-c enable_seqscan=off -c enable_bitmapscan=off -c enable_hashjoin=off -c enable_mergejoin=off -c jit=off"

// minVersion is the oldest server that is not refused.
const minVersion = 14

// configure turns a connection string into what pgconn wants. No error contains
// the string, which may hold a password.
func configure(target string, o *options) (*pgconn.Config, error) {
	mode := sslmode(target)
	switch mode {
	case "prefer", "allow":
		return nil, &engine.Error{Op: "connect", Outcome: engine.NotApplied, Reason: engine.ErrInsecure,
			Err: fmt.Errorf("sslmode %s would fall back to a connection without TLS: use disable, require, verify-ca or verify-full", mode)}
	}
	cfg, err := pgconn.ParseConfig(target)
	if err != nil {
		return nil, &engine.Error{Op: "connect", Outcome: engine.NotApplied, Err: errors.New("the connection string cannot be parsed: want postgres://user:password@host:port/database?sslmode=verify-full, or key=value pairs")}
	}
	if mode == "" {
		// Without a word on it: TLS to other machines, with a certificate that is
		// checked, and none within this one.
		local := isLocal(cfg.Host)
		for _, f := range cfg.Fallbacks {
			local = local && isLocal(f.Host)
		}
		mode = "verify-full"
		if local {
			mode = "disable"
		}
		if cfg, err = pgconn.ParseConfig(withSSLMode(target, mode)); err != nil {
			return nil, &engine.Error{Op: "connect", Outcome: engine.NotApplied, Err: errors.New("the connection string cannot be parsed")}
		}
	}
	if o.tls != nil {
		cfg.TLSConfig = tlsFor(cfg.Host, o.tls)
		for _, f := range cfg.Fallbacks {
			f.TLSConfig = tlsFor(f.Host, o.tls)
		}
	}
	if o.dial != nil {
		cfg.DialFunc = o.dial
		cfg.LookupFunc = func(_ context.Context, host string) ([]string, error) { return []string{host}, nil }
	}
	if cfg.ConnectTimeout == 0 {
		cfg.ConnectTimeout = 10 * time.Second
	}
	cfg.RuntimeParams["client_encoding"] = "UTF8"
	if cfg.RuntimeParams["application_name"] == "" {
		cfg.RuntimeParams["application_name"] = "quorate"
	}
	if cfg.ValidateConnect == nil {
		cfg.ValidateConnect = validate
	}
	return cfg, nil
}

// validate refuses, of several hosts, those that cannot be used.
func validate(ctx context.Context, pg *pgconn.PgConn) error {
	if v := pg.ParameterStatus("server_version"); v != "" {
		if n := leadingNumber(v); n > 0 && n < minVersion {
			return unsuitable("version %s is older than %d", v, minVersion)
		}
	}
	if v := pg.ParameterStatus("server_encoding"); v != "" && v != "UTF8" {
		return unsuitable("the database's encoding is %s, not UTF8", v)
	}
	if v := pg.ParameterStatus("standard_conforming_strings"); v != "" && v != "on" {
		return unsuitable("standard_conforming_strings is off")
	}
	switch pg.ParameterStatus("in_hot_standby") {
	case "off":
		return nil
	case "on":
		return errStandby
	}
	res := pg.ExecParams(ctx, "SELECT pg_is_in_recovery()::int", nil, nil, nil, nil).Read()
	if res.Err != nil {
		return fmt.Errorf("ask whether it is a standby: %w", res.Err)
	}
	if len(res.Rows) == 1 && string(res.Rows[0][0]) == "1" {
		return errStandby
	}
	return nil
}

// tlsFor returns the configuration for one host; a socket of this machine has
// none.
func tlsFor(host string, cfg *tls.Config) *tls.Config {
	if isSocket(host) {
		return nil
	}
	cfg = cfg.Clone()
	if cfg.ServerName == "" {
		cfg.ServerName = host
	}
	return cfg
}

func leadingNumber(s string) int {
	end := 0
	for end < len(s) && s[end] >= '0' && s[end] <= '9' {
		end++
	}
	n, _ := strconv.Atoi(s[:end])
	return n
}

// sslmode returns what the connection string, or the environment, says of TLS.
func sslmode(target string) string {
	if isURL(target) {
		if u, err := url.Parse(target); err == nil {
			q := u.Query()
			if q.Get("ssl") == "true" {
				return "require"
			}
			if m := q.Get("sslmode"); m != "" {
				return m
			}
		}
	} else {
		for f := range strings.FieldsSeq(target) {
			if v, ok := strings.CutPrefix(f, "sslmode="); ok {
				return strings.Trim(v, "'")
			}
		}
	}
	return os.Getenv("PGSSLMODE")
}

func withSSLMode(target, mode string) string {
	if !isURL(target) {
		return target + " sslmode=" + mode
	}
	u, err := url.Parse(target)
	if err != nil {
		return target
	}
	// Not by url.Values, which writes a space as a plus: PostgreSQL reads that as
	// a plus.
	u.RawQuery = strings.TrimPrefix(u.RawQuery+"&sslmode="+mode, "&")
	return u.String()
}

func isURL(target string) bool {
	return strings.HasPrefix(target, "postgres://") || strings.HasPrefix(target, "postgresql://")
}

func isSocket(host string) bool {
	return strings.HasPrefix(host, "/") || strings.HasPrefix(host, "@")
}

func isLocal(host string) bool {
	ip := net.ParseIP(host)
	return isSocket(host) || host == "localhost" || ip != nil && ip.IsLoopback()
}
