package conformance

import (
	"path/filepath"
	"testing"

	"github.com/quorate/quorate/store/engine"
	"github.com/quorate/quorate/store/sqlite"
	"github.com/quorate/quorate/store/storetest"
)

func openSQLite(t testing.TB, path string) engine.Engine {
	t.Helper()
	eng, err := sqlite.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	return eng
}

func inMemory(t testing.TB) storetest.Database {
	return storetest.Database{Engine: openSQLite(t, ":memory:")}
}

func inFile(t testing.TB) storetest.Database {
	path := filepath.Join(t.TempDir(), "test.db")
	return storetest.Database{
		Engine: openSQLite(t, path),
		Again:  func(t testing.TB) engine.Engine { return openSQLite(t, path) },
	}
}

func TestSQLiteMemory(t *testing.T) { storetest.Run(t, storetest.Harness{Open: inMemory}) }

// The suite on a file is the example of package storetest, and runs there.

func BenchmarkSQLite(b *testing.B) { storetest.Benchmark(b, storetest.Harness{Open: inFile}) }
