package coordination

import (
	"slices"

	"github.com/quorate/quorate/store/migration"
)

// steps are the versions of the tables. Each mechanism's file has its own DDL.
var steps = []migration.Step{
	{Version: 1, DDL: slices.Concat(lockDDL, rwlockDDL, electionDDL, scheduleDDL, cacheDDL, limiterDDL)},
}
