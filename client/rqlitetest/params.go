package rqlitetest

import (
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// level is a read's consistency.
type level uint8

const (
	levelWeak level = iota
	levelNone
	levelLinearizable
	levelStrong
	levelAuto
)

// defaultTimeout is how long a node waits for another one.
const defaultTimeout = 30 * time.Second

// params are the query parameters; most are flags that count by their presence.
type params map[string]string

// parseParams reads and checks the query string, before anything else is looked at.
func parseParams(raw string) (params, error) {
	values, err := url.ParseQuery(raw)
	if err != nil {
		return nil, err
	}
	p := make(params, len(values))
	for k, v := range values {
		p[k] = v[0]
	}
	if p.has("freshness_strict") && !p.has("freshness") {
		return nil, errors.New("freshness_strict requires freshness")
	}
	for _, k := range [...]string{"timeout", "freshness", "db_timeout", "linearizable_timeout"} {
		if s, ok := p[k]; ok {
			if _, err := time.ParseDuration(s); err != nil {
				return nil, fmt.Errorf("%s is not a valid duration", k)
			}
		}
	}
	for _, k := range [...]string{"retries", "trailing_logs"} {
		if s, ok := p[k]; ok {
			if _, err := strconv.Atoi(s); err != nil {
				return nil, fmt.Errorf("%s is not a valid integer", k)
			}
		}
	}
	if q, ok := p["q"]; ok && q == "" {
		return nil, errors.New("query parameter not set")
	}
	return p, nil
}

func (p params) has(key string) bool {
	_, ok := p[key]
	return ok
}

func (p params) duration(key string, otherwise time.Duration) time.Duration {
	s, ok := p[key]
	if !ok {
		return otherwise
	}
	d, _ := time.ParseDuration(s) // checked by parseParams
	return d
}

func (p params) timeout() time.Duration { return p.duration("timeout", defaultTimeout) }

func (p params) retries() int {
	n, _ := strconv.Atoi(p["retries"]) // checked by parseParams, or absent
	return n
}

func (p params) level() level {
	switch strings.ToLower(p["level"]) {
	case "none":
		return levelNone
	case "linearizable":
		return levelLinearizable
	case "strong":
		return levelStrong
	case "auto":
		return levelAuto
	}
	return levelWeak
}

func (p params) encoding() encoding {
	return encoding{associative: p.has("associative"), blobArray: p.has("blob_array"), pretty: p.has("pretty")}
}
