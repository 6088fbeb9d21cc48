package rqlitetest

import (
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
)

// Kind is a kind of request, or a set of kinds.
type Kind uint16

// The kinds of requests. Any is all of them.
const (
	Execute     Kind = 1 << iota // /db/execute
	Query                        // /db/query
	RequestKind                  // /db/request
	Nodes_                       // /nodes
	LeaderKind                   // /leader
	Status                       // /status
	Readyz                       // /readyz
	Other                        // every other path
	Wire                         // no request: an event on a connection, in the log only

	Any = Execute | Query | RequestKind | Nodes_ | LeaderKind | Status | Readyz | Other
)
