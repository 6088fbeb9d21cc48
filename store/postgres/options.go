package postgres

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"time"
)

// Defaults of the options.
const (
	DefaultMaxConns    = 16
	DefaultMaxLifetime = 30 * time.Minute
	DefaultRetryLimit  = 30 * time.Second
)

// Option changes how [Open] sets up an engine.
type Option func(*options) error

type options struct {
	maxConns    int
	maxLifetime time.Duration
	retryLimit  time.Duration
	unprepared  bool
	tls         *tls.Config
	dial        func(ctx context.Context, network, addr string) (net.Conn, error)
	logger      *slog.Logger
}

func newOptions(opts []Option) (*options, error) {
	o := &options{maxConns: DefaultMaxConns, maxLifetime: DefaultMaxLifetime, retryLimit: DefaultRetryLimit, logger: slog.New(slog.DiscardHandler)}
	for _, opt := range opts {
		if opt == nil {
			return nil, errors.New("nil option")
		}
		if err := opt(o); err != nil {
			return nil, err
		}
	}
	return o, nil
}

// WithMaxConns sets how many connections there may be, [DefaultMaxConns] by
// default. They are opened when they are needed first and kept. Calls beyond
// that wait for one, as long as their context allows; an interactive transaction
// holds one to its end.
func WithMaxConns(n int) Option {
	return func(o *options) error {
		if n < 1 || n > 10_000 {
			return fmt.Errorf("WithMaxConns: %d is not between 1 and 10,000", n)
		}
		o.maxConns = n
		return nil
	}
}

// WithMaxLifetime sets how long a connection is used, [DefaultMaxLifetime] by
// default, so that load spreads again after a failover. One in use is replaced
// when it is free. No state that matters hangs on a connection.
func WithMaxLifetime(d time.Duration) Option {
	return func(o *options) error {
		if d <= 0 {
			return fmt.Errorf("WithMaxLifetime: %v is not positive", d)
		}
		o.maxLifetime = d
		return nil
	}
}

// WithRetryLimit sets how long a call goes on trying, with growing pauses, while
// the server cannot be reached, starts, or has no room for another connection;
// [DefaultRetryLimit] by default. The call's context may end it earlier.
func WithRetryLimit(d time.Duration) Option {
	return func(o *options) error {
		if d <= 0 {
			return fmt.Errorf("WithRetryLimit: %v is not positive", d)
		}
		o.retryLimit = d
		return nil
	}
}

// WithUnpreparedStatements keeps no prepared statements, for a pooler in
// transaction mode, which gives each transaction another session. It costs the
// server a parse of each statement. A pooler that refuses the engine's settings or
// loses a prepared statement turns it on by itself.
func WithUnpreparedStatements() Option {
	return func(o *options) error {
		o.unprepared = true
		return nil
	}
}

// WithTLS sets the TLS configuration, in place of what the URL says of it. The
// configuration is copied; its ServerName is the host's where it is empty.
func WithTLS(cfg *tls.Config) Option {
	return func(o *options) error {
		if cfg == nil {
			return errors.New("WithTLS: nil configuration")
		}
		o.tls = cfg.Clone()
		return nil
	}
}

// WithDialContext sets the function that opens network connections, which by
// default is that of a [net.Dialer]. It must be safe for concurrent use. TLS, if
// it is wanted, is spoken over the connection that it returns.
func WithDialContext(dial func(ctx context.Context, network, addr string) (net.Conn, error)) Option {
	return func(o *options) error {
		if dial == nil {
			return errors.New("WithDialContext: nil function")
		}
		o.dial = dial
		return nil
	}
}

// WithLogger sets where the engine logs, which by default is nowhere. It logs
// connections lost and a pooler found, never single requests, never credentials.
func WithLogger(l *slog.Logger) Option {
	return func(o *options) error {
		if l == nil {
			return errors.New("WithLogger: nil logger")
		}
		o.logger = l
		return nil
	}
}
