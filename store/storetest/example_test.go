package storetest_test

import (
	"path/filepath"
	"testing"

	"github.com/quorate/quorate/store/engine"
	"github.com/quorate/quorate/store/sqlite"
	"github.com/quorate/quorate/store/storetest"
)

// This is all that it takes to test an engine. In a package of its own it would
// be named TestEngine.
func testEngine(t *testing.T) {
	storetest.Run(t, storetest.Harness{Open: func(t testing.TB) storetest.Database {
		path := filepath.Join(t.TempDir(), "test.db")
		open := func(t testing.TB) engine.Engine {
			eng, err := sqlite.Open(path)
			if err != nil {
				t.Fatal(err)
			}
			return eng
		}
		return storetest.Database{Engine: open(t), Again: open}
	}})
}

// The test of an engine opens a new database for each promise, and another
// engine on it where a second process is needed.
func Example() {}
