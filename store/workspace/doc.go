// Package workspace keeps an append-only log of events for each workspace, and
// beside it the runs, rules' progress and states, dead letters and schedules of
// those who react to the events. What a transaction writes to all of them is one
// atomic step, so a consumer that moves its own position in the same transaction
// sees each event exactly once.
//
//	ws, err := workspace.Open(ctx, eng) // sqlite.Open, client.Open, ...
//	ref := workspace.Ref{Tenant: "acme", Workspace: "orders"}
//	entry, err := workspace.NewEntry("order:placed", workspace.System("shop"), order)
//	events, err := ws.Append(ctx, ref, entry)
//	for e, err := range ws.Subscribe(ctx, ref, 0) { ... }
//	err = ws.Transact(ctx, ref, func(ctx context.Context, tx *workspace.Tx) error { ... })
//
// # What holds
//
//   - The events of a log are numbered from 1 without gaps, in the order of their
//     commits. Their times never decrease, whatever the clocks of those who append.
//   - Transactions of one workspace are serial, from the first read on, across all
//     processes. Those of different workspaces are independent.
//   - An event's id is unique in its workspace. Appending it again is refused, with
//     its position; so every append can be repeated until it is known to be in the
//     log.
//   - The bytes of events and states are kept as they were given: unknown types and
//     fields, the order of keys, and numbers of any size survive.
//   - A write that failed was not applied, or the error says that nobody knows.
//
// # How transactions land
//
// One [Tx] serves all engines: it keeps the writes and lays them over what it reads.
// Where the engine has interactive transactions ([engine.Transactor]: SQLite,
// PostgreSQL), the workspace's row is locked before the function runs, and the
// writes follow in the same transaction. Elsewhere (rqlite) they go out as one
// request that is guarded by the revision which the function saw; if another write
// came in between, the function runs again. An answer that is lost is looked up by
// the commit's token, and the function is not run again.
//
// [Store.Append] needs no transaction: its SQL takes the next positions from the row.
// It never conflicts, and appends of many callers share a request, through
// [Store.Apply] or the asynchronous log of package actor.
package workspace
