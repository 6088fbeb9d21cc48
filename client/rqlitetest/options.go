package rqlitetest

import (
	"errors"
	"fmt"
	"time"
)

// Option configures a [Cluster]. Options are checked together by [New].
type Option func(*options)

type options struct {
	nodes           int
	memory          bool
	user, password  string
	auth            bool
	tls             tlsMode
	seed            uint64
	version         string
	electionTimeout time.Duration
	leaderLease     time.Duration
	writeLatency    time.Duration
	readLatency     time.Duration
	foreignKeys     bool
	logLimit        int
}

func defaults() options {
	return options{
		nodes:           3,
		version:         "v10.2.7",
		electionTimeout: time.Second,
		leaderLease:     500 * time.Millisecond,
		logLimit:        10000,
		seed:            1,
	}
}

func (o *options) validate() error {
	var errs []error
	check := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf("rqlitetest: "+format, args...))
		}
	}
	check(o.nodes >= 1, "Nodes(%d): a cluster has at least one node", o.nodes)
	check(o.electionTimeout > 0, "ElectionTimeout(%v) must be positive", o.electionTimeout)
	check(o.leaderLease > 0, "LeaderLease(%v) must be positive", o.leaderLease)
	check(o.writeLatency >= 0 && o.readLatency >= 0, "Latency(%v, %v) must not be negative", o.writeLatency, o.readLatency)
	check(o.logLimit >= 0, "LogLimit(%d) must not be negative", o.logLimit)
	return errors.Join(errs...)
}

// Nodes sets the number of nodes, all of them voters. The default is 3.
func Nodes(n int) Option { return func(o *options) { o.nodes = n } }

// InMemoryNetwork makes the nodes listen on a network inside the process instead
// of on loopback sockets. Their addresses are node1.rqlite.test:4001 and so on,
// which only [Cluster.DialContext] and [Cluster.Client] can reach. Use it to run
// a test in a testing/synctest bubble: nothing in it waits on the real world.
func InMemoryNetwork() Option { return func(o *options) { o.memory = true } }

// BasicAuth makes the nodes demand this name and password, which then hold all
// permissions. [Cluster.SetAuth] and [Node.SetAuth] rotate them.
func BasicAuth(user, password string) Option {
	return func(o *options) { o.user, o.password, o.auth = user, password, true }
}

// TLS makes the nodes speak HTTPS (HTTP/1.1 and HTTP/2) with certificates of a
// certificate authority made for this cluster; see [Cluster.TLSConfig].
func TLS() Option { return func(o *options) { o.tls = serverTLS } }

// MutualTLS is [TLS] with nodes that demand a client certificate of the same authority.
func MutualTLS() Option { return func(o *options) { o.tls = mutualTLS } }

// Seed seeds the random choices of the cluster, that is faults with a
// probability. The default is 1, so runs repeat.
func Seed(seed uint64) Option { return func(o *options) { o.seed = seed } }

// Version sets the version the nodes report, by default "v10.2.7".
func Version(v string) Option { return func(o *options) { o.version = v } }

// ElectionTimeout sets how long the cluster stays without a leader when the
// leader fails. For the first nine tenths of it the followers still name the
// lost leader, for the last tenth they know of none. The default is 1 s.
func ElectionTimeout(d time.Duration) Option { return func(o *options) { o.electionTimeout = d } }

// LeaderLease sets how long a leader that has lost its quorum still takes itself
// for the leader. The default is 500 ms.
func LeaderLease(d time.Duration) Option { return func(o *options) { o.leaderLease = d } }

// Latency makes every request that goes through the log take at least write, and
// every other read at least read. Requests wait side by side, as they do in a
// cluster that groups log entries. The default is no latency.
func Latency(write, read time.Duration) Option {
	return func(o *options) { o.writeLatency, o.readLatency = write, read }
}

// ForeignKeys turns foreign key enforcement on, as rqlited -fk does. It is off by default.
func ForeignKeys() Option { return func(o *options) { o.foreignKeys = true } }

// LogLimit bounds the request log to the last n requests, 0 turns it off. The
// default is 10,000. Long benchmarks want it low, as the log holds the bodies.
func LogLimit(n int) Option { return func(o *options) { o.logLimit = n } }
