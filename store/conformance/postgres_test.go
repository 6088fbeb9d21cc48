package conformance

import (
	"testing"

	"github.com/quorate/quorate/store/engine"
	"github.com/quorate/quorate/store/postgres"
	"github.com/quorate/quorate/store/postgres/postgrestest"
	"github.com/quorate/quorate/store/storetest"
)

func openPostgres(t testing.TB, url string) engine.Engine {
	t.Helper()
	eng, err := postgres.Open(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	return eng
}

func onPostgres(t testing.TB) storetest.Database {
	url := postgrestest.Schema(t)
	return storetest.Database{
		Engine: openPostgres(t, url),
		Again:  func(t testing.TB) engine.Engine { return openPostgres(t, url) },
		Typed:  true,
	}
}

func TestPostgres(t *testing.T) {
	postgrestest.Require(t)
	storetest.Run(t, storetest.Harness{Open: onPostgres})
}

func BenchmarkPostgres(b *testing.B) {
	postgrestest.Require(b)
	storetest.Benchmark(b, storetest.Harness{Open: onPostgres})
}
