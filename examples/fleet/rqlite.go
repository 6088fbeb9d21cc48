package main

import (
	"context"
	"log/slog"
	"net/url"
	"strings"
	"time"

	"github.com/quorate/quorate/client"
	"github.com/quorate/quorate/store/engine"
)

// openCluster connects to rqlite. It tries for some seconds only: whoever runs
// this waits for it.
func openCluster(ctx context.Context, urls []string, log *slog.Logger) (engine.Engine, error) {
	return client.Open(ctx, urls, client.WithLogger(log), client.WithConnectRetry(5, time.Second))
}

// hosts lists the hosts of URLs, without the credentials that they may hold.
func hosts(urls []string) string {
	names := make([]string, len(urls))
	for i, raw := range urls {
		if u, err := url.Parse(raw); err == nil {
			names[i] = u.Host
		}
	}
	return strings.Join(names, ", ")
}
