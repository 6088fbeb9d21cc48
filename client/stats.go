package client

import "sync/atomic"

// Stats is a snapshot of an engine's counters since it was opened.
type Stats struct {
	// Requests is the number of HTTP requests sent for callers, retries among
	// them.
	Requests uint64
	// Probes is the number of HTTP requests sent to find out who leads.
	Probes uint64
	// Retries is the number of requests sent again.
	Retries uint64
	// Redirects is the number of answers that named another node as leader.
	Redirects uint64
	// LeaderChanges is the number of times that a new leader was found, the
	// first among them.
	LeaderChanges uint64
	// Unknown is the number of writes that ended with an unknown outcome.
	Unknown uint64
	// Connections is the number of network connections opened.
	Connections uint64
	// OpenConnections is the number of network connections open now.
	OpenConnections int64
	// BytesSent and BytesReceived count all bytes on the network, TLS among them.
	BytesSent, BytesReceived uint64
}

type counters struct {
	requests, probes, retries, redirects, leaderChanges, unknown atomic.Uint64
	connections, bytesSent, bytesReceived                        atomic.Uint64
	open                                                         atomic.Int64
}

func (c *counters) snapshot() Stats {
	return Stats{
		Requests:        c.requests.Load(),
		Probes:          c.probes.Load(),
		Retries:         c.retries.Load(),
		Redirects:       c.redirects.Load(),
		LeaderChanges:   c.leaderChanges.Load(),
		Unknown:         c.unknown.Load(),
		Connections:     c.connections.Load(),
		OpenConnections: c.open.Load(),
		BytesSent:       c.bytesSent.Load(),
		BytesReceived:   c.bytesReceived.Load(),
	}
}
