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
	cfg, err := parseConfig(target)
	if err != nil {
		return nil, err
	}
	if isMixed(cfg) {
		// Without a word on it: TLS to other machines, with a certificate that is
		// checked, and none within this one.
		mode := "verify-full"
		if isWithin(cfg) {
			mode = "disable"
		}
		if cfg, err = parseConfig(withDefaultMode(target, mode)); err != nil {
			return nil, err
		}
		if env := os.Getenv("PGSSLMODE"); isMixed(cfg) || env == "prefer" || env == "allow" {
			return nil, &engine.Error{Op: "connect", Outcome: engine.NotApplied, Reason: engine.ErrInsecure,
				Err: errors.New("sslmode prefer and allow fall back to a connection without TLS: use disable, require, verify-ca or verify-full")}
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

// parseConfig keeps the string out of the error.
func parseConfig(target string) (*pgconn.Config, error) {
	cfg, err := pgconn.ParseConfig(target)
	if err != nil {
		return nil, &engine.Error{Op: "connect", Outcome: engine.NotApplied, Err: errors.New("the connection string cannot be parsed: want postgres://user:password@host:port/database?sslmode=verify-full, or key=value pairs")}
	}
	return cfg, nil
}

// isMixed reports whether connections to other than sockets are made with TLS and
// without: so sslmode prefer and allow are understood, and prefer is what the
// driver takes where nothing is said. What the driver understands counts, not what
// the string looks like.
func isMixed(cfg *pgconn.Config) bool {
	var with, without bool
	see := func(host string, t *tls.Config) {
		with = with || !isSocket(host) && t != nil
		without = without || !isSocket(host) && t == nil
	}
	see(cfg.Host, cfg.TLSConfig)
	for _, f := range cfg.Fallbacks {
		see(f.Host, f.TLSConfig)
	}
	return with && without
}

// isWithin reports whether all hosts are this machine.
func isWithin(cfg *pgconn.Config) bool {
	local := isLocal(cfg.Host)
	for _, f := range cfg.Fallbacks {
		local = local && isLocal(f.Host)
	}
	return local
}

// withDefaultMode adds an sslmode to a connection string, which counts only if the
// string has none: of pairs, the last one of a key does.
func withDefaultMode(target, mode string) string {
	if !isURL(target) {
		return "sslmode=" + mode + " " + target
	}
	u, err := url.Parse(target)
	if err != nil || u.Query().Has("sslmode") || u.Query().Has("ssl") {
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
