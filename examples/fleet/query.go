package main

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	_ "github.com/ncruces/go-sqlite3/driver" // the verification's own connection

	"github.com/quorate/quorate/store/engine"
)

// querier runs plain SQL for the verification, apart from the store that is
// verified. Columns come as int64, float64, string or nil.
type querier interface {
	query(ctx context.Context, query string, args ...any) ([][]any, error)
	close() error
}

// sqlQuerier reads a SQLite file over a connection of its own.
type sqlQuerier struct{ db *sql.DB }

func openSQL(path string) (querier, error) {
	uri := url.URL{Scheme: "file", OmitHost: true, Path: path, RawQuery: "_pragma=query_only(1)"}
	db, err := sql.Open("sqlite3", uri.String())
	if err != nil {
		return nil, err
	}
	db.SetMaxIdleConns(-1)
	return sqlQuerier{db}, nil
}

func (q sqlQuerier) close() error { return q.db.Close() }

func (q sqlQuerier) query(ctx context.Context, query string, args ...any) (result [][]any, err error) {
	rows, err := q.db.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	columns, err := rows.Columns()
	if err != nil {
		return nil, err
	}
	for rows.Next() {
		row := make([]any, len(columns))
		to := make([]any, len(columns))
		for i := range row {
			to[i] = &row[i]
		}
		if err := rows.Scan(to...); err != nil {
			return nil, err
		}
		for i, v := range row {
			if b, ok := v.([]byte); ok {
				row[i] = string(b)
			}
		}
		result = append(result, row)
	}
	return result, rows.Err()
}

// engineQuerier reads a database in memory, which only its engine can reach.
type engineQuerier struct{ eng engine.Engine }

func (engineQuerier) close() error { return nil }

func (q engineQuerier) query(ctx context.Context, query string, args ...any) ([][]any, error) {
	stmt := engine.Statement{SQL: query}
	for _, a := range args {
		switch a := a.(type) {
		case string:
			stmt.Args = append(stmt.Args, engine.Text(a))
		case int64:
			stmt.Args = append(stmt.Args, engine.Int(a))
		default:
			return nil, fmt.Errorf("parameter of type %T", a)
		}
	}
	results, err := q.eng.Query(ctx, engine.Linearizable, []engine.Statement{stmt})
	if err != nil {
		return nil, err
	}
	var rows [][]any
	for i := range results[0].Len() {
		var row []any
		for _, v := range results[0].Row(i) {
			switch v.Kind() {
			case engine.KindNull:
				row = append(row, nil)
			case engine.KindInt:
				n, _ := v.Int()
				row = append(row, n)
			case engine.KindFloat:
				n, _ := v.Float()
				row = append(row, n)
			default:
				s, _ := v.Bytes()
				row = append(row, s)
			}
		}
		rows = append(rows, row)
	}
	return rows, nil
}

// rqliteQuerier reads a rqlite cluster over plain HTTP.
type rqliteQuerier struct {
	urls []string
	http *http.Client
}

func openRqlite(urls []string) querier {
	return rqliteQuerier{urls, &http.Client{
		Timeout:   time.Minute,
		Transport: &http.Transport{Proxy: http.ProxyFromEnvironment, MaxIdleConnsPerHost: 2},
	}}
}

func (q rqliteQuerier) close() error { q.http.CloseIdleConnections(); return nil }

// query asks the nodes one after the other until one answers.
func (q rqliteQuerier) query(ctx context.Context, query string, args ...any) ([][]any, error) {
	body, err := json.Marshal([]any{append([]any{query}, args...)})
	if err != nil {
		return nil, err
	}
	var errs []error
	for _, base := range q.urls {
		rows, err := q.ask(ctx, base, body)
		if err == nil {
			return rows, nil
		}
		errs = append(errs, err)
	}
	return nil, errors.Join(errs...)
}

// ask uses level strong: it goes through the Raft log, so it sees every write.
func (q rqliteQuerier) ask(ctx context.Context, base string, body []byte) (rows [][]any, err error) {
	u, err := url.Parse(base)
	if err != nil {
		return nil, errors.New("not a URL")
	}
	u.Path, u.RawQuery = "/db/query", "level=strong&timeout=60s"
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, u.String(), bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	res, err := q.http.Do(req)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, res.Body.Close()) }()
	if res.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s answered %s", u.Host, res.Status)
	}
	var answer struct {
		Results []struct {
			Values [][]any
			Error  string
		}
		Error string
	}
	decoder := json.NewDecoder(io.LimitReader(res.Body, 256<<20))
	decoder.UseNumber()
	if err := decoder.Decode(&answer); err != nil {
		return nil, fmt.Errorf("answer of %s: %w", u.Host, err)
	}
	if answer.Error != "" || len(answer.Results) != 1 {
		return nil, fmt.Errorf("%s answered %q", u.Host, answer.Error)
	}
	if e := answer.Results[0].Error; e != "" {
		return nil, fmt.Errorf("%s answered %q", u.Host, e)
	}
	for _, row := range answer.Results[0].Values {
		for i, v := range row {
			if n, ok := v.(json.Number); ok {
				if row[i], err = n.Int64(); err != nil {
					row[i], _ = n.Float64()
				}
			}
		}
	}
	return answer.Results[0].Values, nil
}
