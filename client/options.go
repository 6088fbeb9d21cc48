package client

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
	DefaultMaxConns        = 32
	DefaultAttemptTimeout  = 10 * time.Second
	DefaultMaxResponse     = 256 << 20
	DefaultConnectTries    = 30
	DefaultConnectInterval = time.Second
)

// Option changes how [Open] sets up an engine.
type Option func(*options) error

type options struct {
	username, password string
	hasAuth            bool
	tls                *tls.Config
	dial               dialFunc
	logger             *slog.Logger

	maxConns        int
	attemptTimeout  time.Duration
	maxResponse     int64
	connectTries    int
	connectInterval time.Duration

	perSecond float64
	burst     int
}

func newOptions(opts []Option) (*options, error) {
	o := &options{
		logger:          slog.New(slog.DiscardHandler),
		maxConns:        DefaultMaxConns,
		attemptTimeout:  DefaultAttemptTimeout,
		maxResponse:     DefaultMaxResponse,
		connectTries:    DefaultConnectTries,
		connectInterval: DefaultConnectInterval,
	}
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

// WithBasicAuth sets the credentials, which are sent to the nodes that were
// configured and those that they list, and to nobody else. It overrides
// credentials in URLs. Unlike there, nothing is percent-encoded here.
func WithBasicAuth(username, password string) Option {
	return func(o *options) error {
		o.username, o.password, o.hasAuth = username, password, true
		return nil
	}
}

// WithTLS sets the TLS configuration for nodes whose URL begins with https:
// the authorities to trust and, for mutual TLS, the client's certificate. The
// configuration is copied; connections speak HTTP/1.1 whatever NextProtos says.
// Without the option the system's authorities are trusted and TLS 1.2 is the
// least version.
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
// a node wants it, is spoken over the connection that it returns. Proxies named
// by the environment are never used.
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
// changes of leader and troubles of finding one, never single requests, never
// credentials.
func WithLogger(l *slog.Logger) Option {
	return func(o *options) error {
		if l == nil {
			return errors.New("WithLogger: nil logger")
		}
		o.logger = l
		return nil
	}
}

// WithMaxConns sets how many connections to one node there may be, by default
// 32. All are kept open for reuse. Requests beyond that wait for a connection,
// as long as their context allows. The store needs a handful; more than the
// default pays only if many goroutines send requests of their own.
func WithMaxConns(n int) Option {
	return func(o *options) error {
		if n < 1 {
			return fmt.Errorf("WithMaxConns: %d is less than 1", n)
		}
		o.maxConns = n
		return nil
	}
}

// WithAttemptTimeout sets how long one attempt at a request may take, by default
// 10 s; the caller's context bounds the whole call. A write that is cut off has
// an unknown outcome, while the server may still be busy with it, so too short a
// time adds to the load of a slow cluster. A hung leader is noticed sooner: after
// half a second the other nodes are asked whether they have another one.
func WithAttemptTimeout(d time.Duration) Option {
	return func(o *options) error {
		if d <= 0 {
			return fmt.Errorf("WithAttemptTimeout: %v is not positive", d)
		}
		o.attemptTimeout = d
		return nil
	}
}

// WithMaxResponse sets the size of the largest answer that is read, in bytes, by
// default 256 MiB. A larger one fails with [engine.ErrTooLarge].
func WithMaxResponse(bytes int64) Option {
	return func(o *options) error {
		if bytes < 1 {
			return fmt.Errorf("WithMaxResponse: %d is less than 1", bytes)
		}
		o.maxResponse = bytes
		return nil
	}
}

// WithConnectRetry sets how often [Open] tries to find a cluster that answers
// and has a leader, and how long after the start of one try the next one starts;
// by default 30 times, 1 s apart.
func WithConnectRetry(tries int, interval time.Duration) Option {
	return func(o *options) error {
		if tries < 1 || interval < 0 {
			return fmt.Errorf("WithConnectRetry: %d tries, %v apart", tries, interval)
		}
		o.connectTries, o.connectInterval = tries, interval
		return nil
	}
}

// WithRateLimit bounds the calls that are sent to the cluster: in any period of
// t seconds at most burst + t*perSecond, so after a quiet spell burst calls go at
// once. A call that waits for its turn honours its context, and one that gives up
// leaves its turn to the next. Retries of a call and the search for a leader are
// not counted; they have limits of their own. By default there is no limit.
func WithRateLimit(perSecond float64, burst int) Option {
	return func(o *options) error {
		if !(perSecond > 0 && perSecond <= 1e6) || burst < 1 {
			return fmt.Errorf("WithRateLimit: %v per second, burst of %d", perSecond, burst)
		}
		o.perSecond, o.burst = perSecond, burst
		return nil
	}
}
