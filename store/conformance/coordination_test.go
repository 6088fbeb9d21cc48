package conformance

import (
	"fmt"
	"testing"

	"github.com/quorate/quorate/store/postgres/postgrestest"
	"github.com/quorate/quorate/store/storetest"
)

func TestCoordinationSQLiteMemory(t *testing.T) {
	storetest.RunCoordination(t, storetest.Harness{Open: inMemory})
}

func TestCoordinationSQLiteFile(t *testing.T) {
	storetest.RunCoordination(t, storetest.Harness{Open: inFile})
}

func TestCoordinationRqlitetest(t *testing.T) { storetest.RunCoordination(t, rqlitetestHarness(t)) }

func TestCoordinationRqlited(t *testing.T) {
	for _, nodes := range []int{1, 3} {
		t.Run(fmt.Sprintf("nodes=%d", nodes), func(t *testing.T) { storetest.RunCoordination(t, rqlitedHarness(t, nodes)) })
	}
}

func TestCoordinationPostgres(t *testing.T) {
	postgrestest.Require(t)
	storetest.RunCoordination(t, storetest.Harness{Open: onPostgres})
}
