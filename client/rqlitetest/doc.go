// Package rqlitetest runs a cluster of rqlite inside a test. Its nodes speak
// rqlite's HTTP protocol over one shared SQLite database in memory, answer as
// rqlite 10.2.7 does, quirks included, and fail on command. It is made for tests
// of programs that talk to rqlite: with it the rare moments of a cluster (a
// leader lost between commit and answer, a follower that sends a write twice)
// happen when the test wants them to.
//
// # Start
//
//	c := rqlitetest.Start(t)          // 3 nodes on loopback, closed with the test
//	open(c.URLs())                    // the program under test
//	rows, err := c.SQL(ctx, "SELECT count(*) FROM jobs") // what is really there
//
// [New] does the same outside of tests. [Cluster.SQL] and [Cluster.Exec] look at
// the database itself, past HTTP and faults; [Cluster.Log] tells what each node
// was asked, how often a request was applied and how it ended; [Node.Accepted]
// counts connections.
//
// # Fake time
//
// With [InMemoryNetwork] nothing waits on the real world, so a whole test fits in
// a testing/synctest bubble, where minutes of timeouts pass at once:
//
//	synctest.Test(t, func(t *testing.T) {
//		c := rqlitetest.Start(t, rqlitetest.InMemoryNetwork())
//		tr := &http.Transport{DialContext: c.DialContext}
//		defer tr.CloseIdleConnections()
//		...
//	})
//
// # Faults of a request
//
// [Cluster.Inject] makes an [Action] happen to the requests that [Match] says:
// of a node, of some kinds, so many of them, with some probability.
//
//	c.Inject(rqlitetest.Match{Kind: rqlitetest.KindExecute, Times: 1}, rqlitetest.ResetApplied())
//
// Refused, surely not applied:
//   - [NoLeader]: 503 "leader not found", or 500 with redirect
//   - [RedirectTo] a node or a foreign host, [RedirectNext] in circles
//   - [ErrorUnapplied]: 200 with a top-level error; see [TextNotLeader] and the other texts
//   - [Unauthorized]: 401; [Cluster.SetAuth] and [Node.SetAuth] rotate credentials for good
//   - [Reset] and [ResetUnread]: the connection is reset first
//
// Applied, though the client is not told so:
//   - [ErrorApplied]: 200 with a top-level error
//   - [ResetApplied], [CloseApplied], [CutAnswer]: the connection ends before or within the answer
//   - [HangApplied], and [Slow] with a delay after: the answer comes late or never
//   - [ApplyTwice]: applied once more, as a follower does that forwards twice
//
// Answers that are not as expected:
//   - [FewerResults], [MoreResults], [LoseReturning]
//   - [FailStatement]: one statement of the list fails, which undoes a transaction
//   - [HTML], [HugeBody], [Respond] with anything
//   - [Edit] changes the true answer, [Func] decides for each request
//
// Waiting:
//   - [Slow] before the write, [Hang] for good, [Block] and [QueueFull] until the fault is removed
//   - [Action.Before] and [Action.After] add delays to any action
//
// # Faults of a connection
//
//   - [Node.Silence]: open connections fall silent, new ones work
//   - [Node.BlackHole]: connections are accepted and never answered
//   - [Node.DropDials]: new connections are not even established
//   - [Node.DoomIdle]: an idle connection closes just as the next request is written
//   - [Node.CloseIdle], [Node.ResetConns]
//
// # Faults of a node
//
//   - [Node.Stop] and [Node.Restart]: connections are reset, then refused
//   - [Node.Pause] and [Node.Resume]: requests hang, forwarded ones too
//   - [Node.Isolate] and [Node.Rejoin]: cut off from the others, not from clients
//   - [Node.Freeze], [Node.Lag] and [Node.Thaw]: reads see old state
//   - [Node.ResumeStale]: a leader that was replaced has not noticed yet
//
// # Leaders
//
// The first node leads at the start. When the leader stops, is paused or cut off,
// and a majority is left, another node is elected after the [ElectionTimeout]:
// the first live node in order, one that is up to date if possible. A leader
// without a majority steps down after its [LeaderLease]. [Cluster.Elect] and
// [Cluster.LoseLeader] change the leader by command, with or without a gap.
//
// # What is exact
//
// Commits are atomic and in one total order, whatever the faults: a write is
// applied by the node that leads, checked in the same step. Reads of level
// linearizable and strong see all that was committed before; weak and none read
// the node's own state. All nodes read one database except those that lag, are
// frozen, or were paused as leader or cut off; these get a copy when the next
// write comes.
//
// The answers are compared with those of the real server by a test in this
// package: shapes, key order, counters, error texts, status codes and headers.
//
// # What is not there
//
// There is no Raft, and no /db/backup, /db/load, /db/sql, /boot, /snapshot,
// /reap, /remove (they answer 501). The parameter db_timeout is checked and
// ignored. Statements are not rewritten: random() and the time functions are
// evaluated by SQLite, once, and the clause RETURNING beside them keeps its rows,
// which the real server loses for UPDATE and DELETE. Credentials carry all
// permissions. A BEGIN sent to /db/query ends with the request.
package rqlitetest
