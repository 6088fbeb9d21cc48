package rqlitetest

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// BenchmarkExecute measures what the double itself carries, by statements per request.
func BenchmarkExecute(b *testing.B) {
	for _, network := range []struct {
		name string
		opts []Option
	}{{"loopback", nil}, {"memory", []Option{InMemoryNetwork()}}} {
		for _, batch := range []int{1, 10, 100, 1000} {
			b.Run(fmt.Sprintf("%s/%d", network.name, batch), func(b *testing.B) {
				c, cl := withTable(b, append(network.opts, LogLimit(0))...)
				stmts := make([]string, batch)
				for i := range stmts {
					stmts[i] = `["INSERT INTO t(v) VALUES(?)","a value of some length"]`
				}
				body := "[" + strings.Join(stmts, ",") + "]"
				b.ReportAllocs()
				b.ResetTimer()
				for range b.N {
					if status, answer := post(b, cl, c.URL(0)+"/db/execute?transaction", body); status != http.StatusOK {
						b.Fatal(answer)
					}
				}
				b.ReportMetric(float64(batch*b.N)/b.Elapsed().Seconds(), "stmt/s")
			})
		}
	}
}

// BenchmarkExecuteParallel measures requests of one statement from 32 callers.
func BenchmarkExecuteParallel(b *testing.B) {
	c, cl := withTable(b, LogLimit(0))
	b.SetParallelism(16)
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if status, answer := post(b, cl, c.URL(0)+"/db/execute", insert); status != http.StatusOK {
				b.Error(answer)
				return
			}
		}
	})
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "stmt/s")
}
