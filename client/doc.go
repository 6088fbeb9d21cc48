// Package client is Quorate's engine for rqlite clusters over HTTP. [Open]
// connects; the [Engine] runs statements and queries, and says the truth about
// what became of them.
//
//	e, err := client.Open(ctx, []string{"http://user:pw@10.0.0.1:4001,10.0.0.2:4001"})
//	if err != nil { ... }
//	defer e.Close()
//	results, err := e.Exec(ctx, []engine.Statement{ ... })
//
// # What happens to a request
//
// It goes to the node that leads, directly, since a follower that passes a write
// on may do so twice. When that node turns out not to lead, or cannot be reached,
// one search finds the new leader for all who wait, with a handful of requests
// per second, and one request tries the new leader before the others follow.
// A write is sent again only if it was surely not applied; a read also if it may
// have been answered. Redirects are followed as POST with the whole body and
// parameters, and only to nodes that were configured or that a known node lists.
// A request that hangs for half a second makes the client ask the other nodes
// whether they have another leader; if so, what hangs is given up at once.
//
// # What an error means
//
// All errors are [*engine.Error] and match one of three kinds:
//
//	situation                                          kind                      reason
//	no node reachable, or no leader, until ctx ended   engine.ErrNotApplied      engine.ErrUnavailable, engine.ErrNoLeader
//	ctx ended before the request was sent              engine.ErrNotApplied      engine.ErrUnavailable, the context's error
//	ctx ended while the request was under way          engine.ErrOutcomeUnknown  the context's error
//	connection lost, or no answer in time              engine.ErrOutcomeUnknown  engine.ErrUnavailable
//	the leader stepped down while it committed         engine.ErrOutcomeUnknown  engine.ErrUnavailable
//	a statement was refused; all were undone           engine.ErrNotApplied      *engine.StatementError
//	a statement cannot be sent unchanged               engine.ErrNotApplied      ErrUnbindable
//	credentials refused                                engine.ErrNotApplied      engine.ErrUnauthorized
//	TLS not trusted, or not spoken                     engine.ErrNotApplied      engine.ErrInsecure
//	disk of the leader full                            engine.ErrNotApplied      engine.ErrFull
//	request refused as a whole (status 4xx)            engine.ErrNotApplied      engine.ErrProtocol, *ServerError
//	applied, but the results cannot be read            engine.ErrApplied         engine.ErrProtocol, *DecodeError
//	an answer that nobody understands                  engine.ErrOutcomeUnknown  engine.ErrProtocol
//	the engine is closed                               by what was sent          engine.ErrClosed
//
// Reads change nothing, so errors of reads are always engine.ErrNotApplied.
package client
